"""From a folder to a model: the doctor, the plan, the held-out comparison, the final model, the report."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from interlude import data, memory
from interlude.config import Config
from interlude.data import Split
from interlude.data.listing import Listing, list_folder
from interlude.doctor import Diagnosis, examine
from interlude.doctor.table import render
from interlude.errors import RunError, UserError
from interlude.files import write_whole
from interlude.fitting import outcome
from interlude.fitting.budget import OVERRUN, Patience, Schedule, overrun
from interlude.fitting.candidates import Candidate, candidates
from interlude.fitting.choose import LONGEST, Choice, Plan, choose
from interlude.fitting.compare import Comparison, compare, folds_for, plan_runs, shortened
from interlude.fitting.folds import Folds
from interlude.fitting.options import FitOptions
from interlude.fitting.probe import fit_probe
from interlude.fitting.relations import heeded
from interlude.fitting.request import PLAN, Memo, Request, Watch, configure, facts_of
from interlude.fitting.vectors import extracted, settled_views
from interlude.lock import LOCK, alone_in
from interlude.method import find_method
from interlude.models import ModelConfig, build
from interlude.predictor import save_calibration
from interlude.progress import note, silence
from interlude.report import REPORT, write_report
from interlude.run import Run
from interlude.session import Session
from interlude.training import open_folder

FEATURES_SHARE = 0.5  # of the budget that the extraction of vectors may take
OUTCOME = "fit.json"  # written last: with it a fit is finished
WISHES, IMAGES, SCHEDULE = "wishes", "images", "schedule"
DIAGNOSIS = "doctor.json"
BARELY_BEGUN = (DIAGNOSIS, LOCK, PLAN)  # of a fit that the doctor stopped, or a wrong file: nothing to lose
LEAST_SHARE = 0.25  # that training has even where all before took longer than planned
FEWEST_SECONDS = 1.0  # for which vectors are planned, however short the budget


@dataclass(frozen=True)
class Fitted:
    """What a fit came to."""

    folder: Path
    comparison: Comparison
    test: dict[str, Any] | None
    report: Path
    overrun: str = ""  # a sentence where it took longer than the budget


def fit(folder: Path, options: FitOptions = FitOptions(), *, command: str = "") -> Fitted:
    """Examine, plan, compare, train, calibrate, report; a fit that was stopped goes on where it was."""
    request, watch = Request(folder, options, command), Watch()
    listing = list_folder(request.folder, request.options.labels, request.options.group)
    plan = choose(request.options, facts_of(listing))
    found = candidates(plan.method, pretrained=plan.lane == "features")
    configs = {x: configure(request, plan, x.settings or found[1].settings) for x in found}
    check_weights(configs[found[0]].model)
    open_out(request)
    with alone_in(request.out):
        return carry_out(request, listing, plan, configs, watch)


def carry_out(
    request: Request, listing: Listing, plan: Plan, configs: dict[Candidate, Config], watch: Watch
) -> Fitted:
    """All of a fit that is done in its run folder."""
    diagnosis = diagnose(request, listing)
    watch.lap("doctor")
    tell(request, plan.choices)
    found = list(configs)
    configs, split, told = prepare(request, configs, lambda split: heeded(split, listing, diagnosis), watch)
    watch.lap("features")
    left = watch.countdown(max(request.budget - watch.total, LEAST_SHARE * request.budget))
    folds, made = scheduled(request, configs, split, left(), plan.lane)
    configs = {x: shortened(cfg, made.steps) for x, cfg in configs.items()}
    choices = [*plan.choices, *told, Choice("steps", f"{made.steps:,}", made.why)]
    tell(request, choices[len(plan.choices) :])
    more = Patience(made, left, beyond=OVERRUN * request.budget)
    comparison = compare(
        request.out / "cv.jsonl", split, configs, folds, made, more=more, quiet=request.quiet
    )
    if comparison.schedule != made:
        Memo(request.out / PLAN).write(SCHEDULE, asdict(comparison.schedule))
    watch.lap("cross_validation")
    kept = next(x for x in found if x.name == comparison.verdict.keep)
    run = train_final(request, kept, configs[kept], split)
    watch.lap("training")
    return leave(request, choices, found, comparison, run, watch)


def check_weights(model: ModelConfig) -> None:
    """A file of weights that is no use is told before any work."""
    if model.weights:
        build(model, num_classes=2, channels=3, image_size=(32, 32))


def open_out(request: Request) -> None:
    """The run folder, new or gone on with, never in the image folder."""
    out, images = request.out, request.folder.expanduser().resolve()
    below = out.resolve().relative_to(images).parts if out.resolve().is_relative_to(images) else (".",)
    if not any(part.startswith(".") for part in below):  # a hidden folder is never read
        beside = images.with_name(f"{images.name}-fit")
        raise UserError(f"{out} is in the image folder, where nothing is written; say --out {beside}")
    if out.is_file():
        raise UserError(f"{out} is a file; choose another --out")
    if (out / OUTCOME).exists():
        raise UserError(f"{out} holds a finished fit, told in {out / REPORT}; choose another --out")
    begun = Memo(out / PLAN).read(WISHES)
    if begun is not None:
        check_same(request, begun)
    elif out.is_dir() and not request.options.resume:
        if any(path.name.removesuffix(".tmp") not in BARELY_BEGUN for path in out.iterdir()):
            raise UserError(f"{out} exists already, and no fit was begun in it; choose another --out")
        (out / PLAN).unlink(missing_ok=True)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write to {out}: {error.strerror}; choose another --out") from error


def check_same(request: Request, begun: Mapping[str, Any]) -> None:
    """A fit that was begun is gone on with by the same command, and by no other."""
    other = [name for name, value in request.wishes.items() if begun.get(name) != value]
    if other:
        raise UserError(
            f"{request.out} holds a fit that was begun with another {' and '.join(other)}; "
            "choose another --out, or delete that folder"
        )
    if not request.quiet:
        note(f"going on with the fit in {request.out}")


def check_images(request: Request, split: Split) -> None:
    """A fit that was begun is gone on with on the same images and labels only."""
    memo, now = Memo(request.out / PLAN), {"split": split.record.split_hash}
    if memo.read(IMAGES) not in (None, now):
        raise UserError(
            f"images or labels are others than when the fit in {request.out} was begun; choose another "
            "--out, or delete that folder"
        )
    memo.write(IMAGES, now)


def diagnose(request: Request, listing: Listing) -> Diagnosis:
    """What the doctor says of the folder; what is serious ends the fit here."""
    diagnosis = examine(listing, quiet=request.quiet)
    write_whole(request.out / DIAGNOSIS, diagnosis.to_json() + "\n")
    if not request.quiet or diagnosis.stops:
        render(diagnosis)
    if diagnosis.stops and not request.options.force:
        raise RunError("findings of the doctor stop this fit (see above); mend them, or go on by --force")
    return diagnosis


def prepare(
    request: Request, configs: dict[Candidate, Config], heed: Callable[[Split], Split], watch: Watch
) -> tuple[dict[Candidate, Config], Split, list[Choice]]:
    """The images, the settings of each candidate, which see them alike, and what time cut down of these."""
    first = next(iter(configs.values()))
    with silence(request.quiet):
        split = heed(data.load(first.data, labels=None, fold=0))
    if first.keep_memory:
        memory.keep_heap()
    if not request.quiet:
        for sentence in split.notes:
            note(sentence)
    check_images(request, split)
    rest = (1 - LEAST_SHARE) * request.budget - watch.total
    seconds = max(min(FEATURES_SHARE * request.budget, rest), FEWEST_SECONDS)
    left = watch.countdown(seconds)
    first = replace(first, features=replace(first.features, budget=seconds / 60))
    settled, told = settled_views(request, first, split), list[Choice]()
    Memo(request.out / PLAN).write(WISHES, request.wishes)
    if settled.model.frozen:
        settled, split, told = extracted(request, settled, split, left)
    seen = {}
    for candidate, cfg in configs.items():
        model = replace(settled.model, head="linear") if candidate.is_probe else settled.model
        seen[candidate] = replace(cfg, model=model, features=settled.features, data=settled.data)
    return seen, split, told


def scheduled(
    request: Request, configs: dict[Candidate, Config], split: Split, seconds: float, lane: str
) -> tuple[Folds, Schedule]:
    """Folds and steps that the budget allows; a fit that goes on keeps those it began with."""
    memo = Memo(request.out / PLAN)
    before = memo.read(SCHEDULE)
    if before is None:
        most = request.options.steps or LONGEST[lane] * next(iter(configs.values())).steps
        folds, made = plan_runs(
            configs, split, seconds, most_steps=most, repetitions=request.options.repetitions
        )
        memo.write(SCHEDULE, asdict(made))
        return folds, made
    return folds_for(split, Schedule(**before)), Schedule(**before)


def train_final(request: Request, kept: Candidate, cfg: Config, split: Split) -> Run:
    """The model that is kept, trained on all labels; its test images are opened here and nowhere else."""
    run = Run(cfg, replace(split, notes=()), find_method(cfg.method.name))  # the notes were told before
    if not (request.out / "config.yaml").exists():
        open_folder(request.out, cfg, split)
    run.prepare(quiet=request.quiet)
    session = Session(run, request.out, quiet=request.quiet)
    if kept.is_probe:
        fit_probe(run)
        session.finish()
    else:
        session.complete()
    return run


def leave(
    request: Request,
    choices: list[Choice],
    found: list[Candidate],
    comparison: Comparison,
    run: Run,
    watch: Watch,
) -> Fitted:
    """Calibrate the model and write down what was found out."""
    created = datetime.now(UTC).isoformat(timespec="seconds")
    calibration = outcome.calibrated(run, comparison, run.split, coverage=request.options.coverage)
    usual = outcome.usual_in_pool(run)
    save_calibration(request.out, calibration, usual)
    pool = outcome.describe_pool(run, calibration, usual, request.out / "unlabeled.csv")
    watch.lap("report")
    made = outcome.Outcome(
        name=request.folder.resolve().name,
        command=request.command,
        created=created,
        seconds={**watch.seconds, "total": watch.total},
        choices=choices,
        candidates=found,
        comparison=comparison,
        split=run.split,
        test=outcome.test_figures(run, created),
    )
    write_whole(request.out / OUTCOME, made.to_json(calibration, pool))
    late = overrun(watch.total, request.budget, watch.seconds)
    return Fitted(request.out, comparison, made.test, write_report(request.out, request.folder), late)


def tell(request: Request, choices: list[Choice]) -> None:
    """Each choice with its reason, a line each."""
    for choice in choices if not request.quiet else ():
        note(f"{choice.name}: {choice.value} ({choice.reason})")
