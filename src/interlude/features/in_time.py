"""The vectors that time allows: fewer realisations where it is short, at last of a part of the pool alone."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from torch import Tensor

from interlude.batches import Kinds
from interlude.data import Images
from interlude.features.batches import CLEAN, FeatureBatches
from interlude.features.stages import Part, Stage

PORTION = 128  # images of the pool at once, in the views that none can do without


class Reached(NamedTuple):
    """Of what there are vectors: so many weak and strong realisations, and so many images of the pool."""

    weak: int
    strong: int
    pool: int


def extract_in_time(
    batches: FeatureBatches,
    labeled: Kinds,
    unlabeled: Kinds,
    others: Iterable[Images],
    *,
    order: Tensor,
    always: int,
    left: Callable[[], float],
) -> Reached:
    """Extract view by view until the planned realisations are there, or no more of them fit in the time left.

    All labeled images and `others` have theirs, plain and in one realisation of each kind; then the pool in
    this order, of which the first `always` rows and a few more are not given up; then further realisations.
    """
    portions = [order[: always + PORTION], *order[always + PORTION :].split(PORTION)]
    further = _further(batches, (*labeled, *unlabeled))
    stages = [_first(batches, labeled, others)]
    views = [batches.realisations(kind)[0] for kind in dict.fromkeys((CLEAN, *unlabeled))]
    for rows in portions:
        parts = [Part(view, batches.split.unlabeled, rows) for view in views]
        stages.append(Stage(parts, needed=len(stages) == 1))
    for kind, number in further:
        view = batches.realisations(kind)[number]
        sets = (batches.split.labeled, labeled), (batches.split.unlabeled, unlabeled)
        stages.append(Stage([Part(view, images) for images, kinds in sets if kind in kinds]))
    reached = batches.extractor.extract_stages(stages, left)
    left_out = further[max(0, reached - 1 - len(portions)) :]
    weak, strong = batches.features.weak, batches.features.strong
    assert weak is not None
    assert strong is not None
    return Reached(
        weak=min((number for kind, number in left_out if kind != "strong"), default=weak),
        strong=min((number for kind, number in left_out if kind == "strong"), default=strong),
        pool=sum(map(len, portions[: reached - 1])),
    )


def _first(batches: FeatureBatches, labeled: Kinds, others: Iterable[Images]) -> Stage:
    """What none can do without: all that is judged and all that is labeled."""
    (plain,) = batches.realisations(CLEAN)
    views = [batches.realisations(kind)[0] for kind in dict.fromkeys((CLEAN, *labeled))]
    parts = [Part(plain, images) for images in others]
    return Stage([*parts, *(Part(view, batches.split.labeled) for view in views)], needed=True)


def _further(batches: FeatureBatches, kinds: Kinds) -> list[tuple[str, int]]:
    """The realisations after the first of each kind, in proportion wherever they end."""
    counts = {kind: len(batches.realisations(kind)) for kind in dict.fromkeys(kinds)}
    pairs = [(kind, number) for kind, count in counts.items() for number in range(1, count)]
    return sorted(pairs, key=lambda pair: pair[1] / counts[pair[0]])
