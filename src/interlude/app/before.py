"""Labels that a folder has before the page is opened: by its sub-folders, or by a table."""

from typing import NamedTuple

import numpy as np

from interlude.app.images import Album
from interlude.data.label_file import UNLABELED


class Found(NamedTuple):
    """Where labels were found, and the label of each image, by row, class by class."""

    where: str  # "folder" or "table"
    labels: dict[int, str]


def labels_before(album: Album, table: str | None) -> Found | None:
    """The labels of a folder as `fit` reads them; None if it has none.

    Names of sub-folders are labels only where one of them is called `unlabeled`: others may be years.
    """
    if table is None and not any(map(_is_unlabeled, album.paths)):
        return None
    from interlude.data.listing import list_folder  # brings torch, which no other folder has to wait for

    listing = list_folder(album.root, table)
    row_of = {path: row for row, path in enumerate(album.paths)}
    labels = {
        row_of[listing.paths[row]]: name
        for number, name in enumerate(listing.class_names)
        for row in np.flatnonzero(listing.labels == number).tolist()
        if listing.paths[row] in row_of
    }
    return Found("folder" if listing.table is None else "table", labels)


def _is_unlabeled(path: str) -> bool:
    """Whether a file is in a folder for images without a label, at the top or in a part such as train."""
    return any(folder.lower() in UNLABELED for folder in path.split("/")[:-1][:2])
