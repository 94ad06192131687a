"""Rows of a table in place of images: how they are held, how they are varied, and their batches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from interlude.augment import Augmentation, Draw, Identity
from interlude.batches import Batches, Kinds, Pick
from interlude.data import Images

AT_ONCE = 1024  # rows judged at once


@dataclass(frozen=True)
class Shake:
    """Gaussian noise on every number of a row; then a share of the numbers, by chance, becomes zero.

    Rows are in units of their columns: zero is the mean, so a number that is masked says nothing.
    """

    width: int
    noise: float
    masked: float = 0.0

    def draw(self, n: int, generator: Generator) -> Draw:
        return {
            "noise": torch.randn(n, self.width, generator=generator),
            "luck": torch.rand(n, self.width, generator=generator),
        }

    def apply(self, rows: Tensor, draw: Draw) -> Tensor:
        noise, luck = draw["noise"].to(rows.device), draw["luck"].to(rows.device)
        return (rows + self.noise * noise) * (luck >= self.masked)


@dataclass(frozen=True)
class Variation:
    """How far views of a row go from it, in standard deviations of the columns."""

    weak: float = 0.05
    strong: float = 0.2
    masked: float = 0.2

    def views(self, width: int) -> dict[str, Augmentation]:
        """One augmentation for every view word a method may ask for; what mirrors an image is weak here."""
        weak = Shake(width, self.weak)
        strong = Shake(width, self.strong, self.masked)
        return {"plain": Identity(), "flip": weak, "weak": weak, "strong": strong}


@dataclass(frozen=True, eq=False)
class Table(Images):
    """Rows of D numbers, float32 (M, D, 1, 1): each counts as an image of D channels and one pixel."""

    variation: Variation = Variation()

    def __post_init__(self) -> None:
        assert self.pixels.dtype == torch.float32, self.pixels.dtype
        assert self.pixels.shape[2:] == (1, 1), self.pixels.shape
        assert self.labels.shape == self.pixels.shape[:1], (self.labels.shape, self.pixels.shape)


class TableBatches(Batches):
    """Batches whose views are rows (N, D)."""

    def inputs(self, pixels: Tensor, kinds: Kinds, draws: list[Draw]) -> tuple[Tensor, ...]:
        rows = pixels.flatten(1).to(self.device)
        return tuple(
            self.augmentation(kind).apply(rows, draw) for kind, draw in zip(kinds, draws, strict=True)
        )

    def inputs_of(
        self, pick: Pick, labeled: Kinds, unlabeled: Kinds, steps: int
    ) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        x, u = self.split.labeled.take(pick.rows_x), self.split.unlabeled.take(pick.rows_u)
        views = self.inputs(x, labeled, pick.draws_x), self.inputs(u, unlabeled, pick.draws_u)
        of_x, of_u = ([view.unflatten(0, (steps, -1)) for view in each] for each in views)
        return of_x, of_u

    def clean(self, images: Images) -> Iterator[Tensor]:
        for rows in torch.arange(len(images)).split(AT_ONCE):
            yield images.take(rows).flatten(1).to(self.device)
