"""The verb `report`."""

from made_up_run import make_run


def test_a_report_is_made_again_by_one_command(interlude, tmp_path):
    run = make_run(tmp_path)
    done = interlude("report", run)
    assert (done.code, done.out) == (0, f"wrote {run / 'report.html'}\n")
    assert "data:image" in (run / "report.html").read_text(encoding="utf-8")


def test_a_report_without_images_is_asked_for_by_a_flag(interlude, tmp_path):
    run = make_run(tmp_path)
    assert interlude("report", run, "--no-thumbnails").code == 0
    assert "data:image" not in (run / "report.html").read_text(encoding="utf-8")


def test_a_folder_that_is_no_run_is_an_error_in_one_line(interlude, tmp_path):
    done = interlude("report", tmp_path / "nothing")
    assert done.code == 2
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1
