"""Places that cannot be written: told before the work where that can be known, and always with what to do."""

import pytest
from commands import without_power

from image_files import class_folders
from runs import saved_step

pytestmark = pytest.mark.slow


@pytest.fixture
def sealed(here):
    """A folder that nobody may write to."""
    folder = here.folder / "sealed"
    folder.mkdir()
    folder.chmod(0o555)
    yield folder
    folder.chmod(0o755)


def test_a_run_in_a_place_that_cannot_be_written(here, sealed):
    outcome = here.train("--out", "sealed/run", fault=without_power)
    assert outcome.code == 2
    assert outcome.message == "error: cannot write to sealed/run: Permission denied; choose another --out"


def test_a_run_that_can_no_longer_write_keeps_what_it_has(here, begun):
    (begun / "checkpoints").chmod(0o555)
    outcome = here.train("--out", "run", "--resume", fault=without_power)
    (begun / "checkpoints").chmod(0o755)
    assert outcome.code == 1
    assert "permission denied; see who may write there, or choose another place" in outcome.message
    assert "step 20 is safe, go on with: interlude train --out run --resume" in outcome.message
    assert saved_step(begun) == 20


def test_a_sealed_run_cannot_be_gone_on_with(here, begun):
    (begun / ".lock").unlink()
    begun.chmod(0o555)
    outcome = here.train("--out", "run", "--resume", fault=without_power)
    begun.chmod(0o755)
    assert outcome.code == 2
    assert outcome.message == "error: cannot write to run: Permission denied; choose another --out"


def test_predictions_into_a_sealed_folder(here, sealed, whole):
    class_folders(here.folder / "photos")
    words = ["predict", whole, "photos", "--out", "sealed/said.csv"]
    outcome = here.run(*words, fault=without_power)
    assert outcome.code == 1
    assert outcome.message.startswith("error: cannot write sealed/said.csv: ")
    assert "permission denied; see who may write there, or choose another place" in outcome.message


def test_images_that_cannot_be_stored_can_be_streamed(here, sealed):
    class_folders(here.folder / "photos")
    here.env["INTERLUDE_CACHE"] = str(sealed)
    words = ["train", "--data", "photos", "--labels", "4", "--steps", "2", "--batch", "4", "--model", "cnn"]
    outcome = here.run(*words, "--out", "run", fault=without_power)
    assert outcome.code == 2
    assert "or decode at every step with --data.no-store" in outcome.message
    outcome = here.run(*words, "--data.no-store", "--out", "run", fault=without_power)
    assert outcome.code == 0, outcome.err


def test_a_fit_in_a_place_that_cannot_be_written(here, sealed):
    class_folders(here.folder / "photos")
    words = ["fit", "photos", "--lane", "scratch", "--steps", "2", "--threads", "1", "--quiet"]
    outcome = here.run(*words, "--out", "sealed/run", fault=without_power)
    assert outcome.code == 2
    assert outcome.message == "error: cannot write to sealed/run: Permission denied; choose another --out"
    assert not list(sealed.iterdir())


def test_a_fit_whose_images_cannot_be_stored_says_where_they_would_be(here, sealed):
    class_folders(here.folder / "photos")
    here.env["INTERLUDE_CACHE"] = str(sealed)
    words = ["fit", "photos", "--lane", "scratch", "--steps", "2", "--threads", "1", "--force", "--quiet"]
    outcome = here.run(*words, "--out", "run", fault=without_power)
    assert outcome.code in (1, 2)
    assert str(sealed) in outcome.message
