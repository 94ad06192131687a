"""The verb `report`: make the page of a run again."""

from collections.abc import Sequence
from pathlib import Path

from interlude.errors import UserError
from interlude.options import run_verb
from interlude.report.page import write_report


def main(tokens: Sequence[str]) -> None:
    """Run the verb with its tokens."""
    run_verb("report", run, tokens)


def run(folder: Path, /, *, images: Path | None = None, thumbnails: bool = True) -> None:
    """Make the report of a fit again: one page in RUN/report.html, for any browser.

    Parameters
    ----------
    folder
        A run folder that `interlude fit` finished.
    images
        The folder of the images, if it is elsewhere than it was.
    thumbnails
        Small copies of a few images inside the page; without them it can be shown where the images may not.
    """
    if images is not None and not images.is_dir():
        raise UserError(f"{images} is no folder of images")
    print(f"wrote {write_report(folder, images, thumbnails=thumbnails)}")
