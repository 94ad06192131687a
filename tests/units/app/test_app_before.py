"""Labels that a folder has before the page is opened."""

import pytest
from PIL import Image

from interlude.app.project import Project, make_place
from interlude.errors import UserError


@pytest.fixture
def root(tmp_path):
    """Two cats, a dog and two images without a label, in sub-folders."""
    for path in ("cat/1.png", "cat/2.png", "dog/1.png", "unlabeled/1.png", "unlabeled/2.png"):
        place = tmp_path / "photos" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8)).save(place)
    return tmp_path / "photos"


@pytest.fixture
def opened(root):
    """Open the page of the folder once more; the labels that it shows."""
    made = []

    def start(table=None):
        for project in made:
            project.close()
        made[:] = [Project(root, make_place(root, None), table=table)]
        labels = made[0].labels
        return {path: labels.classes.get(labels.value(row)) for row, path in enumerate(labels.paths)}

    start.projects = made
    yield start
    for project in made:
        project.close()


FOLDERS = {"cat/1.png": "cat", "cat/2.png": "cat", "dog/1.png": "dog"}


def test_sub_folders_beside_an_unlabeled_one_are_labels(opened):
    assert opened() == FOLDERS | {"unlabeled/1.png": None, "unlabeled/2.png": None}
    assert opened.projects[0].num_read_in == 3
    assert {event.who for event in opened.projects[0].labels.log.read()} == {"folder"}


def test_sub_folders_without_an_unlabeled_one_may_be_anything(opened, root):
    (root / "unlabeled").rename(root / "2019")
    assert set(opened().values()) == {None}


def test_the_unlabeled_folder_may_lie_in_a_part(opened, root):
    (root / "train").mkdir()
    for name in ("cat", "dog", "unlabeled"):
        (root / name).rename(root / "train" / name)
    assert opened()["train/cat/1.png"] == "cat"


def test_a_second_start_reads_in_only_what_is_new(opened, root):
    opened()
    Image.new("L", (8, 8)).save(root / "dog" / "2.png")
    assert opened()["dog/2.png"] == "dog"
    assert opened.projects[0].num_read_in == 1


def test_what_was_said_on_the_page_stays(opened):
    opened()
    labels = opened.projects[0].labels
    labels.mark([labels.row_of["cat/1.png"]], 1)
    labels.mark([labels.row_of["cat/2.png"]], None)
    after = opened()
    assert (after["cat/1.png"], after["cat/2.png"], after["dog/1.png"]) == ("dog", None, "dog")


def test_a_table_is_read_in(opened, root, tmp_path):
    table = tmp_path / "known.csv"
    table.write_text("file_name,label\nunlabeled/1.png,10\ncat/1.png,2\n")
    after = opened(str(table))
    assert {path: label for path, label in after.items() if label} == {
        "cat/1.png": "2",
        "unlabeled/1.png": "10",
    }
    labels = opened.projects[0].labels
    assert list(labels.classes.values()) == ["2", "10"]
    assert {event.who for event in labels.log.read()} == {"table"}


def test_a_table_that_is_not_there_is_said(opened):
    with pytest.raises(UserError, match="cannot read the label file"):
        opened("none.csv")


def test_labels_from_before_are_in_the_sample_only_where_they_are_at_its_beginning(opened):
    opened()
    project = opened.projects[0]
    order = [project.album.paths[row] for row in project.proposer.sample.order]
    wanted = order[: next(place for place, path in enumerate(order) if path.startswith("unlabeled"))]
    rows = project.table().splitlines()[1:]
    assert [row.partition(",")[0] for row in rows if row.endswith(",yes")] == sorted(wanted)
