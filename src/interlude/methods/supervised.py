"""Labeled images only: the control that tells what the unlabeled ones are worth.

With `strong` the labels are also trained on strongly augmented views, as every semi-supervised method here
sees them: most of the gain that is often credited to unlabeled images comes from this augmentation.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from interlude.method import Batch, Clock, Method, Objective, Task, register
from interlude.models import Classifier
from interlude.options import option


@register
class Supervised(Method):
    """Cross-entropy on the labeled images; the unlabeled ones are not touched."""

    unlabeled = ()

    @dataclass(frozen=True)
    class Config(Method.Config):
        strong: bool = option(False, "train on a strong view of each labeled image too: the fair control")

    def __init__(self, cfg: Config, model: Classifier, task: Task) -> None:
        super().__init__(cfg, model, task)
        self.labeled = ("weak", "strong") if cfg.strong else ("weak",)

    def step(self, batch: Batch, clock: Clock) -> Iterator[Objective]:
        return self.step_on_labels(batch)
