"""Networks: backbones by name, and the classifier around them."""

from interlude.models import cnn, timm_backbone, vit, wide_resnet  # noqa: F401  (they register themselves)
from interlude.models.classifier import Backbone, Classifier, Midway
from interlude.models.export import load, save
from interlude.models.registry import ModelConfig, backbone, backbone_names, build, describe

__all__ = [
    "Backbone",
    "Classifier",
    "Midway",
    "ModelConfig",
    "backbone",
    "backbone_names",
    "build",
    "describe",
    "load",
    "save",
]
