"""A stream of files is judged in order, a bad one among them, and never read far ahead."""

import numpy as np

import interlude
from interlude.prediction import stream
from interlude.prediction.stream import judged


def test_rows_come_in_order_and_equal_those_of_python(saved, pictures):
    model = interlude.load(saved())
    files = [str(path) for path in sorted(pictures.iterdir())] * 15
    rows = [row for batch in judged(model, files, workers=3) for row in batch]
    assert [row.file for row in rows] == files
    verdicts = model.judge(files[:10])
    np.testing.assert_allclose([row.probabilities for row in rows[70:80]], verdicts.probabilities, atol=1e-6)
    assert [row.in_set for row in rows[:10]] == [tuple(row) for row in verdicts.in_set.tolist()]
    assert [row.abstain for row in rows[:10]] == verdicts.abstain.tolist()


def test_a_bad_file_is_a_row_and_changes_no_other(saved, pictures):
    model = interlude.load(saved())
    (pictures / "bad.png").touch()
    (pictures / "folder.png").mkdir()
    good = [str(pictures / "1.png"), str(pictures / "2.png")]
    files = [str(pictures / "bad.png"), good[0], str(pictures / "folder.png"), "gone.png", good[1]]
    (rows,) = judged(model, files, workers=2)
    assert [row.error for row in rows] == [
        "the file is empty",
        "",
        "it is a folder, not an image",
        "no such file or directory",
        "",
    ]
    (alone,) = judged(model, good, workers=2)
    assert [rows[1], rows[4]] == alone


def test_only_bad_files_give_only_errors(saved):
    (rows,) = judged(interlude.load(saved()), ["a", "b"], workers=1)
    assert all(row.error for row in rows)


def test_files_are_read_only_a_few_batches_ahead(saved, pictures):
    taken = []

    def endless():
        while True:
            taken.append(1)
            yield str(pictures / "0.png")

    batches = judged(interlude.load(saved()), endless(), workers=1)
    next(batches)
    next(batches)
    batches.close()
    assert len(taken) <= (stream.AHEAD + 3) * stream.BATCH
