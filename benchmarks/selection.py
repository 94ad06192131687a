"""Do the labels that the page asks for teach more than as many random ones?

    python benchmarks/selection.py                                       # digits: a minute
    python benchmarks/selection.py --cifar cifar10.npz --weights FILE    # and CIFAR-10: some minutes more

Each draw takes a random part of the training images as the unlabeled folder. From it labels are chosen in the
ways of `interlude app`, and a logistic regression on what is known of the images, pixels or the vectors of a
frozen network, is trained on them and judged on test images. A class that no label was chosen of is never
predicted. All ways see the same draws; differences are paired, their 95% intervals by Student's t. Where a
part of the labels is drawn at random, five folds of those are held out in turn and judged by what all other
labels teach; the error of that estimate is the share that is right, less that of the test images. The result
is in results/selection.json.
"""

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy import stats
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from interlude.app import select, vectors
from interlude.app.looks import SIDE
from interlude.app.select import Points, Rows

RESULT = Path(__file__).resolve().parent / "results" / "selection.json"
DRAWS = 10
AT_FIRST = 40  # labels before there is a model
WITH_A_MODEL = ((20, 40), (40, 80), (100, 200))  # labels of the model, and those in the end
SHARE = 2 / 3  # of the pool that a draw takes
PARTS = {"half": 2, "a third": 3}  # of the labels that are drawn at random
FOLDS = 5
POOL, TEST = 3000, 2000  # images of CIFAR-10


@dataclass(frozen=True)
class Data:
    """Images as they look at a glance, as the classifier sees them, and their classes; pool and test."""

    name: str
    points: dict[str, Points]  # what choices can rest on
    inputs: Points
    labels: NDArray[np.int64]
    test_inputs: Points
    test_labels: NDArray[np.int64]


@dataclass(frozen=True)
class Draw:
    """One part of the pool, and what was chosen from it."""

    data: Data
    seed: int
    apart: bool = False  # whether choices take no notice of the labels that were drawn at random

    @property
    def rows(self) -> Rows:
        """The images that are there."""
        count = len(self.data.labels)
        return np.random.default_rng(self.seed).permutation(count)[: int(SHARE * count)]

    @property
    def order(self) -> Rows:
        """The images in a random order."""
        return np.random.default_rng(5000 + self.seed).permutation(self.rows)

    def sample(self, taken: Rows) -> Rows:
        """Those of the images taken with which the random order begins."""
        return np.asarray(self.order[np.logical_and.accumulate(np.isin(self.order, taken))])

    def chosen(self, taken: Rows) -> Rows:
        """Those of the images taken that further choices take notice of."""
        return np.setdiff1d(taken, self.sample(taken)) if self.apart else taken

    def random(self, taken: Rows, count: int) -> Rows:
        """More images by chance."""
        free = np.setdiff1d(self.rows, taken)
        return np.random.default_rng(1000 + self.seed + len(taken)).permutation(free)[:count]

    def typical(self, points: str, taken: Rows, count: int) -> Rows:
        """More images, typical and diverse."""
        free = np.setdiff1d(self.rows, taken)
        return select.typical(self.data.points[points], free, self.chosen(taken), count, self.seed)

    def spread(self, points: str, taken: Rows, count: int) -> Rows:
        """More images, by chance from each kind."""
        free = np.setdiff1d(self.rows, taken)
        return select.spread(self.data.points[points], free, taken, count, self.seed)

    def uncertain(self, points: str, taken: Rows, count: int) -> Rows:
        """More images that a model of those taken wavers over."""
        free, margins = self._doubts(taken)
        return select.uncertain(self.data.points[points], margins, free, count, self.seed)

    def half(self, points: str, taken: Rows, count: int) -> Rows:
        """More images, typical and diverse, of the half that such a model is less certain of."""
        free, margins = self._doubts(taken)
        half = select.less_certain(margins, free, count)
        return select.typical(self.data.points[points], half, self.chosen(taken), count, self.seed)

    def _doubts(self, taken: Rows) -> tuple[Rows, Points]:
        """The images left, and how far a model of those taken is from wavering over each."""
        free = np.setdiff1d(self.rows, taken)
        margins = np.zeros(len(self.data.labels), np.float32)
        ordered = np.sort(self.learn(taken).predict_proba(self.data.inputs[free]), axis=1)
        margins[free] = ordered[:, -1] - ordered[:, -2]
        return free, margins

    def learn(self, taken: Rows) -> LogisticRegression:
        """What these labels teach."""
        return LogisticRegression(max_iter=500).fit(self.data.inputs[taken], self.data.labels[taken])

    def accuracy(self, taken: Rows) -> float:
        """Per cent of the test images that are right."""
        return 100 * float(self.learn(taken).score(self.data.test_inputs, self.data.test_labels))

    def estimate(self, taken: Rows) -> float:
        """Per cent of the sample that are right, judged by what all other labels taken teach."""
        sample, right = self.sample(taken), 0
        for part in range(FOLDS):
            held = sample[part::FOLDS]
            model = self.learn(np.setdiff1d(taken, held))
            right += int((model.predict(self.data.inputs[held]) == self.data.labels[held]).sum())
        return 100 * right / len(sample)


Way = Callable[[Draw], Rows]
More = Callable[[Draw, Rows, int], Rows]


def steps(*parts: tuple[More, int]) -> Way:
    """Choose so many images in one way, then up to so many in the next."""

    def choose(draw: Draw) -> Rows:
        taken = np.zeros(0, np.int64)
        for more, total in parts:
            taken = np.concatenate([taken, more(draw, taken, total - len(taken))])
        return taken

    return choose


def mixed(more: More, every: int, *, apart: bool = True) -> More:
    """One of so many labels drawn at random, the others chosen."""

    def choose(draw: Draw, taken: Rows, count: int) -> Rows:
        number = max(0, (len(taken) + count) // every - len(draw.sample(taken)))
        drawn = draw.order[~np.isin(draw.order, taken)][:number]
        known = np.concatenate([taken, drawn])
        return np.concatenate([drawn, more(replace(draw, apart=apart), known, count - number)])

    return choose


def on(points: str) -> dict[str, More]:
    """The ways of choosing that rest on these points."""
    return {
        "spread": lambda draw, taken, count: draw.spread(points, taken, count),
        "typical": lambda draw, taken, count: draw.typical(points, taken, count),
        "typical of the less certain half": lambda draw, taken, count: draw.half(points, taken, count),
        "uncertain": lambda draw, taken, count: draw.uncertain(points, taken, count),
    }


def ways(data: Data) -> dict[int, dict[str, Way]]:
    """What is compared, by the number of labels in the end; random choice first."""
    best = {"random": Draw.random, **on(list(data.points)[-1])}
    early: dict[str, Way] = {"random": steps((Draw.random, AT_FIRST))}
    for name in data.points:
        early |= {f"{kind} by {name}": steps((on(name)[kind], AT_FIRST)) for kind in ("spread", "typical")}
    typical = best["typical"]
    for part, every in PARTS.items():
        early[f"{part} random, the others typical"] = steps((mixed(typical, every), AT_FIRST))
        beside = mixed(typical, every, apart=False)
        early[f"{part} random, the others typical and elsewhere"] = steps((beside, AT_FIRST))
    compared = {AT_FIRST: early}
    for start, total in WITH_A_MODEL:
        half = {
            f"half random, the others {start} typical, then {kind}": steps(
                (mixed(typical, 2), start), (mixed(more, 2), total)
            )
            for kind, more in best.items()
            if kind not in ("random", "spread")
        }
        known = {
            f"{start} typical, then {kind}": steps((best["typical"], start), (more, total))
            for kind, more in best.items()
            if kind != "spread"
        }
        compared[total] = {"random": steps((Draw.random, total)), **compared.get(total, {}), **known, **half}
    return compared


def compare(data: Data) -> list[dict[str, Any]]:
    """A line for each way of choosing."""
    lines = []
    for labels, known in ways(data).items():
        found: dict[str, NDArray[np.float64]] = {}
        for name, way in known.items():
            draws = [Draw(data, seed) for seed in range(DRAWS)]
            taken = [way(draw) for draw in draws]
            found[name] = np.array([draw.accuracy(rows) for draw, rows in zip(draws, taken, strict=True)])
            gain = interval(found[name] - found["random"]) if name != "random" else None
            line = {"data": data.name, "labels": labels, "way": name, "accuracy": interval(found[name])}
            line |= {"gain_over_random": gain}
            if " random, " in name:
                told = [draw.estimate(rows) for draw, rows in zip(draws, taken, strict=True)]
                line |= {"error_of_the_estimate": interval(np.array(told) - found[name])}
                line |= {"against_all_chosen": interval(found[name] - found[all_chosen(name, known)])}
            lines.append(line)
            print(json.dumps(line), flush=True)
    return lines


def all_chosen(name: str, known: dict[str, Way]) -> str:
    """The way that chooses all labels as this one chooses some."""
    rest = name.partition(", the others ")[2].removesuffix(" and elsewhere")
    return rest if rest in known else [way for way in known if way.startswith("typical by ")][-1]


def interval(values: Sequence[float] | NDArray[np.float64]) -> dict[str, float]:
    """Mean and 95% interval."""
    mean = float(np.mean(values))
    half = float(stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values)))
    return {"mean": round(mean, 2), "low": round(mean - half, 2), "high": round(mean + half, 2)}


def digits() -> Data:
    """The digits that scikit-learn has in it: 8x8 pixels, which is all that can be seen of them."""
    images, labels = load_digits(return_X_y=True)
    pixels = (images / 16).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(labels))
    pool, test = order[:1200], order[1200:]
    return Data("digits", {"looks": pixels[pool]}, pixels[pool], labels[pool], pixels[test], labels[test])


def cifar(path: Path, weights: str) -> Data:
    """A part of CIFAR-10, seen by a frozen network."""
    with np.load(path) as file:
        keys = {name.lower(): file[name] for name in file.files}
    random = np.random.default_rng(0)
    pool = random.permutation(len(keys["y_train"]))[:POOL]
    test = random.permutation(len(keys["y_test"]))[:TEST]
    images = np.concatenate([keys["x_train"][pool], keys["x_test"][test]])
    seen = vectors_of(images, weights)
    looks = [glance(image) for image in images[:POOL]]
    points = {"looks": np.stack(looks), "vectors": vectors.shortened(seen[:POOL])}
    scale = seen[:POOL].std(0) + 1e-6
    inputs = ((seen - seen[:POOL].mean(0)) / scale / np.sqrt(seen.shape[1])).astype(np.float32) * 8
    return Data(
        "cifar10",
        points,
        inputs[:POOL],
        keys["y_train"][pool].reshape(-1).astype(np.int64),
        inputs[POOL:],
        keys["y_test"][test].reshape(-1).astype(np.int64),
    )


def vectors_of(images: NDArray[np.uint8], weights: str) -> Points:
    """Vectors as `interlude app` extracts them, from files."""
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for number, image in enumerate(images):
            files.append(Path(folder, f"{number:06d}.png"))
            Image.fromarray(image).save(files[-1])
        network, side = vectors.network_for(files, weights)
        return vectors.extract(network, files, side, threads=2)[1]


def glance(image: NDArray[np.uint8]) -> Points:
    """An image as looks.py sees it."""
    small = Image.fromarray(image).resize((SIDE, SIDE), Image.Resampling.BOX)
    return np.asarray(small, np.float32).reshape(-1) / 255


def main() -> None:
    """Compare, and write down what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cifar", type=Path, help="npz file with x_train, y_train, x_test, y_test")
    parser.add_argument("--weights", help="file of weights of the frozen network")
    wishes = parser.parse_args()
    lines = compare(digits())
    if wishes.cifar is not None:
        lines += compare(cifar(wishes.cifar, wishes.weights))
    made = {"created": datetime.now(UTC).isoformat(timespec="seconds"), "draws": DRAWS, "lines": lines}
    RESULT.write_text(json.dumps(made, indent=1) + "\n")
    print(f"wrote {RESULT}")


if __name__ == "__main__":
    main()
