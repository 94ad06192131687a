import csv
import io
import os
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bad_files import UNUSABLE
from interlude.data.find_file import Finder
from interlude.data.label_file import CONFLICT, read_label_file
from interlude.errors import UserError


@pytest.fixture
def table(tmp_path):
    """`table(text)` writes a label file and reads it."""

    def read(text, group=None):
        path = tmp_path / "labels.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_label_file(path, group)

    return read


def labels_of(read):
    return {path: entry.label for path, entry in read.entries.items()}


def kinds(read):
    return [problem.kind for problem in read.problems]


PLAIN = "file_name,label\na.png,cat\nb.png,dog\nc.png,\n"


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        PLAIN.replace(",", ";"),
        PLAIN.replace(",", "\t"),
        PLAIN.replace(",", "|"),
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace("\n", "\n\n"),
        "\n\n" + PLAIN,
        PLAIN.rstrip("\n"),
        "\ufeff" + PLAIN,
        PLAIN.encode("utf-16"),
        'File_Name , "Label"\n"a.png","cat"\n b.png , dog \nc.png,NaN\n',
        "label,file_name\ncat,a.png\ndog,b.png\n,c.png\n",
        "file_name,label,,\na.png,cat,,\nb.png,dog,,\nc.png,,,\n",
        "file_name,label\na.png,cat\nb.png,dog\nc.png\n",
    ],
    ids=range(14),
)
def test_a_table_is_understood_however_it_is_written(table, text):
    read = table(text)
    assert labels_of(read) == {"a.png": "cat", "b.png": "dog", "c.png": None}
    assert read.problems == []


@pytest.mark.parametrize("column", ["file_name", "image_path", "image", "filename", "path", "file"])
@pytest.mark.parametrize("label", ["label", "class", "target"])
def test_columns_have_many_names(table, column, label):
    assert labels_of(table(f"{column},{label}\na.png,cat\n")) == {"a.png": "cat"}


def test_labels_that_look_like_numbers_stay_text(table):
    read = table("image,label\na.png,01\nb.png,1\nc.png,1.0\nd.png,-1\n")
    assert list(labels_of(read).values()) == ["01", "1", "1.0", "-1"]


def test_quoted_cells_may_hold_separators_quotes_and_new_lines(table):
    read = table('image,label\n"a, b.png","the ""cat"""\n"x\ny.png",dog\nz.png,cow\n')
    assert labels_of(read) == {"a, b.png": 'the "cat"', "x\ny.png": "dog", "z.png": "cow"}
    assert [entry.line for entry in read.entries.values()] == [2, 3, 5]


def test_splits_have_many_words(table):
    words = ["train", "Training", "val", "valid", "VALIDATION", "test", "testing", ""]
    read = table("image,label,split\n" + "".join(f"{n}.png,x,{word}\n" for n, word in enumerate(words)))
    assert [entry.split for entry in read.entries.values()] == [
        *["train"] * 2,
        *["val"] * 3,
        *["test"] * 2,
        None,
    ]


def test_an_unknown_split_is_refused_rather_than_trained_on(table):
    with pytest.raises(UserError, match="line 2: 'holdout' is no split; say train, val or test"):
        table("image,label,split\na.png,x,holdout\n")


def test_the_label_of_an_image_put_among_the_unlabeled_is_not_used(table):
    assert labels_of(table("image,label,split\na.png,x,unlabeled\n")) == {"a.png": None}


@pytest.mark.parametrize(("column", "asked"), [("group", None), ("patient_id", None), ("Slide", "slide")])
def test_groups_come_from_a_column(table, column, asked):
    read = table(f"image,label,{column}\na.png,x,p1\nb.png,y,\n", group=asked)
    assert [entry.group for entry in read.entries.values()] == ["p1", None]
    assert read.has_groups


def test_a_table_may_leave_the_labels_to_folders(table):
    read = table("image,patient_id\na.png,p1\n")
    assert not read.has_labels


@pytest.mark.parametrize(("text", "message"), UNUSABLE, ids=range(len(UNUSABLE)))
def test_a_table_that_cannot_be_used_is_refused_in_one_line(table, text, message):
    with pytest.raises(UserError, match=message) as caught:
        table(text)
    assert "\n" not in str(caught.value)


def test_a_missing_group_column_names_the_nearest(table):
    with pytest.raises(UserError, match="did you mean 'patient'"):
        table("image,label,patient\na.png,x,1\n", group="patent")


def test_a_missing_table_is_told(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        read_label_file(tmp_path / "none.csv")
    with pytest.raises(UserError, match="cannot read"):
        read_label_file(tmp_path)


def test_a_file_named_twice_alike_is_used_once(table):
    read = table("image,label\na.png,cat\na.png,cat\n")
    assert labels_of(read) == {"a.png": "cat"}
    assert kinds(read) == ["duplicate-row"]


def test_contradicting_labels_cancel_each_other(table):
    read = table("image,label\na.png,cat\na.png,dog\na.png,cat\nb.png,dog\n")
    assert labels_of(read) == {"a.png": CONFLICT, "b.png": "dog"}
    assert set(kinds(read)) == {"conflicting-labels"}
    assert "lines 2 and 3 label it 'cat' and 'dog'" in read.problems[0].detail


def test_a_label_completes_an_empty_one(table):
    assert labels_of(table("image,label\na.png,\na.png,cat\n")) == {"a.png": "cat"}


def test_a_file_in_two_splits_is_in_the_more_sealed_one(table):
    for order in (("train", "test"), ("test", "train")):
        read = table("image,label,split\n" + "".join(f"a.png,cat,{split}\n" for split in order))
        assert read.entries["a.png"].split == "test"
        assert kinds(read) == ["conflicting-splits"]


def test_rows_that_cannot_be_right_are_told_and_left_out(table):
    read = table("image,label\na.png,cat\nb.png,dog,extra\n,dog\nc.png,dog\n")
    assert list(read.entries) == ["a.png", "c.png"]
    assert [problem.detail[:6] for problem in read.problems] == ["line 3", "line 4"]


def test_a_formula_is_only_text(table):
    read = table('image,label\na.png,"=cmd|\'/c calc\'!A1"\nb.png,__import__("os").abort()\n')
    assert labels_of(read)["a.png"] == "=cmd|'/c calc'!A1"


def test_rows_know_their_lines_to_the_end(table):
    count = 20_000
    read = table("image,label\n" + "".join(f"{row}.png,{row % 7}\n" for row in range(count)))
    assert len(read.entries) == count
    assert read.entries["19999.png"].line == count + 1


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_give_a_table_or_one_line(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / f"fuzz-{os.getpid()}.csv"
    path.write_bytes(b"image,label\n" + content)
    with suppress(UserError):
        read = read_label_file(path)
        assert all(entry.label is None or isinstance(entry.label, str) for entry in read.entries.values())


@given(st.lists(st.tuples(st.text(min_size=1), st.text()), min_size=1, max_size=5))
@settings(max_examples=100, deadline=None)
def test_what_a_csv_writer_writes_is_read_back(tmp_path_factory, rows):
    rows = [(f"{n}{path}".replace("\0", "").strip() + ".png", label) for n, (path, label) in enumerate(rows)]
    text = io.StringIO(newline="")
    csv.writer(text).writerows([("image", "label"), *rows])
    path = tmp_path_factory.getbasetemp() / f"written-{os.getpid()}.csv"
    try:
        path.write_bytes(text.getvalue().encode())
    except UnicodeEncodeError:
        return
    if "\0" in text.getvalue():
        return
    read = read_label_file(path)
    expected = {name: label.strip() for name, label in rows}
    found = {name: entry.label or "" for name, entry in read.entries.items()}
    assert found == {name: "" if label.lower() == "nan" else label for name, label in expected.items()}


PATHS = ["a/1.png", "a/2.png", "b/2.png", "b/caf\u00e9.jpg", "deep/er/3.png"]


@pytest.mark.parametrize(
    ("written", "row"),
    [
        ("a/1.png", 0),
        ("./a//1.png", 0),
        ("a\\1.png", 0),
        ("1.png", 0),
        ("1", 0),
        ("a/1", 0),
        ("/home/me/images/a/1.png", 0),
        ("C:\\me\\a\\1.png", 0),
        ("er/3.png", 4),
        ("b/2.png", 2),
        ("cafe\u0301.jpg", 3),
    ],
)
def test_a_file_is_found_however_its_path_is_written(written, row):
    assert Finder(PATHS).find(written) == row


@pytest.mark.parametrize("written", ["c/1.png", "1.jpg", "x1.png", "../1.png/", "", "a", "er"])
def test_another_file_is_never_taken_for_it(written):
    assert Finder(PATHS).find(written) == "no such file"


def test_a_name_that_several_files_have_is_not_guessed():
    assert "several files" in Finder(PATHS).find("2.png")


@pytest.mark.parametrize("word", ["unlabeled", "Unlabeled", "_unlabelled"])
def test_a_label_that_says_unlabeled_is_none(tmp_path, word):
    table = tmp_path / "l.csv"
    table.write_text(f"file_name,label\na.png,cat\nb.png,{word}\n")
    assert read_label_file(table).entries["b.png"].label is None


def test_a_table_without_its_first_line_says_what_that_must_be(tmp_path):
    table = tmp_path / "l.csv"
    table.write_text("a.png,cat\nb.png,dog\n")
    with pytest.raises(UserError, match=r"first line must name the columns, .*; .* has a\.png, cat"):
        read_label_file(table)


def test_an_empty_table_is_called_empty(tmp_path):
    table = tmp_path / "l.csv"
    table.write_text("\n \n")
    with pytest.raises(UserError, match="is empty"):
        read_label_file(table)


def sampled_of(read):
    return {path: entry.sampled for path, entry in read.entries.items()}


def test_a_column_says_which_labels_were_drawn_at_random(table):
    read = table("file_name,label,sampled\na,x,yes\nb,x,no\nc,y, YES \nd,y,True\ne,y,0\nf,y,\n")
    assert sampled_of(read) == {"a": True, "b": False, "c": True, "d": True, "e": False, "f": None}
    assert read.has_sample


def test_without_the_column_nothing_is_known_of_a_sample(table):
    read = table(PLAIN)
    assert not read.has_sample
    assert set(sampled_of(read).values()) == {None}


def test_another_word_than_yes_or_no_is_refused_with_its_line(table):
    with pytest.raises(UserError, match=r"line 3: 'maybe' is no answer in .* sampled; say yes or no$"):
        table("file_name,label,sampled\na,x,yes\nb,x,maybe\n")


def test_two_rows_make_a_sampled_image_only_if_neither_says_no(table):
    text = "file_name,label,sampled\na,x,yes\na,x,no\nb,x,yes\nb,x,\nc,x,\nc,x,\n"
    assert sampled_of(table(text)) == {"a": False, "b": True, "c": None}
