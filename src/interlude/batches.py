"""The batch of each step: which images, which draws, which views; a pure function of (seed, step)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

from interlude import distributed, evaluate, rng
from interlude.adjacent import rooms
from interlude.augment import (
    Augmentation,
    Backend,
    Draw,
    loaded,
    render,
    render_groups_into,
    render_into,
    take,
)
from interlude.data import Images, Sampler, Split
from interlude.errors import unknown
from interlude.method import Batch

Kinds = tuple[str, ...]

# Making a small batch is hundreds of calls, and making several together is no more of them.
STEPS_AT_ONCE = 8
VALUES_AT_ONCE = 2**24  # numbers in their views; with more, calls weigh little and memory much


class Pick(NamedTuple):
    """What chance decides about a batch."""

    rows_x: Tensor
    rows_u: Tensor
    draws_x: list[Draw]
    draws_apart: list[Draw] | None  # those of the unlabeled images, where they do not share their group's

    @property
    def draws_u(self) -> list[Draw]:
        """The draws of each unlabeled image, shared or not."""
        if self.draws_apart is not None:
            return self.draws_apart
        mu = len(self.rows_u) // len(self.rows_x)
        return [take(draw, torch.arange(len(self.rows_u)) // mu) for draw in self.draws_x]


def own_part(pick: Pick) -> Pick:
    """What chance decides about this process's groups."""
    if distributed.num_processes() == 1:
        return pick
    return Pick(
        distributed.own(pick.rows_x),
        distributed.own(pick.rows_u),
        _own_rows(pick.draws_x),
        None if pick.draws_apart is None else _own_rows(pick.draws_apart),
    )


def _own_rows(draws: list[Draw]) -> list[Draw]:
    return [{name: distributed.own(values) for name, values in draw.items()} for draw in draws]


def joined(picks: list[Pick]) -> Pick:
    """What chance decides about several batches, as if they were one."""
    rows_x, rows_u, draws_x, draws_apart = zip(*picks, strict=True)
    return Pick(
        torch.cat(rows_x),
        torch.cat(rows_u),
        _joined_rows(draws_x),
        None if draws_apart[0] is None else _joined_rows(draws_apart),
    )


def _joined_rows(draws: Sequence[list[Draw]]) -> list[Draw]:
    of_views = zip(*draws, strict=True)
    return [{name: torch.cat([draw[name] for draw in each]) for name in each[0]} for each in of_views]


class Batches:
    """Builds the views that a method declares, for any step, in any order."""

    def __init__(
        self,
        split: Split,
        augmentations: Mapping[str, Augmentation],
        *,
        batch: int,
        mu: int,
        seed: int,
        device: torch.device,
        backend: Backend = "auto",
    ) -> None:
        self.split, self.augmentations = split, augmentations
        self.batch, self.mu, self.seed, self.device, self.backend = batch, mu, seed, device, backend
        self._ready: dict[Any, Batch] = {}
        if backend == "numba":
            loaded()  # whoever insists on it should hear at the start that it is missing

    def __call__(self, step: int, labeled: Kinds, unlabeled: Kinds, *, shared_draws: bool) -> Batch:
        """This process's part of the batch of `step`, with these views."""
        views = labeled, unlabeled, shared_draws
        if (step, views) not in self._ready:
            steps = range(step, step + self.steps_at_once(labeled, unlabeled))
            made = self.make(steps, labeled, unlabeled, shared_draws=shared_draws)
            self._ready = {(step, views): batch for step, batch in zip(steps, made, strict=True)}
        return self._ready.pop((step, views))

    def steps_at_once(self, labeled: Kinds, unlabeled: Kinds) -> int:
        """For how many steps to make batches together: a power of two, so that any eight cost the same."""
        rows = self.batch * (len(labeled) + self.mu * len(unlabeled))
        fitting = VALUES_AT_ONCE // (rows * self.split.labeled.pixels.shape[1:].numel())
        return int(2 ** (max(1, min(STEPS_AT_ONCE, fitting)).bit_length() - 1))

    def make(
        self, steps: Sequence[int], labeled: Kinds, unlabeled: Kinds, *, shared_draws: bool
    ) -> list[Batch]:
        """The batches of some steps: the same, however many are made together."""
        picks = [self.pick(step, labeled, unlabeled, shared_draws=shared_draws) for step in steps]
        pick = joined([own_part(pick) for pick in picks])

        def by_step(rows: Tensor) -> Sequence[Tensor]:
            return rows.to(self.device).tensor_split(len(steps))

        x, u = self.inputs_of(pick, labeled, unlabeled, len(steps))
        y, rows_x, rows_u = map(
            by_step, (self.split.labeled.labels_of(pick.rows_x), pick.rows_x, pick.rows_u)
        )
        return [
            Batch(
                x=tuple(view[number] for view in x),
                y=y[number],
                u=tuple(view[number] for view in u),
                rows_x=rows_x[number],
                rows_u=rows_u[number],
            )
            for number in range(len(steps))
        ]

    def pick(self, step: int, labeled: Kinds, unlabeled: Kinds, *, shared_draws: bool) -> Pick:
        """Rows and draws of `step`; with shared draws, view k of a whole group has one draw."""
        num_u = self.batch * self.mu if unlabeled else 0
        generator = rng.generator(self.seed, "draws", step)
        assert labeled == unlabeled or not shared_draws, "draws are shared between the same kinds of views"
        return Pick(
            self.rows(self.split.labeled, "labeled", step, self.batch),
            self.rows(self.split.unlabeled, "unlabeled", step, num_u),
            self.draws(labeled, self.batch, generator),
            None if shared_draws else self.draws(unlabeled, num_u, generator),
        )

    def draws(self, kinds: Kinds, count: int, generator: Generator) -> list[Draw]:
        """The random numbers of so many views of each kind."""
        return [self.augmentation(kind).draw(count, generator) for kind in kinds]

    def rows(self, images: Images, stream: str, step: int, count: int) -> Tensor:
        """Which `count` images `step` takes from a stream that visits each of them once an epoch."""
        if not count:
            return torch.empty(0, dtype=torch.int64)
        return Sampler(len(images), seed=self.seed, stream=stream).rows(step * count, count)

    def pictures(self, step: int, kinds: Kinds, *, shared_draws: bool) -> list[dict[str, Tensor]]:
        """For each group of `step`, its uint8 images, original and in each kind of view: labeled first."""
        pick = self.pick(step, kinds, kinds, shared_draws=shared_draws)
        x, u = self.split.labeled.take(pick.rows_x), self.split.unlabeled.take(pick.rows_u)
        views_x = [x, *self.views(x, kinds, pick.draws_x)]
        views_u = [u, *self.views(u, kinds, pick.draws_u)]
        titles = ["original", *kinds]
        return [
            {
                title: torch.cat([of_x[group : group + 1], of_u[group * self.mu : (group + 1) * self.mu]])
                for title, of_x, of_u in zip(titles, views_x, views_u, strict=True)
            }
            for group in range(self.batch)
        ]

    def views(self, pixels: Tensor, kinds: Kinds, draws: list[Draw]) -> list[Tensor]:
        """One uint8 view of all images for each kind and its draws."""
        pixels = pixels.to(self.device)
        return [self.augmentation(kind).apply(pixels, draw) for kind, draw in zip(kinds, draws, strict=True)]

    def sweep(self, images: Images, kind: str) -> Iterator[Tensor]:
        """All images in order in batches of one view, the same draws at every sweep."""
        augmentation = self.augmentation(kind)
        for rows in torch.arange(len(images)).split(256):
            draw = augmentation.draw(len(rows), rng.generator(self.seed, "sweep", kind, int(rows[0])))
            (view,) = self.inputs(images.take(rows), (kind,), [draw])
            yield view

    def clean(self, images: Images) -> Iterator[Tensor]:
        """All images in order, un-augmented, in batches as the network takes them."""
        return evaluate.normalized_batches(images, self.split.mean, self.split.std, device=self.device)

    def inputs_of(
        self, pick: Pick, labeled: Kinds, unlabeled: Kinds, steps: int
    ) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """The labeled and the unlabeled views of so many batches, as the network takes them (steps, n, ...).

        Those of a batch lie one after the other, the labeled ones first: nobody who joins them copies them.
        """
        x = self.split.labeled.take(pick.rows_x).to(self.device)
        u = self.split.unlabeled.take(pick.rows_u).to(self.device)
        counts = [len(x) // steps] * len(labeled) + [len(u) // steps] * len(unlabeled)
        places = rooms(steps, counts, x.shape[1:], self.device)
        of_x, of_u = places[: len(labeled)], places[len(labeled) :]
        how = self.split.mean, self.split.std
        if pick.draws_apart is None:
            pairs, augmentations = list(zip(of_x, of_u, strict=True)), [*map(self.augmentation, labeled)]
            render_groups_into(pairs, x, u, augmentations, pick.draws_x, *how, backend=self.backend)
        else:
            kinds, draws = [*labeled, *unlabeled], [*pick.draws_x, *pick.draws_apart]
            for number, (place, kind, draw) in enumerate(zip(places, kinds, draws, strict=True)):
                images = x if number < len(labeled) else u
                render_into(place, images, self.augmentation(kind), draw, *how, backend=self.backend)
        return of_x, of_u

    def inputs(self, pixels: Tensor, kinds: Kinds, draws: list[Draw]) -> tuple[Tensor, ...]:
        """One view of all images for each kind and its draws, as the network takes them."""
        pixels, mean, std = pixels.to(self.device), self.split.mean, self.split.std
        return tuple(
            render(pixels, self.augmentation(kind), draw, mean, std, backend=self.backend)
            for kind, draw in zip(kinds, draws, strict=True)
        )

    def augmentation(self, kind: str) -> Augmentation:
        """The augmentation behind a view word."""
        if kind not in self.augmentations:
            raise unknown("view", kind, self.augmentations)
        return self.augmentations[kind]
