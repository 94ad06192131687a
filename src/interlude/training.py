"""Training from a configuration: a new run in a new folder, or one that is gone on with."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from interlude import data, memory
from interlude.config import Config, Layer, read_file, resolve, stored
from interlude.data import Split, SplitRecord
from interlude.errors import UserError
from interlude.method import find_method
from interlude.progress import note, silence
from interlude.run import Run, settle, settle_views
from interlude.session import Result, Session, go_on, write_text
from interlude.signals import Stopped

FREE_ON_RESUME = (
    "out",
    "watch",
    "eval_every",
    "save_every",
    "log_every",
    "tensorboard",
    "overlap",
    "keep_memory",
    "data.root",
    "data.download",
    "data.store",
    "augment.backend",
    "features.budget",
    "features.cache",
)


def train(
    *,
    config: str | Path | Sequence[str | Path] = (),
    resume: bool = False,
    quiet: bool = False,
    **settings: Any,
) -> Result:
    """Train one model, as `interlude train` does.

    `settings` are the command line's: `train(data="digits", labels=40, method="interlude", steps=600)`;
    those of a part are a dict, `method={"name": "interlude", "alpha": 0.2}`. `config` names YAML files or
    recipes. With `resume` the run in the folder `out` goes on from its last checkpoint.
    """
    files = [config] if isinstance(config, str | Path) else config
    layers = [*(read_file(file) for file in files), Layer("train()", settings)]
    if resume:
        layers = [stored(layers), *layers]
    return train_configured(resolve(layers), resume=resume, quiet=quiet)


def train_configured(cfg: Config, *, resume: bool = False, quiet: bool = False) -> Result:
    """Start the run that `cfg` describes, or go on with it, and bring it to its end."""
    cfg = settle(cfg, tell=note if not quiet else None)
    assert cfg.out is not None
    folder = Path(cfg.out)
    method = find_method(cfg.method.name)
    record = None
    if resume:
        check_same(cfg, folder)
        record = SplitRecord.from_json(folder / "split.json")
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists already; go on with that run by --resume, or choose another --out")
    with silence(quiet):
        split = data.load(
            cfg.data, labels=cfg.labels, fold=cfg.fold, all_labels=method.needs_all_labels, record=record
        )
    if cfg.keep_memory:
        memory.keep_heap()
    cfg = settle_views(cfg, split, method, tell=None if quiet else note)
    run = Run(cfg, split, method)
    if not resume:
        open_folder(folder, cfg, split)
    try:
        run.prepare(quiet=quiet)
    except Stopped as stop:
        raise Stopped(f"{stop}; go on with: {go_on(folder)}", stop.signal) from stop
    return Session(run, folder, quiet=quiet).complete()


def open_folder(folder: Path, cfg: Config, split: Split) -> None:
    """Make the run folder, with all that a resumed run starts from."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        split.record.to_json(folder / "split.json")
        write_text(folder / "config.yaml", cfg.to_yaml())
    except OSError as error:
        raise UserError(f"cannot write to {folder}: {error.strerror}; choose another --out") from error


def check_same(cfg: Config, folder: Path) -> None:
    """A resumed run keeps its settings; only where and how often it reports may change."""
    before = flat(asdict(resolve([read_file(folder / "config.yaml")])))
    free = set(FREE_ON_RESUME) - ({"eval_every"} if cfg.select == "validation" else set())
    for name, value in flat(asdict(cfg)).items():
        if name not in free and before[name] != value:
            raise UserError(
                f"{folder} was started with {name} = {before[name]}, not {value}; choose another --out"
            )


def flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings with dotted names."""
    leaves: dict[str, Any] = {}
    for name, value in tree.items():
        leaves |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return leaves
