"""Tables of verdicts can be read back, whatever a file is called."""

import csv
import io
import json

import pytest

from interlude.prediction.stream import Row
from interlude.prediction.table import Columns, heading, lines, show

COLUMNS = Columns(("cat", "dog", "a|b"), has_sets=True, has_ood=True)
ROW = Row("x.png", "", (0.2, 0.5, 0.3), (False, True, True), 0.97, True)
ODD = [
    "new\nline.png",
    "carriage\rreturn.png",
    'quo"te.png',
    "com,ma.png",
    "tab\t.png",
    "ünï.png",
    " blank .png",
]


def table(rows, suffix, columns=COLUMNS):
    return (heading(columns, suffix) + lines(columns, rows, suffix)).decode()


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize(("suffix", "separator"), [(".csv", ","), (".tsv", "\t")])
def test_any_name_survives(name, suffix, separator):
    text = table([ROW._replace(file=name), ROW], suffix)
    rows = list(csv.DictReader(io.StringIO(text, newline=""), delimiter=separator))
    assert [row["file"] for row in rows] == [name, "x.png"]
    assert json.loads(lines(COLUMNS, [ROW._replace(file=name)], ".jsonl"))["file"] == name


@pytest.mark.parametrize("name", ["=1+1.png", "+a.png", "-b.png", "@c.png"])
def test_no_name_is_a_formula_and_all_are_still_the_file(name):
    row = next(csv.DictReader(io.StringIO(table([ROW._replace(file=name)], ".csv"))))
    assert row["file"] == f"./{name}"


def test_the_columns_of_a_good_and_of_a_bad_file():
    text = table([ROW, Row("bad.png", "it is, sadly, empty")], ".csv")
    assert text.splitlines() == [
        "file,class,probability,set,abstain,ood,error",
        r"x.png,dog,0.5,dog|a\|b,true,0.97,",
        'bad.png,,,,,,"it is, sadly, empty"',
    ]


def test_more_classes_and_all_probabilities_on_demand():
    columns = Columns(("cat", "dog", "a|b"), has_sets=False, has_ood=False, top=2, probabilities=True)
    row = json.loads(lines(columns, [ROW], ".jsonl"))
    assert (row["class"], row["class_2"], row["probability_2"]) == ("dog", "a|b", 0.3)
    assert (row["probability:cat"], row["set"], row["abstain"], row["ood"]) == (0.2, None, None, None)


def test_the_table_for_the_eye_shows_no_control_signs(capsys):
    show(COLUMNS, [ROW._replace(file="[red]\x1b[31m.png"), Row("bad.png", "it is empty")])
    shown = capsys.readouterr().out
    assert r"[red]\x1b[31m.png" in shown
    assert "it is empty" in shown
