"""All training labels: the bound that semi-supervised methods are compared with.

With weak augmentation only it is not a true upper bound: FixMatch with 4,000 CIFAR-10 labels is published
below it.
"""

from interlude.method import register
from interlude.methods.supervised import Supervised


@register
class FullySupervised(Supervised):
    """`supervised` on every labeled training image, whatever number of labels was asked for."""

    needs_all_labels = True
