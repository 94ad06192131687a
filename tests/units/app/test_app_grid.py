"""The grid: which images, in which order."""

import numpy as np
import pytest

from interlude.app import grid
from interlude.app.beliefs import Beliefs, read_beliefs

CAT, DOG = 0, 1


@pytest.fixture
def beliefs():
    """Of the ten images, the model has judged 2 to 9; the certainty goes up, 8 and 9 are unusual."""
    classes = np.array([-1, -1, 0, 1, 0, 1, 0, 1, 0, 1], np.int32)
    p = np.where(classes < 0, np.nan, np.linspace(0, 0.9, 10)).astype(np.float32)
    ood = np.where(np.arange(10) >= 8, 0.99, np.where(classes < 0, np.nan, 0.5)).astype(np.float32)
    return Beliefs(classes, p, 2 * p - 1, ood)


def rows(labels, beliefs, which, sort="name"):
    page = grid.page(labels, beliefs, which=which, sort=sort, offset=0, limit=100)
    assert page["total"] == len(page["images"])
    return [image["id"] for image in page["images"]]


def test_images_are_found_by_their_mark(labels):
    for ids, value in (([0, 5], CAT), ([1], DOG), ([2], "skip"), ([3], "strange")):
        labels.mark(ids, value)
    found = {which: rows(labels, None, which) for which in ("labeled", "skipped", "strange", "class:0")}
    assert found == {"labeled": [0, 1, 5], "skipped": [2], "strange": [3], "class:0": [0, 5]}
    assert rows(labels, None, "unlabeled") == [4, 6, 7, 8, 9]
    assert rows(labels, None, "all") == list(range(10))


def test_images_are_found_by_what_the_model_takes_them_for(labels, beliefs):
    assert rows(labels, beliefs, "predicted:1") == [3, 5, 7, 9]
    assert rows(labels, beliefs, "surprising") == [9, 8]


def test_what_has_got_a_mark_is_no_prediction_any_more(labels, beliefs):
    labels.mark([3], CAT)
    labels.mark([9], "strange")
    assert rows(labels, beliefs, "predicted:1") == [5, 7]
    assert rows(labels, beliefs, "surprising") == [8]


def test_the_certain_come_first_or_last_and_the_unjudged_at_the_end(labels, beliefs):
    assert rows(labels, beliefs, "all", "certain") == [9, 8, 7, 6, 5, 4, 3, 2, 0, 1]
    assert rows(labels, beliefs, "all", "uncertain") == [2, 3, 4, 5, 6, 7, 8, 9, 0, 1]


def test_without_a_model_the_order_is_that_of_names(labels):
    assert rows(labels, None, "all", "certain") == list(range(10))
    assert rows(labels, None, "predicted:0") == rows(labels, None, "surprising") == []


def test_a_page_is_a_part_of_the_whole(labels):
    page = grid.page(labels, None, which="all", sort="name", offset=8, limit=5)
    assert page["total"] == 10
    assert [image["id"] for image in page["images"]] == [8, 9]


def test_an_image_is_told_with_label_and_belief(labels, beliefs):
    labels.mark([9], DOG)
    assert grid.describe(9, labels, beliefs) == {
        "id": 9,
        "name": "9.png",
        "label": DOG,
        "belief": {"class_id": 1, "p": 0.9},
        "ood": 0.99,
    }
    assert grid.describe(0, labels, beliefs)["belief"] is None
    assert grid.describe(0, labels, beliefs)["ood"] is None


def test_a_model_that_knows_nothing_of_the_unusual_leaves_that_open(labels, beliefs):
    beliefs.ood[:] = np.nan
    assert grid.describe(9, labels, beliefs)["ood"] is None
    assert rows(labels, beliefs, "surprising") == []


def test_the_table_of_a_fit_is_read_by_the_names_its_classes_had(labels, tmp_path):
    path = tmp_path / "unlabeled.csv"
    path.write_text(
        "file,class,probability,second,second_probability,ood\n"
        "3.png,old cat,0.7,dog,0.2,0.1\n"
        "gone.png,dog,0.7,old cat,0.2,0.1\n"
        "4.png,bird,0.7,dog,0.2,0.1\n"
    )
    beliefs = read_beliefs(path, labels.row_of, {"old cat": 0, "dog": 1})
    assert np.flatnonzero(beliefs.known).tolist() == [3]
    assert beliefs.of(3) == {"class_id": 0, "p": 0.7}
    assert beliefs.margin[3] == pytest.approx(0.5)


@pytest.mark.parametrize(
    "text", [None, "file,class\n3.png,cat\n", "file,class,probability,ood\n3.png,cat,x,1\n"]
)
def test_a_table_that_is_damaged_or_away_gives_no_beliefs(labels, tmp_path, text):
    path = tmp_path / "unlabeled.csv"
    if text is not None:
        path.write_text(text)
    assert read_beliefs(path, labels.row_of, {"cat": 0}) is None
