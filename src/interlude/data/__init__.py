"""Images, their labels, and the split of a data set into labeled, unlabeled, validation and test images."""

from interlude.data.address import Address, parse_address
from interlude.data.images import UNKNOWN, Images
from interlude.data.options import DataConfig
from interlude.data.pixels import to_pixels
from interlude.data.record import SplitRecord
from interlude.data.sampler import Sampler
from interlude.data.source import Source, channel_statistics, dataset, dataset_names, describe
from interlude.data.split import Split, load

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
