"""`make demo`: what are the unlabeled digits worth to someone who has 40 labels?

Trains InterLUDE, then the two labeled-only controls for as many steps with as many views each: plain, and
with the same strong augmentation on the labels (the fair one). Runs that are there already are gone on
with, or shown again.
"""

import argparse
from pathlib import Path
from typing import Any

import torch

import interlude
from interlude import data

RECIPE = "digits"
VIEWS = 128  # a step of the recipe, 2 * (1 + mu) * batch; the controls see as many
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "interlude": (
        "InterLUDE, labels and unlabeled images",
        {"method": {"name": "interlude", "fusion_point": "stage"}},
    ),
    "labels-strong": (
        "labels only, same strong augmentation",
        {"method": {"name": "supervised", "strong": True}, "batch": VIEWS // 2},
    ),
    "labels-plain": ("labels only, plain", {"method": "supervised", "batch": VIEWS}),
}


def main() -> None:
    """Train the three, then say what they show."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0, help="of training, and which images are labeled")
    parser.add_argument("--out", type=Path, help="folder of the three runs; default runs/demo-seedN")
    args = parser.parse_args()
    folder = args.out or Path(f"runs/demo-seed{args.seed}")

    results = []
    for name, (_, settings) in RUNS.items():
        started = (folder / name / "config.yaml").exists()
        result = interlude.train(
            config=RECIPE,
            **settings,
            seed=args.seed,
            fold=args.seed,
            out=str(folder / name),
            resume=started,
        )
        results.append(result)
    print(table(results))
    print(verdict(*results))


def table(results: list[interlude.Result]) -> str:
    """The test errors side by side, and where the runs are."""
    titles = [title for title, _ in RUNS.values()]
    width = max(map(len, titles))
    lines = [f"\n{'':{width}}  test error  seconds  run folder"]
    for title, result in zip(titles, results, strict=True):
        error, seconds = result.metrics["error"], result.summary["seconds"]
        lines.append(f"{title:{width}}  {error:8.2f} %  {seconds:7.0f}  {result.folder}")
    return "\n".join(lines)


def verdict(ssl: interlude.Result, fair: interlude.Result, plain: interlude.Result) -> str:
    """What the unlabeled images gave over the fair control, with a 95 % interval over the test images."""
    test = data.load(data.DataConfig(name="digits"), labels=None, fold=0).tests["test"]
    images, labels = test.take(torch.arange(len(test))), test.labels_of().numpy()
    gained = (ssl.predict(images) == labels).astype(float) - (fair.predict(images) == labels)
    points, half = 100 * gained.mean(), 196 * gained.std(ddof=1) / len(gained) ** 0.5
    if points - half > 0:
        opening = f"The unlabeled images helped: {points:+.1f} points of accuracy over the fair control"
    elif points > 0:
        opening = f"The unlabeled images gave {points:+.1f} points over the fair control, perhaps by chance"
    else:
        opening = f"The unlabeled images did not help here: {points:+.1f} points against the fair control"
    interval = f"95 % interval {points - half:+.1f} to {points + half:+.1f} over {len(labels)} test images"
    strong = plain.metrics["error"] - fair.metrics["error"]
    return f"\n{opening} ({interval}); strong augmentation of the labels alone gave {strong:+.1f}."


if __name__ == "__main__":
    main()
