"""What a user may say about the data of a run."""

from dataclasses import dataclass

from interlude.data.decode import Fit
from interlude.options import Options, option


@dataclass(frozen=True)
class DataConfig(Options):
    """Which data set, and how it is divided."""

    name: str = option(
        "digits",
        "data set: a name from `interlude list data`, folder:PATH, npz:FILE, or an address: cifar10@40/fold1",
    )
    validation: float = option(
        0.0,
        "training images set aside with their labels to watch or choose on: a share below 1, or a number",
        at_least=0,
        below=float("inf"),
    )
    include_labeled: bool = option(
        True, "keep the labeled images in the unlabeled pool as well (the convention of FixMatch and USB)"
    )
    pool: int | None = option(
        None,
        "bound the unlabeled pool to this many images, drawn once for all folds; the labeled ones count "
        "among them if they are included (default: all there are)",
        at_least=1,
    )
    keep_test_duplicates: bool = option(
        False, "keep unlabeled images that are byte-identical to test images (STL-10 has about 7,500)"
    )
    out_of_class: float | None = option(
        None,
        "open-set study: this share of the unlabeled pool is from classes that are never labeled or tested",
        at_least=0,
        at_most=1,
    )
    known_classes: str | None = option(
        None,
        "with out_of_class, the classes that are labeled and tested: names with commas, or how many of the "
        "first; default the animals of CIFAR-10, elsewhere the first three fifths",
    )
    split: str | None = option(None, "split file to take the labeled images from, instead of drawing them")
    root: str | None = option(
        None, "folder of downloaded data; default $INTERLUDE_DATA or ~/.cache/interlude"
    )
    download: bool = option(True, "fetch a missing data set")
    trust_pickle: bool = option(
        False, "read data sets that come as pickle files; reading one runs whatever code it holds"
    )
    image_size: int | None = option(None, "scale images to this many pixels a side", at_least=1)
    labels_file: str | None = option(
        None, "with a folder, the table of its labels: CSV with the columns file_name and label"
    )
    group: str | None = option(
        None,
        "with a folder, the column of the table that says which images belong together, as patient_id; "
        "default group or patient_id, where there is such a column",
    )
    fit: Fit = option(
        "crop",
        "with a folder, how an image becomes square: crop to its centre, pad with black, or squash",
    )
    store: bool = option(
        True,
        "with a folder, decode all images once into $INTERLUDE_CACHE (default ~/.cache/interlude); without, "
        "they are decoded at every step",
    )
