"""What the verbs of the command line do; imported when one is called, because torch comes with it."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import torch
from cyclopts import Parameter

from interlude import augment, data, models, processes, training
from interlude import evaluate as evaluation
from interlude.batches import Batches
from interlude.config import (
    Config,
    Layer,
    call,
    parser,
    read_file,
    recipe_names,
    recipes_folder,
    resolve,
    stored,
)
from interlude.errors import UserError, unknown
from interlude.features import controls
from interlude.method import find_method, method_names
from interlude.options import run_verb
from interlude.prediction.labeled import figures_on
from interlude.predictor import Predictor
from interlude.run import settle

Files = Annotated[
    list[str] | None,
    Parameter(help="YAML file of settings, or a recipe's name; may be repeated, later ones win"),
]
HELP = {"-h", "--help"}


def configured(
    name: str, verb: Callable[..., None], tokens: Sequence[str], layers: Iterable[Layer] = ()
) -> None:
    """Run a verb that takes the whole configuration; `--help` shows the options of the chosen method."""
    if HELP & set(tokens):
        app, _ = parser(verb, layers, [token for token in tokens if token not in HELP], f"interlude {name}")
        app.help_print([])
        return
    call(verb, layers, tokens)


def train(tokens: Sequence[str]) -> None:
    """The verb `train`."""

    def run(
        *, settings: Config | None = None, config: Files = None, resume: bool = False, quiet: bool = False
    ) -> None:
        """Train a classifier from labeled and unlabeled images, into a run folder.

        Parameters
        ----------
        resume
            Go on with the run in --out from its last checkpoint.
        quiet
            No progress; only the result.
        """
        assert settings is not None
        result = training.train_configured(settings, resume=resume, quiet=quiet)
        if processes.launched().rank:
            return  # the first process says it
        weights = "last averaged weights"
        if settings.select == "validation":
            weights = f"averaged weights of step {result.summary['selected_step']:,}, best on validation"
        print(report(result.summary["tests"], weights))
        if "controls" in result.summary:
            print(controls.report(result.summary["method"], result.summary["controls"]))
        print(f"run folder: {result.folder}")

    configured("train", run, tokens, [stored([], tokens)] if "--resume" in tokens else [])


def report(tests: dict[str, dict[str, Any]], weights: str = "averaged weights") -> str:
    """The figures of each test set in a line; a sentence where there is none."""
    if not tests:
        return "no test images, so no figures on any: `interlude fit` estimates them from the labels"
    lines = [
        f"{name}: error {figures['error']:.2f} %, accuracy {figures['accuracy']:.2f} %, balanced accuracy "
        f"{figures['balanced_accuracy']:.2f} %, calibration error {figures['calibration_error']:.2f} % "
        f"({figures['images']:,} images, {weights})"
        for name, figures in tests.items()
    ]
    return "\n".join(lines)


def evaluate(tokens: Sequence[str]) -> None:
    """The verb `evaluate`."""

    def run(folder: Path, *, data: str | None = None, labels: str | None = None, json: bool = False) -> None:
        """Judge the model of a run folder on its sealed test set, or on other labeled images.

        Parameters
        ----------
        folder
            A run folder that `interlude train` or `interlude fit` finished.
        data
            Other data to judge it on: a folder of images, npz:FILE, or a name; default the run's own.
        labels
            With a folder, the table of its labels.
        json
            Print the figures as JSON.
        """
        tests = judge(folder, data, labels)
        print(to_json(tests) if json else report(tests))

    run_verb("evaluate", run, tokens)


def to_json(value: Any) -> str:
    """Indented JSON."""
    return json.dumps(value, indent=2)


def judge(folder: Path, name: str | None, labels: str | None = None) -> dict[str, dict[str, Any]]:
    """Figures of a run's saved model on the test sets of its own data, or of other data."""
    predictor = Predictor.load(folder)
    cfg = resolve([read_file(folder / "config.yaml")])
    torch.set_num_threads(cfg.threads)
    place = Path((name or "").removeprefix("folder:")).expanduser()
    if name is not None and place.is_dir() and (labels is not None or name not in data.dataset_names()):
        return dict([figures_on(predictor, place, labels, workers=cfg.threads)])
    if labels is not None:
        raise UserError("--labels is for a folder of images: name it by --data")
    if name is None:
        record = data.SplitRecord.from_json(folder / "split.json")
        split = data.load(cfg.data, labels=cfg.labels, fold=cfg.fold, record=record)
    else:
        split = load_other(name, folder)
    figures = {}
    for test, images in split.tests.items():
        batches = evaluation.normalized_batches(
            images, predictor.mean, predictor.std, device=torch.device("cpu")
        )
        figures[test] = evaluation.figures(evaluation.predict(predictor.model, batches), images.labels_of())
    return figures


def load_other(name: str, folder: Path) -> data.Split:
    """Other data than a run's own, scaled to the images that its model was trained on."""
    trained = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    height, width = trained["image_size"]
    if height != width:
        raise UserError(
            f"the model of {folder} takes {height}x{width} images; other data can only be made square"
        )
    split = data.load(data.DataConfig(name=name, image_size=height), labels=None, fold=0)
    channels = split.labeled.channels
    if channels != trained["channels"]:
        raise UserError(
            f"{name} has images of {channels} channels, the model of {folder} takes {trained['channels']}"
        )
    if list(split.class_names) != trained["label_names"]:
        raise UserError(
            f"{name} has other classes ({', '.join(split.class_names)}) than the model of {folder}"
        )
    return split


def preview(tokens: Sequence[str]) -> None:
    """The verb `preview`."""

    def run(*, settings: Config | None = None, config: Files = None, groups: int = 4, step: int = 0) -> None:
        """Write one PNG sheet of what the network sees: originals, weak and strong views, group by group.

        Parameters
        ----------
        groups
            How many groups (a labeled image and its mu unlabeled ones) to show.
        step
            Of which step of the run.
        """
        assert settings is not None
        path = write_preview(settings, groups=groups, step=step)
        print(f"wrote {path}")

    configured("preview", run, tokens)


def write_preview(cfg: Config, *, groups: int, step: int) -> Path:
    """Draw the views of the first groups of a step into `cfg.out`, by default preview.png."""
    path = Path(cfg.out or "preview.png")
    if groups < 1 or step < 0:
        raise UserError(f"groups must be >= 1 and step >= 0, got {groups} and {step}")
    if path.exists():
        raise UserError(f"{path} exists already; choose another --out")
    cfg = settle(cfg)
    assert cfg.mu is not None
    method = find_method(cfg.method.name)
    split = data.load(cfg.data, labels=cfg.labels, fold=cfg.fold, all_labels=method.needs_all_labels)
    batches = Batches(
        split, augment.build(cfg.augment), batch=groups, mu=cfg.mu, seed=cfg.seed, device=torch.device("cpu")
    )
    shared = getattr(cfg.method, "shared_draws", method.shared_draws)
    augment.sheet(batches.pictures(step, ("weak", "strong"), shared_draws=shared), path)
    return path


def config(tokens: Sequence[str]) -> None:
    """The verb `config`."""

    def run(*, settings: Config | None = None, config: Files = None) -> None:
        """Print the resolved settings that `train` would use with the same options."""
        assert settings is not None
        print(settle(settings).to_yaml(), end="")

    configured("config", run, tokens)


def list_names(tokens: Sequence[str]) -> None:
    """The verb `list`."""

    def run(kind: str | None = None) -> None:
        """List the methods, data sets, models, augmentation policies and recipes there are.

        Parameters
        ----------
        kind
            methods, data, models, policies or recipes; default all.
        """
        known = catalogue()
        if kind is not None and kind not in known:
            raise unknown("kind of list", kind, known)
        for title, entries in known.items():
            if kind in (None, title):
                print(f"{title}:")
                width = max(map(len, entries), default=0)
                print("\n".join(f"  {name:<{width}}  {about}".rstrip() for name, about in entries.items()))

    run_verb("list", run, tokens)


def catalogue() -> dict[str, dict[str, str]]:
    """Everything that can be named in a configuration, with a line about it."""
    return {
        "methods": {name: first_line(find_method(name).__doc__) for name in method_names()},
        "data": {name: data.describe(name) for name in data.dataset_names()},
        "models": models.describe(),
        "policies": augment.describe(),
        "recipes": {
            name: first_line((recipes_folder() / f"{name}.yaml").read_text()) for name in recipe_names()
        },
    }


def first_line(text: str | None) -> str:
    """The first line of a docstring or of a file's opening comment."""
    return (text or "").strip().partition("\n")[0].lstrip("# ")
