"""The verb `fit`: a folder of images and a few labels in, a model, a number and a report out."""

import shlex
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from interlude.data.problem import shown
from interlude.errors import RunError, cure
from interlude.fitting.budget import TOO_SHORT
from interlude.fitting.fit import Fitted
from interlude.fitting.fit import fit as run_fit
from interlude.fitting.options import FitOptions
from interlude.options import run_verb
from interlude.signals import Stopped


def main(tokens: Sequence[str]) -> None:
    """The verb `fit`."""

    def fit(folder: Path, /, *, options: Annotated[FitOptions, Parameter(name="*")] = FitOptions()) -> None:
        """Make a classifier from a folder of images and a few labels, with an honest number and a report.

        Parameters
        ----------
        folder
            A sub-folder for each class (and unlabeled/), or train/ val/ test/, or one folder with --labels.
        """
        print(summary(run_fit(folder, options, command=command)))

    command = shlex.join(["interlude", "fit", *tokens])
    try:
        run_verb("fit", fit, tokens)
    except OSError as error:
        if (advice := cure(error)) is None:
            raise
        raise RunError(f"{advice}; what is finished is kept, go on with: {command}") from error
    except KeyboardInterrupt as stop:
        number = getattr(stop, "signal", signal.SIGINT)
        at_once = getattr(stop, "at_once", False)
        raise Stopped(
            f"stopped; what is finished is kept, go on with: {command}", number, at_once=at_once
        ) from stop


def summary(fitted: Fitted) -> str:
    """The verdict, the number, and where everything is."""
    found = fitted.comparison
    lines = [found.verdict.sentence]
    if found.schedule.short:
        lines.append(f"only {found.schedule.steps} steps each: {TOO_SHORT}")
    if found.held_out is not None:
        kept = found.held_out.accuracy(found.verdict.keep)
        lines.append(
            f"balanced accuracy on new images like these: {kept.mean:.1f} % (95% interval {kept.low:.1f} to "
            f"{kept.high:.1f}), {found.basis or f'from {len(found.held_out.labels)} labels held out in turn'}"
        )
    if fitted.test is not None:
        sealed = fitted.test["balanced_accuracy"]
        lines.append(
            f"balanced accuracy on the {fitted.test['images']:,} sealed test images: {sealed['mean']:.1f} % "
            f"(95% interval {sealed['low']:.1f} to {sealed['high']:.1f})"
        )
    lines += [sentence for sentence in (found.schedule.note, fitted.overrun) if sentence]
    lines += [f"model: {shown(str(fitted.folder))}", f"report: {shown(str(fitted.report))}"]
    return "\n".join(lines)
