"""One sitting of a run in its folder: journal, checkpoints, signals, and what is left when it is done."""

import json
import shlex
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interlude import __version__, checkpoint, distributed, machine, models, processes
from interlude.data import Images
from interlude.errors import NotFinite, RunError, cure
from interlude.files import write_whole
from interlude.journal import Journal, NoJournal
from interlude.loop import fit, trained_on_labels
from interlude.predictor import Predictor, calibrated, save_calibration
from interlude.progress import Progress, note
from interlude.run import Run
from interlude.signals import Stopped, StopRequest

SHOWN = ("mask",)  # what a progress line shows beside the terms of the loss


@dataclass(frozen=True)
class Result(Predictor):
    """A finished run: its model (the averaged weights), its figures, and `predict`."""

    folder: Path
    summary: dict[str, Any]

    @property
    def metrics(self) -> dict[str, Any]:
        """The final figures on the test set, in percent."""
        figures: dict[str, Any] = self.summary["test"]
        return figures


class Session:
    """One sitting of a run in its folder: what is shown, written down and saved while `fit` works."""

    def __init__(self, run: Run, folder: Path, *, quiet: bool = False) -> None:
        self.run, self.folder, self.quiet = run, folder, quiet
        self.cfg = run.cfg
        self.main = distributed.is_main()  # alone in writing
        self.restore()
        self.checkpoints = checkpoint.Writer(folder / "checkpoints", saved=run.step)
        self.journal: Journal | NoJournal = NoJournal()
        if self.main:
            self.journal = Journal(folder, step=run.step, tensorboard=run.cfg.tensorboard)
        self.progress = Progress(folder.name, run.cfg.steps, quiet=quiet)
        self.logged = (time.monotonic(), run.step)
        self.clock = time.monotonic()

    @property
    def again(self) -> str:
        """The command that goes on with this run."""
        return go_on(self.folder)

    @property
    def overlap(self) -> bool:
        """Whether to make the next batch while the network computes: it pays on a device or a core apart."""
        kind = self.run.device.type
        spare = machine.free().number > self.cfg.threads if kind == "cpu" else kind != "mps"
        return self.cfg.overlap and spare  # MPS is not known to bear work from two threads

    def restore(self) -> None:
        """Go back to the last good checkpoint, if there is one; all processes to that of the first."""
        state = processes.of_first(self.last_state() if self.main else None)
        if state is not None:
            self.run.load(state)

    def last_state(self) -> dict[str, Any] | None:
        """What the last good checkpoint holds."""
        try:
            state, warnings = checkpoint.load(self.folder / "checkpoints")
        except checkpoint.Damaged as damage:
            raise RunError(
                f"no checkpoint of {self.folder} can be read: {damage}; start again in another folder"
            ) from damage
        for warning in warnings:
            note(f"warning: {warning}; going on from the checkpoint before it")
        return state

    def complete(self) -> Result:
        """Train to the end, open the test sets once, and leave the model in the folder."""
        if not self.quiet:
            for sentence in self.run.split.notes:
                note(sentence)
        try:
            with StopRequest() as self.stop, self.progress, self.checkpoints:
                fit(self.run, self.after_step, overlap=self.overlap)
            return self.finish()
        except Stopped:
            raise
        except KeyboardInterrupt as stop:
            raise Stopped(
                f"stopped at once; step {self.checkpoints.saved} is safe, go on with: {self.again}",
                signal.SIGINT,
                at_once=True,
            ) from stop
        except NotFinite as error:
            kept = (
                f"the last good checkpoint is of step {self.checkpoints.saved}"
                if self.checkpoints.saved
                else "no checkpoint was saved before"
            )
            raise RunError(
                f"{error}; {kept} ({self.folder}); a lower optimizer.rate is the usual cure"
            ) from error
        except OSError as error:
            raise RunError(
                f"cannot write to {self.folder}: {cure(error) or error}; step {self.checkpoints.saved} is "
                f"safe, go on with: {self.again}"
            ) from error
        finally:
            self.journal.close()

    def after_step(self) -> None:
        """What is due after each step."""
        now = time.monotonic()
        self.run.seconds += now - self.clock
        self.clock = now
        step, last = self.run.step, self.run.step == self.cfg.steps
        stop, asked = self.heed_signals()
        self.progress.show(step)
        self.checkpoints.check()
        if step % self.cfg.log_every == 0 or last:
            self.log()
        if step % self.cfg.eval_every == 0 or last:
            self.watch()
        if step % self.cfg.save_every == 0 or last or asked or stop:
            self.save()
        if asked:
            self.checkpoints.wait()
            if not self.quiet:
                note(f"saved at step {step}, as SIGUSR1 asked; going on")
        if stop and not last:
            self.checkpoints.wait()
            raise Stopped(f"stopped and saved at step {step}; go on with: {self.again}", stop)

    def heed_signals(self) -> tuple[int, bool]:
        """Which signal to stop for, if any, and whether to save: the same in all processes.

        A signal that one of them gets from here on waits until they ask each other again, a step later.
        """
        wishes = distributed.highest(2 * (self.stop.signal or 0) + self.stop.take_save())
        return wishes // 2, bool(wishes % 2)

    def log(self) -> None:
        """Write and show the means since the last time."""
        values = self.run.meter.drain()
        if not values:
            return
        (since, first), step = self.logged, self.run.step
        self.logged = (time.monotonic(), step)
        pace = (step - first) * self.run.views_per_step / (self.logged[0] - since)
        self.journal.write(
            step, {**values, "rate": self.run.optimizer.rate(step - 1), "images_per_second": pace}
        )
        shown = {
            name.removeprefix("train/"): value
            for name, value in values.items()
            if name in SHOWN or name.startswith("train/")
        }
        self.progress.show(step, {**shown, "images/s": pace})

    def watch(self) -> None:
        """Evaluate what is watched; only validation images may decide which weights are kept."""
        for name, images in self.watched().items():
            figures = self.run.figures(images)
            if name == self.cfg.select == "validation":
                self.run.consider(figures["balanced_accuracy"])
            numbers = {f"{name}/{key}": value for key, value in figures.items() if isinstance(value, float)}
            self.journal.write(self.run.step, numbers)
            self.progress.show(self.run.step, {f"{name} accuracy": figures["accuracy"]})

    def watched(self) -> dict[str, Images]:
        """The images to evaluate during training."""
        split = self.run.split
        images = dict(split.tests) if self.cfg.watch == "test" else {}
        if split.validation and "validation" in (self.cfg.watch, self.cfg.select):
            images["validation"] = split.validation
        return images

    def save(self) -> None:
        """Have a checkpoint written; never of a step whose loss or weights were no numbers."""
        self.log()
        checkpoint.check_finite(self.run.method.model.state_dict(), self.run.step)
        if self.main:
            self.checkpoints.save(self.run.state())

    def finish(self) -> Result:
        """The final figures, the model and the summary."""
        run, split = self.run, self.run.split
        selected_step = run.take_best()
        tests = {name: run.figures(images) for name, images in split.tests.items()}
        summary = {
            "test": next(iter(tests.values()), None),
            "tests": tests,
            "validation": run.figures(split.validation) if split.validation else None,
            "method": self.cfg.method.name,
            "data": self.cfg.data.name,
            "labels": len(split.labeled),
            "fold": self.cfg.fold,
            "seed": self.cfg.seed,
            "steps": run.step,
            "selected_step": selected_step,
            "seconds": round(run.seconds, 3),
            **(run.about_vectors(self.labels_alone()) if self.main else {}),
            "config_hash": self.cfg.fingerprint(),
            "split_hash": split.record.split_hash,
            "version": __version__,
        }
        names = list(split.class_names)
        result = Result(
            run.ema.model,
            split.mean,
            split.std,
            names,
            self.folder,
            summary,
            image_size=split.labeled.image_size,
            fit=self.cfg.data.fit,
        )
        if not self.main:
            return result
        result = self.calibrated(result)
        self.save_model(result)
        write_whole(self.folder / "summary.json", json.dumps(summary, indent=2) + "\n")
        return result

    def labels_alone(self) -> Run | None:
        """What the labels alone give, where that is a matter of seconds: a head in one process."""
        cheap = self.run.vectors is not None and distributed.num_processes() == 1
        return trained_on_labels(self.run) if cheap and self.run.method.unlabeled else None

    def save_model(self, result: Result) -> None:
        """Write the model with all that is needed to use it."""
        labeled = self.run.split.labeled
        models.save(
            self.folder,
            result.model,
            model_config=self.cfg.model,
            image_size=labeled.image_size,
            channels=labeled.channels,
            mean=result.mean,
            std=result.std,
            label_names=result.class_names,
            fit=result.fit,
        )
        if result.usual is not None:
            save_calibration(self.folder, result.calibration, result.usual)

    def calibrated(self, result: Result) -> Result:
        """The result with the calibration that validation images give; a frozen network waits for `fit`."""
        split = self.run.split
        if split.validation is None or isinstance(result.model.backbone, models.Frozen):
            return result
        chose = ", which also chose the weights" if self.cfg.select == "validation" else ""
        training = split.unlabeled if len(split.unlabeled) else split.labeled
        return calibrated(result, split.validation, training, source=f"validation images{chose}")


def go_on(folder: Path) -> str:
    """The command that goes on with the run in a folder."""
    return f"interlude train --out {shlex.quote(str(folder))} --resume"
