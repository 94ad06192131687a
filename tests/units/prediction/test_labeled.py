"""Figures of a model on a folder of labeled images."""

from pathlib import Path

import pytest
from PIL import Image

from interlude.errors import UserError
from interlude.prediction.labeled import figures_on
from interlude.predictor import Predictor


@pytest.fixture(scope="module")
def predictor(saved) -> Predictor:
    return Predictor.load(saved())


def paint(path: Path, shade: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", (20, 30), shade).save(path)


@pytest.fixture
def folder(tmp_path: Path, predictor: Predictor) -> Path:
    """Grey pictures in folders of two of the three classes, one of each named rightly."""
    for shade in (0, 255):
        path = tmp_path / "x.png"
        paint(path, shade)
        named = predictor.class_names[int(predictor.predict(path)[0])]
        path.unlink()
        other = next(name for name in predictor.class_names if name != named)
        paint(tmp_path / "new" / named / f"{shade}.png", shade)
        paint(tmp_path / "new" / other / f"{shade}.png", shade)
    return tmp_path / "new"


def test_all_labeled_images_of_a_folder_are_judged(predictor: Predictor, folder: Path) -> None:
    what, figures = figures_on(predictor, folder, None, workers=1, quiet=True)
    assert (what, figures["images"], figures["accuracy"]) == ("labeled images", 4, 50)


def test_a_test_part_is_judged_alone(predictor: Predictor, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "parted" / "train").mkdir(parents=True)
    (tmp_path / "parted" / "test").mkdir()
    for name in ("train", "test"):
        paint(tmp_path / "parted" / name / "cat" / f"{name}.png", 9)
    what, figures = figures_on(predictor, tmp_path / "parted", None, workers=1, quiet=True)
    assert (what, figures["images"]) == ("test", 1)


def test_a_table_gives_the_labels(predictor: Predictor, tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        paint(tmp_path / "flat" / f"{name}.png", 0)
    right = predictor.class_names[int(predictor.predict(tmp_path / "flat" / "one.png")[0])]
    table = tmp_path / "labels.csv"
    table.write_text(f"file_name;label;split\none.png;{right};test\ntwo.png;;test\nthree.png;unheard;test\n")
    _, figures = figures_on(predictor, tmp_path / "flat", str(table), workers=1, quiet=True)
    assert (figures["images"], figures["accuracy"]) == (1, 100)


def test_what_cannot_be_judged_is_told(
    predictor: Predictor, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paint(folder / "unheard" / "1.png", 9)
    (folder / "cat" / "broken.png").write_bytes(b"no picture")
    _, figures = figures_on(predictor, folder, None, workers=1)
    said = capsys.readouterr().err
    assert "class 'unheard' is none of the model's; its 1 images are left out" in said
    assert "1 files could not be read and are left out" in said
    assert figures["images"] == 4


def test_a_folder_without_a_known_class_is_a_user_error(predictor: Predictor, tmp_path: Path) -> None:
    paint(tmp_path / "new" / "unheard" / "1.png", 9)
    with pytest.raises(UserError, match=r"no image in .* has a label of the model's classes"):
        figures_on(predictor, tmp_path / "new", None, workers=1, quiet=True)
