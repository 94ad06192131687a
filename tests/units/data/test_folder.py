from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from image_files import bomb, class_folders, encoded, noise, write
from interlude.data import DataConfig, SplitRecord, load
from interlude.data.decode import read_pixels
from interlude.data.source import open_source
from interlude.data.sources import folder as module
from interlude.errors import UserError


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("INTERLUDE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def root(tmp_path):
    return tmp_path / "images"


def settings(root, **options):
    return DataConfig(name=f"folder:{root}", **options)


def open_folder(root, **options):
    return load(settings(root, **options), labels=None, fold=0)


def table(root, rows, head="image,label,split,patient_id"):
    """Write the images that these rows name, and the rows as a label file; numbers are grey levels."""
    for row in rows:
        write(root / row.split(",")[0], noise(8, 8, seed=int(row.split(".")[0])))
    (root / "labels.csv").write_text("\n".join([head, *rows]) + "\n")
    return root


def test_a_folder_of_classes_is_a_data_set(root):
    split = open_folder(class_folders(root, per_class=4, unlabeled=6))
    assert split.class_names == ("cat", "dog")
    assert len(split.labeled) == 8
    assert len(split.unlabeled) == 14
    assert split.tests == {}
    assert split.validation is None
    pixels = split.labeled.take(torch.tensor([0, 7]))
    assert torch.equal(pixels[0], torch.from_numpy(read_pixels(root / "cat/0.png", 3, 16)))
    assert torch.equal(pixels[1], torch.from_numpy(read_pixels(root / "dog/3.png", 3, 16)))
    assert split.labeled.labels_of().tolist() == [0] * 4 + [1] * 4


@pytest.mark.parametrize("store", [True, False])
def test_every_image_knows_its_file(root, store):
    split = open_folder(class_folders(root), store=store)
    names = split.unlabeled.names_of()
    assert names == sorted(str(path.relative_to(root)) for path in root.rglob("*.png"))
    for row in (0, 13):
        expected = torch.from_numpy(read_pixels(root / names[row], 3, 16))
        assert torch.equal(split.unlabeled.take(torch.tensor([row]))[0], expected)


def test_the_path_of_a_folder_is_enough(root):
    class_folders(root)
    assert len(load(DataConfig(name=str(root)), labels=4, fold=0).labeled) == 4
    with pytest.raises(UserError, match=r"there is no folder .*nothing, nor a data set"):
        open_source(DataConfig(name=str(root / "nothing")))


def test_fewer_labels_than_there_are_can_be_drawn(root):
    split = load(settings(class_folders(root)), labels=2, fold=0)
    assert split.labeled.labels_of().tolist() == [0, 1]
    assert len(split.unlabeled) == 14


def test_streamed_images_are_those_of_the_store_and_so_is_their_record(root):
    class_folders(root)
    stored, streamed = (open_folder(root, store=store) for store in (True, False))
    assert streamed.record == stored.record
    rows = torch.tensor([3, 11, 0])
    assert torch.equal(streamed.unlabeled.take(rows), stored.unlabeled.take(rows))
    assert (streamed.mean, streamed.std) == (stored.mean, stored.std)


def test_the_folders_of_a_division_are_honoured(root):
    for part, count in (("train", 4), ("val", 2), ("test", 3)):
        class_folders(root / part, per_class=count, unlabeled=5 if part == "train" else 0)
    split = open_folder(root)
    assert (len(split.labeled), len(split.validation), len(split.tests["test"])) == (8, 4, 6)
    assert len(split.unlabeled) == 13
    first = torch.from_numpy(read_pixels(root / "val/cat/0.png", 3, 16))
    assert torch.equal(split.validation.take(torch.tensor([0]))[0], first)
    with pytest.raises(UserError, match="comes with its own validation images"):
        open_folder(root, validation=0.5)
    assert len(load(settings(root), labels=4, fold=1).labeled) == 4


def test_the_size_is_the_middle_one_within_bounds(root):
    for number, side in enumerate((20, 30, 40, 50, 400)):
        write(root / "a" / f"{number}.png", noise(side, side + 3))
        write(root / "b" / f"{number}.png", noise(side + 3, side))
    split = open_folder(root)
    assert split.labeled.image_size == (40, 40)
    assert any("20 to 400, in the middle 40 pixels" in note and "40x40" in note for note in split.notes)
    assert open_folder(root, image_size=24).labeled.image_size == (24, 24)


@pytest.mark.parametrize(("side", "used"), [(8, 16), (200, 96), (28, 28)])
def test_sizes_nobody_asked_for_are_not_extreme(root, side, used):
    for name in ("a", "b"):
        write(root / name / "1.png", noise(side, side))
    assert open_folder(root).labeled.image_size == (used, used)


def test_grey_images_have_one_channel_and_mixed_ones_three(root):
    for number in range(3):
        write(root / "a" / f"{number}.png", noise(8, 8, channels=1, seed=number))
        write(root / "b" / f"{number}.png", noise(8, 8, channels=1, seed=number + 10))
    write(root / "b" / "16bit.tif", Image.fromarray(np.arange(64, dtype=np.uint16).reshape(8, 8)))
    assert open_folder(root).labeled.channels == 1
    write(root / "unlabeled" / "colour.png", noise(8, 8))
    split = open_folder(root)
    assert split.labeled.channels == 3
    grey = split.labeled.take(torch.tensor([0]))
    assert torch.equal(grey[:, 0], grey[:, 2])


def test_a_colour_image_that_no_sample_saw_still_gives_three_channels(root, monkeypatch):
    monkeypatch.setattr(module, "SAMPLE", 2)
    for number in range(5):
        for name in ("a", "b"):
            write(root / name / f"{number}.png", noise(8, 8, channels=1, seed=number))
    write(root / "a" / "3.png", noise(8, 8))
    assert open_folder(root).labeled.channels == 3


@pytest.mark.parametrize("fit", ["crop", "pad", "squash"])
def test_the_way_to_fit_is_an_option(root, fit):
    for name in ("a", "b"):
        write(root / name / "1.png", noise(20, 60, seed=ord(name)))
    expected = torch.from_numpy(read_pixels(root / "a/1.png", 3, 20, fit))
    assert torch.equal(open_folder(root, fit=fit).labeled.take(torch.tensor([0]))[0], expected)


def test_bad_files_are_told_and_left_out(root):
    class_folders(root, per_class=4)
    (root / "cat/1.png").write_bytes(b"")
    (root / "unlabeled/9.jpg").write_bytes(b"no image")
    split = open_folder(root)
    assert split.labeled.labels_of().tolist() == [0] * 3 + [1] * 4
    assert len(split.unlabeled) == 13
    assert any("unreadable: cat/1.png: the file is empty (and 1 more like this)" in n for n in split.notes)


GOOD = {
    "cmyk.jpg": lambda: encoded(noise(16, 16).convert("CMYK"), "JPEG"),
    "deep.png": lambda: encoded(Image.fromarray(np.arange(256, dtype=np.uint16).reshape(16, 16)), "PNG"),
    "alpha.png": lambda: encoded(noise(16, 16, 4), "PNG"),
    "moving.webp": lambda: encoded(noise(16, 16), "WEBP", save_all=True, append_images=[noise(16, 16)]),
    "turned.jpg": lambda: encoded(
        noise(16, 20), "JPEG", exif=b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01"
    ),
    "is_jpeg.png": lambda: encoded(noise(16, 16), "JPEG"),
    "\u732b\n.png": lambda: encoded(noise(16, 16), "PNG"),
    "a.png/inside.bmp": lambda: encoded(noise(16, 16), "BMP"),
}
BAD = {
    "empty.png": lambda: b"",
    "cut.jpg": lambda: encoded(noise(64, 64), "JPEG")[:-200],
    "bomb.png": lambda: bomb(40_000),
    "text.tif": lambda: b"this is no image",
    "noise.webp": lambda: bytes(range(256)) * 4,
}


@pytest.mark.parametrize("store", [True, False])
def test_of_a_folder_full_of_trouble_all_good_images_are_used_and_all_bad_ones_told(root, store):
    class_folders(root, per_class=2, unlabeled=0)
    for name, content in (GOOD | BAD).items():
        (root / "dog" / name).parent.mkdir(exist_ok=True)
        (root / "dog" / name).write_bytes(content())
    (root / "dog/out.png").symlink_to("/etc/hostname")
    source = open_source(settings(root, store=store))
    labels = source.train.labels_of().tolist()
    assert labels == [0] * 2 + [1] * (2 + len(GOOD))
    assert source.train.take(torch.arange(len(labels))).shape == (len(labels), 3, *source.train.image_size)
    told = " ".join(source.notes)
    assert f"and {len(BAD) - 1} more like this" in told
    assert "dog/out.png: leads out of the folder" in told
    assert "dog/a.png: is a folder with the name of an image" in told


def test_the_order_of_files_in_the_store_does_not_matter(root, tmp_path, monkeypatch):
    class_folders(root)
    (root / "cat/0.png").rename(tmp_path / "later.png")
    open_folder(root)
    (tmp_path / "later.png").rename(root / "cat/0.png")
    grown = open_folder(root)
    monkeypatch.setenv("INTERLUDE_CACHE", str(tmp_path / "other"))
    fresh = open_folder(root)
    assert grown.record == fresh.record
    for part in ("labeled", "unlabeled"):
        every = torch.arange(len(getattr(fresh, part)))
        assert torch.equal(getattr(grown, part).take(every), getattr(fresh, part).take(every))


def test_a_changed_image_is_other_data(root):
    class_folders(root)
    record = open_folder(root).record
    write(root / "unlabeled/0.png", noise(8, 8, seed=4321))
    with pytest.raises(UserError, match="made for other data"):
        load(settings(root), labels=None, fold=0, record=record)


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda root: class_folders(root, names=("cat",)), "only the class 'cat'"),
        (lambda root: class_folders(root, names=()), "no label at all"),
        (lambda root: [p.write_bytes(b"") for p in class_folders(root).rglob("*.png")], "none of the images"),
        (lambda root: [p.write_bytes(b"") for p in class_folders(root).glob("dog/*")], "class 'dog'"),
        (lambda root: root.mkdir(), "there is no image"),
        (lambda root: None, "does not exist"),
    ],
    ids=["one class", "no label", "all bad", "class bad", "empty", "missing"],
)
def test_what_cannot_be_trained_on_is_refused_in_one_line(root, prepare, message):
    prepare(root)
    with pytest.raises(UserError, match=message) as caught:
        open_folder(root)
    assert "\n" not in str(caught.value)


def test_dicom_without_its_package_is_told_at_once(root, monkeypatch):
    class_folders(root)
    (root / "cat/scan.dcm").write_bytes(b"x")
    monkeypatch.setattr(module, "can_read_dicom", lambda: False)
    with pytest.raises(UserError, match=r"pip install 'interlude-ssl\[dicom\]'"):
        open_folder(root)


def test_unlabeled_images_that_are_also_test_images_are_dropped(root):
    for part in ("train", "test"):
        class_folders(root / part, per_class=3, unlabeled=4 if part == "train" else 0)
    (root / "train/unlabeled/0.png").write_bytes((root / "test/cat/1.png").read_bytes())
    split = open_folder(root)
    assert len(split.unlabeled) == 6 + 3
    assert any("dropped 1 unlabeled images" in note for note in split.notes)


# groups


GROUPED = [
    "1.png,a,train,p1",
    "2.png,b,train,p1",
    "3.png,a,train,p2",
    "4.png,b,train,p2",
    "5.png,a,train,",
    "6.png,,train,p3",
    "7.png,,train,p1",
    "8.png,,train,",
    "9.png,a,val,p4",
    "10.png,,train,p4",
    "11.png,b,test,p5",
    "12.png,b,val,p5",
    "13.png,a,train,p5",
    "14.png,b,train,p2",
]


def test_a_group_in_val_or_test_is_nowhere_else(root):
    split = open_folder(table(root, GROUPED))
    paths = sorted(path.name for path in root.glob("*.png"))
    by_row = dict(enumerate(paths))
    everything = open_source(settings(root))
    kept = {by_row[row] for row in everything.train.rows.tolist()}
    assert kept == {f"{n}.png" for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 14)}
    assert len(split.labeled) == 6
    assert len(split.validation) == 1
    assert len(split.tests["test"]) == 1
    assert len(split.unlabeled) == 9
    assert any("3 images are left out, as others of their group are in val or test" in n for n in split.notes)


def test_the_groups_of_a_split_are_those_of_its_images(root):
    split = open_folder(table(root, GROUPED))
    names = {row: path.name for row, path in enumerate(sorted(root.glob("*.png")))}
    group = {row.split(",")[0]: row.split(",")[3] for row in GROUPED}
    for images, numbers in ((split.labeled, split.groups.labeled), (split.unlabeled, split.groups.unlabeled)):
        found = [group[names[row]] for row in images.rows.tolist()]
        assert [f"p{number + 1}" if number >= 0 else "" for number in numbers.tolist()] == found


def test_drawn_validation_images_take_their_groups_out_of_labels_and_pool(root):
    rows = [f"{n}.png,{'ab'[n % 2] if n % 3 else ''},train,p{n // 6}" for n in range(60)]
    split = open_folder(table(root, rows), validation=0.25)
    groups = {images: {row // 6 for row in numbers(part)} for images, part in parts(split).items()}
    assert groups["validation"]
    assert not groups["validation"] & (groups["labeled"] | groups["unlabeled"])
    assert groups["labeled"] | groups["validation"] == set(range(10))
    assert any("images of groups that are in validation are left out of the pool" in n for n in split.notes)


def numbers(images):
    """The number in the name of each file of `table`, from its place in the sorted names."""
    order = sorted(f"{n}.png" for n in range(60))
    return [int(order[row].partition(".")[0]) for row in images.rows.tolist()]


def parts(split):
    return {"labeled": split.labeled, "unlabeled": split.unlabeled, "validation": split.validation}


def test_a_record_that_cuts_through_a_group_is_refused(root):
    table(root, [row for row in GROUPED if ",train," in row])
    cfg = settings(root)
    source = open_source(cfg)
    labeled = [row for row in range(len(source.train)) if source.train.labels_of()[row] >= 0]
    one, other = [row for row in labeled if source.groups[row] == 0]
    record = SplitRecord(labeled=tuple(sorted({*labeled} - {one})), validation=(one,))
    assert other in record.labeled
    with pytest.raises(UserError, match="share a group"):
        load(cfg, labels=None, fold=0, record=record)


def test_no_group_column_means_no_groups(root):
    assert open_folder(class_folders(root)).groups is None


def test_where_pixels_lie_is_beside_the_point(root):
    from interlude.config import Config

    one = Config(data=settings(root))
    assert one.fingerprint() == replace(one, data=replace(one.data, store=False)).fingerprint()
    assert one.fingerprint() != replace(one, data=replace(one.data, fit="pad")).fingerprint()
