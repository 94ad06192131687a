"""Images, their labels, and the split of a data set into labeled, unlabeled, validation and test images."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlude.data.address import Address, parse_address
    from interlude.data.images import UNKNOWN, Images
    from interlude.data.options import DataConfig
    from interlude.data.pixels import to_pixels
    from interlude.data.record import SplitRecord
    from interlude.data.sampler import Sampler
    from interlude.data.source import Source, channel_statistics, dataset, dataset_names, describe
    from interlude.data.split import Split, load

_HOMES = {
    "address": ("Address", "parse_address"),
    "images": ("UNKNOWN", "Images"),
    "options": ("DataConfig",),
    "pixels": ("to_pixels",),
    "record": ("SplitRecord",),
    "sampler": ("Sampler",),
    "source": ("Source", "channel_statistics", "dataset", "dataset_names", "describe"),
    "split": ("Split", "load"),
}

__all__ = [
    "UNKNOWN",
    "Address",
    "DataConfig",
    "Images",
    "Sampler",
    "Source",
    "Split",
    "SplitRecord",
    "channel_statistics",
    "dataset",
    "dataset_names",
    "describe",
    "load",
    "parse_address",
    "to_pixels",
]


def __getattr__(name: str) -> Any:
    """Names are fetched when first used: who only lists and decodes files does not wait for torch."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"interlude.data.{module}"), name)
    raise AttributeError(f"module 'interlude.data' has no attribute {name!r}")
