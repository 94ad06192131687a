"""Vectors of a frozen network: extracted once, kept on disk, and served to training in place of images."""

from interlude.features.options import FeaturesConfig

__all__ = ["FeaturesConfig"]
