"""Training from a configuration: a new run in a new folder, or one that is gone on with."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from interlude import data, distributed, memory, processes
from interlude.config import Config, Layer, read_file, resolve, stored
from interlude.data import Split, SplitRecord
from interlude.errors import UserError
from interlude.files import write_whole
from interlude.lock import LOCK, alone_in
from interlude.method import find_method
from interlude.progress import note, silence
from interlude.run import Run, settle, settle_views
from interlude.session import Result, Session, go_on
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
    "model.backend",
    "augment.backend",
    "features.budget",
    "features.cache",
)

# what a run may leave that was killed before it had written its config.yaml
BARELY_BEGUN = (LOCK, "split.json", "config.yaml.")


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
    with ExitStack() as stack:
        stack.enter_context(processes.together(cfg.device))
        main = distributed.is_main()
        quiet = quiet or not main
        stack.enter_context(silence(not main))
        cfg = of_first(settle(cfg, tell=note if not quiet else None))
        assert cfg.out is not None
        folder = Path(cfg.out)
        if main:
            prepare_folder(stack, cfg, folder, resume=resume)
        run = make_run(cfg, SplitRecord.from_json(folder / "split.json") if resume else None, quiet=quiet)
        if main and not resume:
            make_folder(folder)
            stack.enter_context(alone_in(folder))
            check_new(folder)
            open_folder(folder, run.cfg, run.split)
        try:
            with processes.first_before_others():
                run.prepare(quiet=quiet)
        except Stopped as stop:
            raise Stopped(f"{stop}; go on with: {go_on(folder)}", stop.signal) from stop
        return Session(run, folder, quiet=quiet).complete()


def of_first(cfg: Config) -> Config:
    """The configuration that the first process has settled on, in all of them."""
    if distributed.num_processes() == 1:
        return cfg
    return resolve([Layer("the first process", processes.of_first(asdict(cfg)))])


def prepare_folder(stack: ExitStack, cfg: Config, folder: Path, *, resume: bool) -> None:
    """See that the run can go on in its folder, and have that alone; or that it can begin there."""
    if resume:
        stack.enter_context(alone_in(folder))
        check_same(cfg, folder)
    else:
        check_new(folder)


def make_run(cfg: Config, record: SplitRecord | None, *, quiet: bool) -> Run:
    """The run of a configuration at its first step; with a record, on the images that it names."""
    method = find_method(cfg.method.name)
    with silence(quiet), processes.first_before_others():
        split = data.load(
            cfg.data, labels=cfg.labels, fold=cfg.fold, all_labels=method.needs_all_labels, record=record
        )
    if processes.of_first(split.record.split_hash) != split.record.split_hash:
        raise UserError("the processes see different images or labels: all of them must read the same files")
    if cfg.keep_memory:
        memory.keep_heap()
    if distributed.is_main():
        cfg = settle_views(cfg, split, method, tell=None if quiet else note)
    cfg = of_first(cfg)
    with processes.first_before_others():  # which may have to download weights
        return Run(cfg, split, method)


def check_new(folder: Path) -> None:
    """Refuse a folder in which there is something already."""
    if folder.exists() and not (
        folder.is_dir() and all(path.name.startswith(BARELY_BEGUN) for path in folder.iterdir())
    ):
        raise UserError(f"{folder} exists already; go on with that run by --resume, or choose another --out")


def make_folder(folder: Path) -> None:
    """Make the run folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write to {folder}: {error.strerror}; choose another --out") from error


def open_folder(folder: Path, cfg: Config, split: Split) -> None:
    """Write into a run folder what a resumed run starts from."""
    try:
        split.record.to_json(folder / "split.json")
        write_whole(folder / "config.yaml", cfg.to_yaml())
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
