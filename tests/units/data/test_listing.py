import os
from collections import Counter
from pathlib import Path

import pytest

from image_files import class_folders, write
from interlude.data.listing import find_images, list_folder, natural, shown
from interlude.errors import UserError


def touch(root: Path, *names: str) -> Path:
    """Files that are called like images; a listing opens none of them."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    return root


def table(root: Path, text: str, name: str = "labels.csv") -> Path:
    (root / name).write_text(text)
    return root


def items(listing):
    return {item.path: item[1:3] for item in listing}


def kinds(listing):
    return [problem.kind for problem in listing.problems]


# layouts


def test_sub_folders_are_classes_and_unlabeled_is_none(tmp_path):
    root = touch(tmp_path, "dog/1.jpg", "cat/b/2.PNG", "unlabeled/3.tif", "4.webp")
    listing = list_folder(root)
    assert items(listing) == {
        "4.webp": (None, "train"),
        "cat/b/2.PNG": ("cat", "train"),
        "dog/1.jpg": ("dog", "train"),
        "unlabeled/3.tif": (None, "train"),
    }
    assert listing.class_names == ("cat", "dog")
    assert listing.problems == ()


@pytest.mark.parametrize("name", ["unlabeled", "_unlabeled", "Unlabelled"])
def test_the_folder_without_labels_has_several_names(tmp_path, name):
    listing = list_folder(touch(tmp_path, "a/1.png", "b/1.png", f"{name}/2.png"))
    assert listing.class_names == ("a", "b")


def test_folders_divide_the_images(tmp_path):
    root = touch(
        tmp_path, "train/a/1.png", "train/b/2.png", "train/unlabeled/3.png", "valid/a/4.png", "test/b/5.png"
    )
    assert list(items(list_folder(root)).values()) == [
        ("b", "test"),
        ("a", "train"),
        ("b", "train"),
        (None, "train"),
        ("a", "val"),
    ]


def test_unlabeled_images_may_stand_beside_the_training_folder(tmp_path):
    root = touch(tmp_path, "train/a/1.png", "train/b/2.png", "unlabeled/3.png")
    assert items(list_folder(root))["unlabeled/3.png"] == (None, "train")


def test_a_test_folder_may_stand_beside_classes(tmp_path):
    root = touch(tmp_path, "a/1.png", "b/2.png", "test/a/3.png")
    assert items(list_folder(root))["test/a/3.png"] == ("a", "test")


def test_train_may_be_a_class_among_others(tmp_path):
    listing = list_folder(touch(tmp_path, "train/1.png", "car/1.png", "bus/1.png"))
    assert listing.class_names == ("bus", "car", "train")


def test_a_stray_folder_beside_a_division_is_refused(tmp_path):
    root = touch(tmp_path, "train/a/1.png", "train/b/1.png", "old/1.png")
    with pytest.raises(UserError, match="folders train divide the images, but beside them is old"):
        list_folder(root)


def test_a_class_that_is_only_tested_is_told_and_left_out(tmp_path):
    listing = list_folder(touch(tmp_path, "train/a/1.png", "train/b/1.png", "test/c/1.png", "test/c/2.png"))
    assert listing.class_names == ("a", "b")
    assert kinds(listing) == ["unknown-class"]
    assert "'c'" in listing.problems[0].detail
    assert items(listing)["test/c/1.png"] == (None, "test")


def test_classes_are_in_natural_order(tmp_path):
    listing = list_folder(touch(tmp_path, "10/a.png", "9/a.png", "010/a.png", "x2/a.png", "x10/a.png"))
    assert listing.class_names[0] == "9"
    assert listing.class_names.index("x2") < listing.class_names.index("x10")
    assert sorted(["b10", "b9", "a", "", "9" * 5000], key=natural)[-2:] == ["b9", "b10"]


def test_classes_that_differ_in_capitals_are_told(tmp_path):
    assert kinds(list_folder(touch(tmp_path, "Cat/1.png", "cat/2.png"))) == ["similar-classes"]


def test_an_empty_or_missing_folder_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"no image in .*; its names must end in"):
        list_folder(touch(tmp_path, "a/readme.txt"))
    with pytest.raises(UserError, match="does not exist"):
        list_folder(tmp_path / "none")
    with pytest.raises(UserError, match="is a file"):
        list_folder(tmp_path / "a/readme.txt")


# tables


def test_a_table_gives_labels_and_what_it_does_not_name_is_unlabeled(tmp_path):
    root = touch(tmp_path / "x", "1.png", "2.png", "3.png", "4.png")
    labels = table(tmp_path, "file_name,label\n1.png,cat\n2.png,dog\n3.png,\n")
    listing = list_folder(root, labels / "labels.csv")
    assert [item.label for item in listing] == ["cat", "dog", None, None]
    assert listing.table == tmp_path / "labels.csv"


@pytest.mark.parametrize("name", ["labels.csv", "metadata.csv", "labels.tsv"])
def test_a_table_in_the_folder_is_found(tmp_path, name):
    root = table(touch(tmp_path, "images/1.png", "images/2.png"), "image,label\n1.png,a\n2.png,b\n", name)
    assert list_folder(root).class_names == ("a", "b")


def test_a_table_beside_class_folders_is_refused_until_chosen(tmp_path):
    root = table(touch(tmp_path, "a/1.png", "b/2.png"), "image,label\n1.png,x\n2.png,y\n")
    with pytest.raises(UserError, match=r"both labels.csv and the folders a, b\.\.\.: say --labels"):
        list_folder(root)
    assert list_folder(root, root / "labels.csv").class_names == ("x", "y")
    assert list_folder(root, "labels.csv").class_names == ("x", "y")


def test_two_tables_are_refused_until_one_is_chosen(tmp_path):
    root = touch(tmp_path, "1.png", "2.png")
    for name in ("labels.csv", "metadata.csv"):
        table(root, "image,label\n1.png,x\n2.png,y\n", name)
    with pytest.raises(UserError, match=r"labels.csv and metadata.csv: say which"):
        list_folder(root)


def test_a_table_without_labels_leaves_them_to_the_folders(tmp_path):
    root = table(touch(tmp_path, "a/1.png", "b/2.png"), "image,patient_id\n1.png,p\n2.png,q\n")
    listing = list_folder(root)
    assert [(item.label, item.group) for item in listing] == [("a", "p"), ("b", "q")]


def test_the_folder_divides_what_the_table_does_not(tmp_path):
    root = touch(tmp_path, "train/1.png", "train/2.png", "test/3.png", "test/4.png")
    table(root, "image,label,split\n1.png,a,\n2.png,b,val\n3.png,a,\n")
    assert list(items(list_folder(root)).values()) == [
        ("a", "test"),
        (None, "test"),
        ("a", "train"),
        (None, "val"),  # no training image is of its class
    ]


def test_groups_are_numbered_in_order(tmp_path):
    root = touch(tmp_path, "1.png", "2.png", "3.png", "4.png")
    table(root, "image,label,slide\n1.png,a,s10\n2.png,b,s9\n3.png,,s10\n")
    listing = list_folder(root, group="slide")
    assert listing.group_names == ("s9", "s10")
    assert listing.groups.tolist() == [1, 0, 1, -1]


def test_groups_need_a_table(tmp_path):
    with pytest.raises(UserError, match="to group by 'patient_id', give a labels file"):
        list_folder(class_folders(tmp_path), group="patient_id")


def test_files_that_are_not_there_are_told_and_the_rest_is_used(tmp_path):
    root = table(touch(tmp_path, "1.png", "2.png"), "image,label\n1.png,a\n2.png,b\n9.png,b\n")
    listing = list_folder(root)
    assert [(p.kind, p.path, p.detail) for p in listing.problems] == [
        ("other-files", "", "1 files are not called like images and are ignored: 1 .csv"),
        ("unknown-file", "9.png", "line 4 of the label file: no such file"),
    ]


def test_a_table_about_other_files_is_refused(tmp_path):
    root = table(touch(tmp_path, "1.png"), "image,label\nx.png,a\ny.png,b\n")
    with pytest.raises(UserError, match=r"none of the 2 files in .* is in"):
        list_folder(root)


def test_one_file_written_in_two_ways_is_one_file(tmp_path):
    root = table(touch(tmp_path, "d/1.png", "d/2.png"), "image,label\nd/1.png,a\n1.png,b\n2.png,b\n")
    listing = list_folder(root)
    assert [item.label for item in listing] == [None, "b"]
    assert "conflicting-labels" in kinds(listing)


# what is odd in a folder


def test_the_order_is_that_of_the_names_not_of_the_disk(tmp_path):
    names = [f"{first}/{second}.png" for first in "ba" for second in ("2", "10", "1")]
    listing = list_folder(touch(tmp_path, *names))
    assert listing.paths == sorted(names)


def test_hidden_and_other_files_are_passed_over_and_counted(tmp_path):
    root = touch(
        tmp_path,
        "a/1.png",
        "b/1.png",
        "a/.2.png",
        ".git/3.png",
        "__MACOSX/4.png",
        "@eaDir/5.png",
        "a/notes.txt",
        "b/notes.txt",
        "a/raw.nef",
        "b/none",
    )
    listing = list_folder(root)
    assert listing.paths == ["a/1.png", "b/1.png"]
    assert listing.problems == (
        (
            "other-files",
            "",
            "4 files are not called like images and are ignored: 2 .txt, 1 .nef, 1 without ending",
        ),
    )


def test_a_folder_called_as_an_image_is_a_folder(tmp_path):
    listing = list_folder(touch(tmp_path, "a/1.png", "b/1.png", "b/x.png/2.png"))
    assert listing.paths == ["a/1.png", "b/1.png", "b/x.png/2.png"]
    assert [(p.kind, p.path) for p in listing.problems] == [("folder", "b/x.png")]


def test_links_are_followed_inside_and_nowhere_else(tmp_path):
    root = touch(tmp_path / "root", "a/1.png", "b/1.png")
    touch(tmp_path, "secret.png", "outside/2.png")
    (root / "b/in.png").symlink_to(root / "a/1.png")
    (root / "b/out.png").symlink_to(tmp_path / "secret.png")
    (root / "b/broken.png").symlink_to(root / "gone.png")
    (root / "away").symlink_to(tmp_path / "outside")
    listing = list_folder(root)
    assert listing.paths == ["a/1.png", "b/1.png", "b/in.png"]
    told = {problem.path: problem.detail for problem in listing.problems}
    assert told["b/broken.png"] == "leads nowhere"
    assert "leads out of the folder" in told["b/out.png"]
    assert "leads out of the folder" in told["away"]


def test_a_link_in_a_circle_ends(tmp_path):
    root = touch(tmp_path, "a/1.png", "b/1.png")
    (root / "a/up").symlink_to(root)
    (root / "b/self").symlink_to(root / "b/self")
    (root / "0").symlink_to(root / "b")
    listing = list_folder(root)
    assert listing.paths == ["a/1.png", "b/1.png"]
    assert Counter(kinds(listing)) == {"link": 3}


def test_a_folder_that_is_itself_a_link_is_read(tmp_path):
    touch(tmp_path / "real", "a/1.png", "b/1.png")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert len(list_folder(tmp_path / "link")) == 2


STRANGE = [
    "caf\u00e9.png",
    "new\nline.png",
    "\U0001f431.png",
    "sp ace.png",
    "'\".png",
    "-rf.png",
    "%s{0}.png",
]


def test_any_name_is_fine(tmp_path):
    listing = list_folder(touch(tmp_path, *(f"a/{name}" for name in STRANGE), "b/1.png"))
    assert sorted(item.path for item in listing if item.label == "a") == sorted(f"a/{n}" for n in STRANGE)
    assert all(listing.path(row).read_bytes() == b"x" for row in range(len(listing)))


def test_names_that_are_no_text_are_fine(tmp_path):
    touch(tmp_path, "a/1.png", "b/1.png")
    Path(os.fsdecode(os.fsencode(tmp_path / "a") + b"/\xff\xfe.png")).write_bytes(b"x")
    listing = list_folder(tmp_path)
    assert len(listing) == 3
    assert shown(listing.paths[1]) == "a/\\udcff\\udcfe.png"


def test_a_shown_path_is_one_line_for_any_terminal():
    assert shown("a\nb\x1b[31m\udcff") == "a\\nb\\x1b[31m\\udcff"
    assert shown("caf\u00e9 \U0001f431") == "caf\u00e9 \U0001f431"


def test_a_folder_that_must_not_be_listed_is_told(tmp_path, monkeypatch):
    root, scan = touch(tmp_path, "a/1.png", "b/1.png", "c/1.png"), os.scandir

    def refuse(path):
        if Path(path).name == "c":
            raise PermissionError(13, "Permission denied")
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    paths, problems = find_images(root)
    assert paths == ["a/1.png", "b/1.png"]
    assert problems == [("unreadable-folder", "c", "cannot be listed: permission denied")]


def test_a_pipe_called_as_an_image_is_told(tmp_path):
    os.mkfifo(touch(tmp_path, "a/1.png", "b/1.png") / "a/pipe.png")
    listing = list_folder(tmp_path)
    assert [(p.kind, p.path) for p in listing.problems] == [("unreadable", "a/pipe.png")]


def test_an_empty_class_is_told(tmp_path):
    root = touch(tmp_path, "a/1.png", "b/1.png")
    (root / "c").mkdir()
    assert [(p.kind, p.path) for p in list_folder(root).problems] == [("empty-folder", "c")]


def test_real_images_are_listed_like_any_file(tmp_path):
    write(tmp_path / "a" / "1.png")
    write(tmp_path / "b" / "1.jpg")
    assert len(list_folder(str(tmp_path))) == 2


def test_the_classes_of_a_model_are_numbered_as_it_numbers_them(tmp_path):
    for name in ("b/1.png", "a/2.png", "c/3.png"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    found = list_folder(tmp_path, classes=("c", "b", "never seen"))
    assert (found.class_names, found.labels.tolist()) == (("c", "b", "never seen"), [-1, 1, 0])
    assert [problem.detail for problem in found.problems] == [
        "class 'a' is none of the model's; its 1 images are left out"
    ]


def test_a_quote_that_is_not_closed_is_suspected(tmp_path):
    (tmp_path / "a.png").touch()
    (tmp_path / "l.csv").write_text('file_name,label\n"a.png,cat\nb.png,dog\n')
    with pytest.raises(UserError, match="is a quote not closed"):
        list_folder(tmp_path, "l.csv")


def test_a_table_that_is_nowhere_is_called_as_the_user_called_it(tmp_path):
    (tmp_path / "a.png").touch()
    with pytest.raises(UserError, match=r"label file nowhere\.csv: no such file"):
        list_folder(tmp_path, "nowhere.csv")


def test_the_sample_of_a_table_is_had_by_row(tmp_path):
    root = touch(tmp_path, "a.png", "b.png", "c.png")
    table(root, "file_name,label,sampled\nc.png,x,yes\na.png,y,no\n")
    assert list_folder(root).sampled.tolist() == [False, False, True]
    table(root, "file_name,label\nc.png,x\n")
    assert list_folder(root).sampled is None
