"""What a user may say to `interlude fit`."""

from dataclasses import dataclass
from typing import Literal

from interlude.options import Options, option


@dataclass(frozen=True)
class FitOptions(Options):
    """All of it; what is None is chosen from the images and the budget."""

    labels: str | None = option(
        None, "table (CSV or TSV) with the columns file_name and label; an empty label is an unlabeled image"
    )
    group: str | None = option(
        None, "column of the table that says which images belong together, such as patient_id"
    )
    budget: str = option("10m", "how long it may take, as 90s, 10m or 1h30m")
    out: str | None = option(None, "run folder; default runs/FOLDER-fit")
    lane: Literal["auto", "features", "scratch"] = option(
        "auto", "features of a pretrained network, from scratch, or whichever can be had"
    )
    method: str | None = option(
        None, "method that uses the unlabeled images; `interlude list methods` shows them"
    )
    model: str | None = option(None, "network: timm:NAME for a pretrained one, or of `interlude list models`")
    weights: str | None = option(None, "file of weights of the pretrained network, instead of a download")
    image_size: int | None = option(None, "scale images to this many pixels a side", at_least=8)
    augment: str | None = option(
        None, "kind of images: natural, gentle, digits, grayscale-medical; `interlude list policies`"
    )
    steps: int | None = option(None, "at most so many steps in each run", at_least=1)
    repetitions: int | None = option(
        None, "how often the labels are parted into folds; default as the budget allows", at_least=1
    )
    coverage: float = option(0.9, "how often the prediction sets shall hold the true class", above=0, below=1)
    seed: int = option(0, "randomness of training and of the folds", at_least=0)
    threads: int = option(0, "CPU threads; 0 = as many as cores are free when it starts", at_least=0)
    force: bool = option(False, "go on in spite of what the doctor found")
    resume: bool = option(
        False, "go on with the fit in the run folder, as the same command does without being told"
    )
    quiet: bool = option(False, "no progress; only the result")
