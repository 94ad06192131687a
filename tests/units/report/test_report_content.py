"""What is read of a run folder, and what is said about one that cannot be."""

import pytest

from interlude.errors import UserError
from interlude.report.content import read_content
from made_up_run import make_run


def test_a_line_that_was_cut_short_is_left_out(tmp_path):
    run = make_run(tmp_path)
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 310, "train/lo')
    curves = read_content(run, None, thumbnails=True).curves
    assert curves["train/loss"][-1] == (300, pytest.approx(0.03))


def test_what_is_no_number_is_no_point_of_a_curve(tmp_path):
    run = make_run(tmp_path)
    (run / "metrics.jsonl").write_text('{"step": 1, "a": NaN, "b": "x", "c": 2}\n')
    assert read_content(run, None, thumbnails=True).curves == {"c": [(1, 2.0)]}


def test_the_folder_of_the_images_is_taken_from_the_settings(tmp_path):
    run = make_run(tmp_path)
    assert read_content(run, None, thumbnails=True).images == tmp_path / "photos"
    assert read_content(run, tmp_path, thumbnails=True).images == tmp_path
    assert read_content(run, tmp_path, thumbnails=False).images is None


def test_a_folder_that_no_fit_finished_is_named(tmp_path):
    with pytest.raises(UserError, match=r"no fit\.json: give the run folder of a finished `interlude fit`"):
        read_content(tmp_path, None, thumbnails=True)


def test_a_run_of_another_schema_is_not_guessed_at(tmp_path):
    run = make_run(tmp_path, schema=2)
    with pytest.raises(UserError, match="schema 2, not 1"):
        read_content(run, None, thumbnails=True)


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_damaged_file_is_named_in_one_line(tmp_path, text):
    run = make_run(tmp_path)
    (run / "doctor.json").write_text(text)
    with pytest.raises(UserError, match=r"doctor\.json is damaged: .+"):
        read_content(run, None, thumbnails=True)
