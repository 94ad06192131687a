"""The command `interlude`: a verb, then its options. Nothing heavy is imported before a verb is known."""

import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, NoReturn

from cyclopts import App, CycloptsError, Parameter

from interlude import __version__, signals
from interlude.errors import RunError, UserError, cure

Tokens = Annotated[str, Parameter(show=False, allow_leading_hyphen=True)]

app = App(
    name="interlude",
    help="Semi-supervised image classification: many images, few labels. See also `interlude VERB --help`.",
    version=__version__,
    suppress_keyboard_interrupt=False,
)


def verb(function: Callable[..., None]) -> Callable[..., None]:
    """A verb whose tokens, `--help` among them, are read by its own parser once it is known."""
    return app.command(function, help_flags=[], version_flags=[])


@verb
def fit(*tokens: Tokens) -> None:
    """Make a classifier from a folder of images and a few labels, with an honest number and a report."""
    from interlude import processes
    from interlude.fitting import command

    processes.refuse_many("fit")
    command.main(tokens)


@verb
def train(*tokens: Tokens) -> None:
    """Train a classifier from labeled and unlabeled images, into a run folder."""
    from interlude import verbs

    verbs.train(tokens)


@verb
def evaluate(*tokens: Tokens) -> None:
    """Judge the model of a run folder on its sealed test set, or on other labeled images."""
    from interlude import verbs

    verbs.evaluate(tokens)


@verb
def predict(*tokens: Tokens) -> None:
    """Judge image files with the model of a run folder: class, probability, prediction set, abstain."""
    from interlude.prediction import command

    command.main(tokens)


@verb
def export(*tokens: Tokens) -> None:
    """Write the model of a run folder as one ONNX file, preprocessing and calibration inside."""
    from interlude import onnx_export

    onnx_export.main(tokens)


@verb
def report(*tokens: Tokens) -> None:
    """Make the report of a finished fit again: one page, RUN/report.html."""
    from interlude.report import command

    command.main(tokens)


@verb
def preview(*tokens: Tokens) -> None:
    """Write one PNG sheet of what the network sees: originals, weak and strong views, group by group."""
    from interlude import verbs

    verbs.preview(tokens)


@verb
def config(*tokens: Tokens) -> None:
    """Print the resolved settings that `train` would use with the same options."""
    from interlude import verbs

    verbs.config(tokens)


@verb
def bench(*tokens: Tokens) -> None:
    """Run whole experiments: suites of runs, their tables and plots."""
    from interlude import processes
    from interlude.bench import command

    processes.refuse_many("bench")
    command.main(tokens)


@verb
def doctor(*tokens: Tokens) -> None:
    """Examine a folder of images before training on it: what is wrong, and what to do."""
    from interlude.doctor import command

    command.main(tokens)


@app.command(name="app", help_flags=[], version_flags=[])
def label_page(*tokens: Tokens) -> None:
    """Label images in the browser and watch a model learn from them, all on this machine."""
    from interlude.app import command

    command.main(tokens)


@app.command(name="list", help_flags=[], version_flags=[])
def list_names(*tokens: Tokens) -> None:
    """List the methods, data sets, models, augmentation policies and recipes there are."""
    from interlude import verbs

    verbs.list_names(tokens)


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit: 0 done, 1 the run failed, 2 bad input, 130 Ctrl-C, 143 SIGTERM."""
    signals.pass_over_save()
    try:
        app(argv, exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except (UserError, CycloptsError) as error:
        fail(f"error: {' '.join(str(error).split())}", 2)
    except RunError as error:
        fail(f"error: {error}", 1)
    except KeyboardInterrupt as stop:
        code = 128 + getattr(stop, "signal", 2)
        if getattr(stop, "at_once", False):
            print(stop, file=sys.stderr, flush=True)
            os._exit(code)  # a thread that hangs in a write would hold up an orderly end
        fail(str(stop) or "stopped", code)
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # what reads us has gone, as `head` does
        sys.exit(1)
    except OSError as error:
        if (advice := cure(error)) is None:
            raise
        fail(f"error: {advice}, and start again", 1)
    sys.exit(0)


def fail(message: str, code: int) -> NoReturn:
    """One line to standard error, and the exit code."""
    print(message, file=sys.stderr)
    sys.exit(code)
