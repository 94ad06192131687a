"""Images in groups that share a realisation, and augmentations that treat a group as one."""

from abc import ABC, abstractmethod
from functools import cached_property

import torch
from torch import Generator, Tensor

from interlude.augment.draw import Augmentation, Draw, take
from interlude.augment.strips import Margin, Strips

LARGE = 2**16  # bytes in the images of a group


def are_large(images: Tensor) -> bool:
    """Whether a few calls of numpy for each group take less time than a few of torch for all."""
    return images.device.type == "cpu" and images[:1].numel() >= LARGE


class Groups:
    """Images to make views of, uint8 (G, M, C, H, W): row i of a draw is for all images of group i."""

    def __init__(self, images: Tensor) -> None:
        self.images = images
        self._strips: dict[Margin | None, Strips] = {}

    @cached_property
    def mirrored(self) -> Tensor:
        """They, left and right exchanged; made once for all views."""
        return self.images.flip(-1)

    def strips(self, margin: Margin | None) -> Strips:
        """Their lines, ready to be cut; laid out once for all views."""
        if margin not in self._strips:
            self._strips[margin] = Strips(self.images, margin)
        return self._strips[margin]


class OfGroups(ABC):
    """An augmentation that works its numbers out once for a group; an image alone is a group of one."""

    @abstractmethod
    def views(self, groups: Groups, draw: Draw) -> Tensor:
        """New uint8 images (G, M, C, H, W): row i of the draw on all images of group i."""

    def apply(self, images: Tensor, draw: Draw) -> Tensor:
        """New uint8 images (N, C, H, W): row i of the draw on image i, the same result every time."""
        return self.views(Groups(images[:, None]), draw)[:, 0]


class Overwriting(OfGroups):
    """One that can also work in the memory of the images it is given."""

    @abstractmethod
    def overwrite(self, images: Tensor, draw: Draw) -> Tensor:
        """The same as `views` of groups of such images, which may be lost."""

    def views(self, groups: Groups, draw: Draw) -> Tensor:
        return self.overwrite(groups.images.clone(), draw)


def views_of(augmentation: Augmentation, groups: Groups, draw: Draw) -> Tensor:
    """The views of groups by any augmentation; one that knows no groups is given the images one by one."""
    if isinstance(augmentation, OfGroups):
        return augmentation.views(groups, draw)
    images = groups.images
    group_of_row = torch.arange(len(images)).repeat_interleave(images.shape[1])
    return augmentation.apply(images.flatten(0, 1), take(draw, group_of_row)).view_as(images)


class Identity(OfGroups):
    """The image as it is."""

    def draw(self, n: int, generator: Generator) -> Draw:
        return {}

    def views(self, groups: Groups, draw: Draw) -> Tensor:
        return groups.images.clone()


class Chain(OfGroups):
    """Augmentations one after the other, under one draw."""

    def __init__(self, *parts: Augmentation) -> None:
        self.parts = parts

    def draw(self, n: int, generator: Generator) -> Draw:
        draw: Draw = {}
        for part in self.parts:
            numbers = part.draw(n, generator)
            assert not draw.keys() & numbers.keys(), (
                f"two parts of a chain draw {draw.keys() & numbers.keys()}"
            )
            draw |= numbers
        return draw

    def views(self, groups: Groups, draw: Draw) -> Tensor:
        first, *others = self.parts
        views = views_of(first, groups, draw)
        for part in others:
            if isinstance(part, Overwriting):
                views = part.overwrite(views, draw)
            else:
                views = views_of(part, Groups(views), draw)
        return views
