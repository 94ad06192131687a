"""The batch of each step with vectors of a frozen network in place of views, gathered from the cache."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import torch
from torch import Generator, Tensor

from interlude import rng
from interlude.augment import Augmentation, Draw
from interlude.batches import Batches, Kinds, Pick
from interlude.data import Images, Split
from interlude.features.extract import Extractor
from interlude.features.options import FeaturesConfig
from interlude.features.views import View, realisations

AT_ONCE = 1024  # vectors in a batch of a sweep
CLEAN = "plain"  # the kind of view that is the image itself


class Table:
    """The vectors of a set of images in all realisations of one kind of view."""

    def __init__(self, vectors: Sequence[Tensor], rows: Sequence[Tensor]) -> None:
        self.vectors = vectors  # float16 (n, width), on disk, one for each realisation
        self.rows = rows  # where the images are in them
        self.width = vectors[0].shape[1]

    def gather(self, images: Tensor, numbers: Tensor) -> Tensor:
        """The vector of each image, by its row in the set, in the realisation of this number; float32."""
        result = torch.empty(len(images), self.width)
        for number, (vectors, rows) in enumerate(zip(self.vectors, self.rows, strict=True)):
            places = (numbers == number).nonzero().squeeze(1)
            if len(places):
                result[places] = vectors.index_select(0, rows[images[places]]).float()
        return result


class FeatureBatches(Batches):
    """Batches whose views are vectors: a draw is the number of one of the extracted realisations."""

    def __init__(
        self,
        split: Split,
        augmentations: Mapping[str, Augmentation],
        extractor: Extractor,
        features: FeaturesConfig,
        *,
        batch: int,
        mu: int,
        seed: int,
        device: torch.device,
    ) -> None:
        super().__init__(split, augmentations, batch=batch, mu=mu, seed=seed, device=device)
        self.extractor, self.features = extractor, features
        self._realisations: dict[str, list[View]] = {}
        self._tables: dict[tuple[Images, str], Table] = {}

    def extract(self, labeled: Kinds, unlabeled: Kinds, others: Iterable[Images] = ()) -> None:
        """Have the training images in these kinds of views and as they are, and `others` as they are."""
        wanted: list[tuple[Images, Kinds]] = [(images, (CLEAN,)) for images in others]
        wanted += [(self.split.labeled, (CLEAN, *labeled)), (self.split.unlabeled, (CLEAN, *unlabeled))]
        self.extractor.extract(
            (images, [view for kind in dict.fromkeys(kinds) for view in self.realisations(kind)])
            for images, kinds in wanted
            if len(images)
        )

    def realisations(self, kind: str) -> list[View]:
        """The realisations of a kind of view that every image is seen in."""
        if kind not in self._realisations:
            count = self.features.strong if kind == "strong" else self.features.weak
            assert count is not None, "settle the configuration first"
            self._realisations[kind] = realisations(
                kind,
                self.augmentation(kind),
                count=count,
                seed=self.features.seed,
                shape=self.extractor.shape,
            )
        return self._realisations[kind]

    def draws(self, kinds: Kinds, count: int, generator: Generator) -> list[Draw]:
        """Numbers of realisations; views of one kind of one image differ while there are enough."""
        orders = {
            kind: torch.rand(count, len(self.realisations(kind)), generator=generator).argsort(1)
            for kind in dict.fromkeys(kinds)
        }
        seen = dict.fromkeys(orders, 0)
        draws = []
        for kind in kinds:
            order = orders[kind]
            draws.append({"number": order[:, seen[kind] % order.shape[1]]})
            seen[kind] += 1
        return draws

    def inputs_of(
        self, pick: Pick, labeled: Kinds, unlabeled: Kinds, steps: int
    ) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        x = self.gathered(self.split.labeled, pick.rows_x, labeled, pick.draws_x)
        u = self.gathered(self.split.unlabeled, pick.rows_u, unlabeled, pick.draws_u)
        of_x, of_u = ([view.unflatten(0, (steps, -1)) for view in views] for views in (x, u))
        return of_x, of_u

    def gathered(self, images: Images, rows: Tensor, kinds: Kinds, draws: list[Draw]) -> tuple[Tensor, ...]:
        """The vectors of these rows for each kind and its draws."""
        return tuple(
            self.table(images, kind).gather(rows, draw["number"]).to(self.device)
            for kind, draw in zip(kinds, draws, strict=True)
        )

    def sweep(self, images: Images, kind: str) -> Iterator[Tensor]:
        for rows in torch.arange(len(images)).split(AT_ONCE):
            generator = rng.generator(self.seed, "sweep", kind, int(rows[0]))
            (vectors,) = self.gathered(images, rows, (kind,), self.draws((kind,), len(rows), generator))
            yield vectors

    def clean(self, images: Images) -> Iterator[Tensor]:
        return self.sweep(images, CLEAN)

    def table(self, images: Images, kind: str) -> Table:
        """Where the vectors of these images are; what is missing is extracted now."""
        if (images, kind) not in self._tables:
            views = self.realisations(kind)
            self.extractor.extract([(images, views)])
            cache, hashes = self.extractor.cache, self.extractor.hashes(images)
            self._tables[images, kind] = Table(
                [torch.from_numpy(cache.vectors(view.name)) for view in views],
                [torch.from_numpy(cache.find(view.name, hashes)) for view in views],
            )
        return self._tables[images, kind]
