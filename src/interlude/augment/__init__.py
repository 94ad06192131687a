"""Augmentation on batches of bytes: draw all random numbers first, then apply them without chance."""

from interlude.augment.check import check_augmentation
from interlude.augment.cutout import Cutout
from interlude.augment.draw import Augmentation, Draw, take
from interlude.augment.geometry import FlipCrop
from interlude.augment.groups import Chain, Identity
from interlude.augment.policies import AugmentConfig, Policy, build, describe, policy, policy_names
from interlude.augment.randaugment import OPERATIONS, Operation, RandAugment
from interlude.augment.render import Backend, loaded, render, render_groups_into, render_into
from interlude.augment.sheet import sheet
from interlude.augment.views import normalize

__all__ = [
    "OPERATIONS",
    "AugmentConfig",
    "Augmentation",
    "Backend",
    "Chain",
    "Cutout",
    "Draw",
    "FlipCrop",
    "Identity",
    "Operation",
    "Policy",
    "RandAugment",
    "build",
    "check_augmentation",
    "describe",
    "loaded",
    "normalize",
    "policy",
    "policy_names",
    "render",
    "render_groups_into",
    "render_into",
    "sheet",
    "take",
]
