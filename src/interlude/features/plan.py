"""How large the frozen network sees images, and in how many realisations: what a budget of minutes allows."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from interlude.features.options import FeaturesConfig

SIZES = (64, 96, 128, 160, 192, 224)  # pixels a side to choose from
LARGEST_SCALE = 4  # images are not blown up further
PILOT_SIZE = 96  # the pace at other sizes follows from the one here: it goes with the number of pixels
FEWEST, MOST = (2, 4), (4, 8)  # weak and strong realisations


class Work(NamedTuple):
    """What is to be extracted: each of `training` in the weak and strong views, each of `clean` as it is."""

    training: int
    clean: int

    def vectors(self, weak: int, strong: int) -> int:
        """How many vectors so many realisations give."""
        return self.clean + self.training * (weak + strong)


class Pilot(NamedTuple):
    """What a short trial says: images a second, and what the vectors are and why, where that was open."""

    pace: float
    vectors: str = ""


class Plan(NamedTuple):
    """Settings in which nothing is left open, and why they are what they are, a line each."""

    features: FeaturesConfig
    input_size: int
    reasons: list[str]


def plan(
    features: FeaturesConfig,
    input_size: int | None,
    *,
    work: Work,
    side: int,
    pilot: Callable[[int], Pilot],
) -> Plan:
    """Fill in what is None for images of this side, after a pilot at one input size."""
    if input_size is not None and features.weak is not None and features.strong is not None:
        return Plan(features, input_size, [])
    measured = input_size or PILOT_SIZE
    (speed, vectors), seconds = pilot(measured), 60 * features.budget
    least = features.weak or FEWEST[0], features.strong or FEWEST[1]
    reasons = []
    size = input_size
    if size is None:
        size, in_time = largest_size(speed, seconds, work.vectors(*least), side)
        why = "the largest size for which" if in_time else "the smallest size, though for none"
        reasons.append(
            f"the frozen network sees images at {size}x{size} pixels: {why} {features.budget:g} minutes are "
            f"enough ({speed:.0f} images/s at {measured}x{measured}); --model.input-size N sets it"
        )
    affordable = seconds * speed * (measured / size) ** 2
    weak, strong = draws(features, work, affordable)
    minutes = work.vectors(weak, strong) / (speed * (measured / size) ** 2) / 60
    if (weak, strong) != (features.weak, features.strong):
        reasons.append(
            f"{weak} weak and {strong} strong realisations of each of {work.training:,} images: about "
            f"{minutes:.1f} minutes in all (--features.budget {features.budget:g}); --features.weak N and "
            "--features.strong N set them"
        )
    reasons += [vectors] if vectors else []
    return Plan(replace(features, weak=weak, strong=strong), size, reasons)


def largest_size(speed: float, seconds: float, vectors: int, side: int) -> tuple[int, bool]:
    """The largest size at which so many vectors are extracted in time, else the smallest; whether in time."""
    sizes = [size for size in SIZES if size <= LARGEST_SCALE * side] or [SIZES[0]]
    in_time = [size for size in sizes if vectors <= seconds * speed * (PILOT_SIZE / size) ** 2]
    return max(in_time, default=sizes[0]), bool(in_time)


def draws(features: FeaturesConfig, work: Work, affordable: float) -> tuple[int, int]:
    """How many weak and strong realisations, in one proportion, give an affordable number of vectors."""
    best = features.weak or FEWEST[0], features.strong or FEWEST[1]
    for strong in range(FEWEST[1], MOST[1] + 1):
        share = (strong - FEWEST[1]) / (MOST[1] - FEWEST[1])
        weak = round(FEWEST[0] + share * (MOST[0] - FEWEST[0]))
        tried = features.weak or weak, features.strong or strong
        if work.vectors(*tried) <= affordable:
            best = tried
    return best
