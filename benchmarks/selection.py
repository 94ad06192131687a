"""Do the labels that the page asks for teach more than as many random ones?

    python benchmarks/selection.py                                       # digits: a minute
    python benchmarks/selection.py --cifar cifar10.npz --weights FILE    # and CIFAR-10: some minutes more

Each draw takes a random part of the training images as the unlabeled folder. From it labels are chosen in the
ways of `interlude app`, and a logistic regression on what is known of the images, pixels or the vectors of a
frozen network, is trained on them and judged on test images. A class that no label was chosen of is never
predicted. All ways see the same draws; differences to random choice are paired, their 95% intervals by
Student's t. The result is in results/selection.json.
"""

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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

    @property
    def rows(self) -> Rows:
        """The images that are there."""
        count = len(self.data.labels)
        return np.random.default_rng(self.seed).permutation(count)[: int(SHARE * count)]

    def random(self, taken: Rows, count: int) -> Rows:
        """More images by chance."""
        free = np.setdiff1d(self.rows, taken)
        return np.random.default_rng(1000 + self.seed + len(taken)).permutation(free)[:count]

    def typical(self, points: str, taken: Rows, count: int) -> Rows:
        """More images, typical and diverse."""
        free = np.setdiff1d(self.rows, taken)
        return select.typical(self.data.points[points], free, taken, count, self.seed)

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
        return select.typical(self.data.points[points], half, taken, count, self.seed)

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
    compared = {AT_FIRST: early}
    for start, total in WITH_A_MODEL:
        known = {
            f"{start} typical, then {kind}": steps((best["typical"], start), (more, total))
            for kind, more in best.items()
            if kind != "spread"
        }
        compared[total] = {"random": steps((Draw.random, total)), **compared.get(total, {}), **known}
    return compared


def compare(data: Data) -> list[dict[str, Any]]:
    """A line for each way of choosing."""
    lines = []
    for labels, known in ways(data).items():
        found = {
            name: [Draw(data, seed).accuracy(way(Draw(data, seed))) for seed in range(DRAWS)]
            for name, way in known.items()
        }
        for name, values in found.items():
            gain = np.array(values) - np.array(found["random"])
            line = {"data": data.name, "labels": labels, "way": name, "accuracy": interval(values)}
            lines.append(line | {"gain_over_random": interval(gain) if name != "random" else None})
            print(json.dumps(lines[-1]), flush=True)
    return lines


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
