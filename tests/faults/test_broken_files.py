"""Every broken image and table through `fit`, `predict` and the store: told, left out, and never a stop."""

import csv
import json
import os
import re

import pytest

from bad_files import UNUSABLE, picture, spoil, spoil_more
from image_files import noise, write
from runs import final_bits

pytestmark = pytest.mark.slow

QUICK = ["--steps", "4", "--threads", "1"]
# the same command for each table, in one process
EACH = """
import sys
from interlude.cli import main as command

for table in sys.argv[1:]:
    try:
        command(["fit", "photos", "--labels", table, "--out", "run", "--quiet"])
    except SystemExit as end:
        print(end.code, file=sys.stderr)
sys.exit()
"""


@pytest.fixture
def photos(here):
    """Two classes and a pool, with every kind of broken file among them."""
    root = here.folder / "photos"
    for number in range(22):
        folder = ("cat", "dog")[number % 2] if number < 10 else "unlabeled"
        write(root / folder / f"{number}.png", noise(24, 24, seed=number))
    here.images, here.broken = spoil(root / "unlabeled")
    spoil_more(root / "unlabeled")
    (root / "cat/broken.png").write_bytes(b"")
    return root


def test_fit_tells_them_and_uses_all_others_and_predict_has_a_row_for_each(here, photos):
    words = ["--lane", "scratch", "--repetitions", "1", "--force", *QUICK]
    fitted = here.run("fit", "photos", "--out", "run", *words)
    assert fitted.code == 0, fitted.err
    counts = json.loads((here.folder / "run/fit.json").read_text())["counts"]
    assert counts["labeled"] == {"cat": 5, "dog": 5}
    assert counts["unlabeled"] == 12 + len(here.images)
    judged = here.run("predict", "run", "photos/unlabeled", "--out", "said.csv")
    assert judged.code == 0, judged.err
    with (here.folder / "said.csv").open("rb") as file:
        text = file.read().decode(errors="surrogateescape")
    rows = {
        os.fsencode(row["file"]).rpartition(b"/")[2]: row
        for row in csv.DictReader(text.splitlines(keepends=True))
    }
    assert {name for name, row in rows.items() if row["error"]} >= set(here.broken)
    assert all(rows[name]["class"] in ("cat", "dog") and not rows[name]["error"] for name in here.images)


def test_the_store_and_streaming_leave_out_the_same_and_train_alike(here, photos):
    words = ["train", "--data", "photos", "--labels", "8", "--batch", "4", "--model", "cnn", *QUICK]
    stored, streamed = here.run(*words, "--out", "one"), here.run(*words, "--data.no-store", "--out", "two")
    for outcome in (stored, streamed):
        assert outcome.code == 0, outcome.err
        assert "unreadable: " in outcome.err
        assert f"(and {len(here.broken) + 1} more like this)" in outcome.err
    assert final_bits(here.folder / "one") == final_bits(here.folder / "two")


def test_a_table_that_cannot_be_used_is_told_in_one_line(here):
    (here.folder / "photos").mkdir()
    (here.folder / "photos/a.png").write_bytes(picture(1))
    tables = []
    for number, (content, _) in enumerate(UNUSABLE):
        tables.append(f"{number}.csv")
        (here.folder / tables[-1]).write_bytes(content if isinstance(content, bytes) else content.encode())
    outcome = here.run(*tables, script=EACH)
    lines = outcome.err.splitlines()
    assert lines[1::2] == ["2"] * len(UNUSABLE), outcome.err
    for line, (_, message) in zip(lines[::2], UNUSABLE, strict=True):
        assert re.match(f"error: .*({message})", line)
