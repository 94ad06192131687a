"""Networks: backbones by name, and the classifier around them."""

from interlude.models import cnn, normalized, timm_backbone, vectors, vit, wide_resnet  # noqa: F401  (register)
from interlude.models.classifier import Backbone, Classifier, Midway, evaluating
from interlude.models.export import load, save, set_calibration
from interlude.models.frozen import Frozen
from interlude.models.layers import Mover, use
from interlude.models.open_set import OpenSetClassifier
from interlude.models.refined import RefinedClassifier, prototypes_of
from interlude.models.registry import (
    ModelConfig,
    backbone,
    backbone_names,
    build,
    classifier_kind,
    describe,
    find_kind,
)

__all__ = [
    "Backbone",
    "Classifier",
    "Frozen",
    "Midway",
    "ModelConfig",
    "Mover",
    "OpenSetClassifier",
    "RefinedClassifier",
    "backbone",
    "backbone_names",
    "build",
    "classifier_kind",
    "describe",
    "evaluating",
    "find_kind",
    "load",
    "prototypes_of",
    "save",
    "set_calibration",
    "use",
]
