"""The page of a report: what it says, how it is built, and what it does without."""

import json
import re
from base64 import b64decode, b64encode
from hashlib import sha256
from html.parser import HTMLParser
from importlib.resources import files
from io import BytesIO
from itertools import pairwise

import pytest
from PIL import Image

from interlude.report import write_report
from interlude.report.classes import mix_ups
from interlude.report.markup import VOID
from interlude.report.thumbnails import thumbnail
from made_up_run import CLASSES, HOSTILE, bare_run, estimate, fit_file, make_run


class Page(HTMLParser):
    """The elements of a page with their attributes and the text inside each."""

    def __init__(self, text):
        super().__init__()
        self.source, self.open, self.elements = text, [], []
        self.feed(text)
        assert not self.open, f"never closed: {[name for name, *_ in self.open]}"

    def handle_starttag(self, name, attributes):
        element = (name, dict(attributes), [])
        self.elements.append(element)
        if name not in VOID:
            self.open.append(element)

    def handle_endtag(self, name):
        assert self.open.pop()[0] == name

    def handle_data(self, data):
        for _, _, text in self.open:
            text.append(data)

    def all(self, name, **attributes):
        wanted = {key.rstrip("_"): value for key, value in attributes.items()}
        return [e for e in self.elements if e[0] == name and wanted.items() <= e[1].items()]

    def text(self, name="body", **attributes):
        return ["".join(text).replace("\u00a0", " ") for _, _, text in self.all(name, **attributes)]


@pytest.fixture
def page(tmp_path):
    """The page of a made-up run with changes."""

    def make(classes=CLASSES, **changes):
        return Page(write_report(make_run(tmp_path, classes, **changes)).read_text(encoding="utf-8"))

    return make


def test_the_verdict_stands_on_top_in_the_words_of_the_fit(page):
    made = page()
    assert made.text("h1") == ["The unlabeled images helped."]
    assert made.text("p", class_="lede") == ["+9.0 points (95% interval 2.4 to 13.6) over plain."]
    assert next(e[0] for e in made.elements if e[0] in ("h1", "h2")) == "h1"


def test_every_part_has_its_place(page):
    made = page()
    assert len(made.all("section")) == len(made.all("h2")) + 1
    text = made.text()[0]
    for said in (
        "88.0 % (80.0 to 93.0)",
        "5-fold cross-validation inside the 27 labeled images, repeated 2 times",
        "Guessing would get 33 %",
        "2 images are copies.",
        "a.png = b.png",
        "Left out of training: 1 file.",
        "The images are small.",
        "interlude fit photos --labels labels.csv",
        "6f1ed002",
        "differ by 4.2 % on average",
        "after a temperature (here 1.31) that was found on other images",
        "The rings are the network's own, which differ by 23.4 %.",
        "Prediction sets hold the true class of 90% of such images.",
        "Counted on held-out labeled images, each 2 times.",
        "sure enough to learn from 75 % of the unlabeled images",
        "Sure enough was a confidence of 0.95 throughout",
    ):
        assert said in text, said


def test_the_number_is_that_of_the_model_that_was_saved(page):
    verdict = fit_file(CLASSES)["verdict"] | {"kept": "plain", "outcome": "not helped"}
    assert page(verdict=verdict).text("div", class_="number")[0].startswith("79.0 %")


def test_a_sealed_test_set_gives_the_number(page):
    opened = "2026-11-16T03:10:00+00:00"
    test = {
        "opened": opened,
        "images": 50,
        "balanced_accuracy": estimate(71.3, 60, 80),
        "accuracy": 72.0,
    }
    made = page(test=test)
    assert made.text("div", class_="number")[0].startswith("71.3 %")
    assert "sealed test set of 50 images that was opened once" in made.text()[0]
    assert "cross-validation had said 88.0 %" in made.text()[0]


def test_headings_are_in_order(page):
    levels = [int(name[1]) for name, *_ in page().elements if re.fullmatch("h[1-6]", name)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_nothing_is_said_by_a_picture_alone(page):
    made = page()
    assert made.all("img")
    assert all(attributes["alt"] for _, attributes, _ in made.all("img"))
    named = (
        made.source.count("<svg"),
        len(re.findall(r"<svg[^>]*><title>[^<]+</title><desc>[^<]+<", made.source)),
    )
    hidden = len(made.all("svg", aria_hidden="true")) + made.source.count('aria-hidden="true"')
    assert named[0] == named[1] + hidden
    assert all(attributes.get("scope") in ("row", "col") for _, attributes, _ in made.all("th"))


def test_the_page_asks_for_nothing_outside_itself(page):
    made = page()
    assert not re.search(r"https?://|url\(|@import|<iframe|<object", made.source)
    assert all(e[1]["src"].startswith("data:") for e in made.elements if "src" in e[1])
    ids = [e[1]["id"] for e in made.elements if "id" in e[1]]
    assert len(ids) == len(set(ids))
    links = {e[1]["href"] for e in made.elements if "href" in e[1]} - {"data:,"}
    assert links <= {f"#{name}" for name in ids}


def test_only_our_script_may_run(page):
    made = page()
    ((_, _, script),) = made.all("script")
    digest = b64encode(sha256("".join(script).encode()).digest()).decode()
    policy = next(e[1]["content"] for e in made.all("meta") if e[1].get("http-equiv"))
    assert policy.startswith("default-src 'none'")
    assert f"script-src 'sha256-{digest}'" in policy


def test_names_that_are_markup_stay_names(page):
    made = page(HOSTILE, folder="<img src=x>", command="interlude fit '</pre><script>'")
    assert len(made.all("script")) == 1
    assert not [e for e in made.elements if any(key.startswith("on") for key in e[1])]
    text = made.text()[0]
    assert "<script>alert('class')</script>" in text
    assert "two\\nlines" in text, "a line break in a name is shown as what it is"
    assert made.text("title")[0].startswith("<img src=x>: The unlabeled images helped.")


def test_files_with_odd_names_are_shown_by_their_names(tmp_path):
    unlabeled = fit_file(CLASSES)["unlabeled"]
    unlabeled["certain"][0]["file"] = "unlabeled/<script>\n.png"
    run = make_run(tmp_path, unlabeled=unlabeled | {"uncertain": [], "surprising": []})
    (tmp_path / "photos/unlabeled/certain_1.png").write_text("no image")
    made = Page(write_report(run).read_text(encoding="utf-8"))
    names = [
        "unlabeled/<script>\\n.png, taken for cat (40 %)",
        "unlabeled/certain_2.png, taken for hare (60 %)",
    ]
    assert [e[1]["alt"].replace("\u00a0", " ") for e in made.all("img")] == names
    assert made.text("div", class_="missing") == ["not shown"]


def test_a_run_without_any_estimate_says_so_in_sentences(tmp_path):
    made = Page(write_report(bare_run(tmp_path / "run")).read_text(encoding="utf-8"))
    assert made.text("h1") == ["No estimate possible."]
    text = made.text()[0]
    for said in (
        "No estimate is possible: no class has a second label to hold out. A few more labels",
        "no predictions for unlabeled images",
        "No image was held out, so mix-ups are not known.",
        "the confidence could not be checked",
        "There were no unlabeled images to show.",
        "Nothing was logged during training.",
        "The images were not examined.",
        "No choices were recorded.",
        "The command was not recorded.",
    ):
        assert said in text, said


@pytest.mark.parametrize("key", [key for key in fit_file(CLASSES) if key not in ("schema", "classes")])
def test_no_key_but_the_schema_and_the_classes_is_needed(tmp_path, key):
    run = make_run(tmp_path)
    fit = json.loads((run / "fit.json").read_text())
    (run / "fit.json").write_text(json.dumps({name: value for name, value in fit.items() if name != key}))
    assert Page(write_report(run).read_text(encoding="utf-8")).all("h1")


def test_two_hundred_classes_show_their_commonest_mix_ups(page):
    classes = [f"species {i}" for i in range(200)]
    matrix = [[8 if i == j else 0 for j in range(200)] for i in range(200)]
    matrix[3][7], matrix[5][9] = 4, 6
    made = page(classes, confusion={"from": "test", "matrix": matrix})
    assert not made.all("table", class_="confusion")
    assert made.text("table", class_="pairs") == [
        "in truthnamedtimesspecies 5species 96 of 14species 3species 74 of 12"
    ]
    assert "the other 176 classes" in made.text("summary")


def test_few_classes_show_the_whole_matrix(page):
    (table,) = page().all("table", class_="confusion")
    assert "".join(table[2]).endswith("cat81·dog·81hare1·8")


def test_mix_ups_are_all_wrong_cells_the_commonest_first():
    matrix = [[5, 1, 0], [2, 5, 3], [0, 1, 1]]
    found = [(pair.true, pair.taken, pair.times, pair.total) for pair in mix_ups(matrix, CLASSES)]
    assert found[:2] == [("dog", "hare", 3, 10), ("dog", "cat", 2, 10)]
    assert found[2:] == [("hare", "dog", 1, 2), ("cat", "dog", 1, 6)], (
        "of equals the larger share comes first"
    )


def test_a_tiny_image_keeps_every_pixel_and_a_large_one_becomes_small(tmp_path):
    pattern = Image.effect_noise((8, 6), 80)
    pattern.save(tmp_path / "tiny.png")
    Image.effect_noise((900, 600), 80).save(tmp_path / "large.png")
    tiny, large = (opened(str(thumbnail(tmp_path / name, "x"))) for name in ("tiny.png", "large.png"))
    assert tiny.tobytes() == pattern.tobytes()
    assert large.size == (160, 107)
    assert large.format == "JPEG"


def opened(img):
    """The picture in the address of an element."""
    return Image.open(BytesIO(b64decode(re.search('base64,([^"]+)"', img)[1])))


def test_a_report_can_do_without_images(tmp_path):
    made = Page(write_report(make_run(tmp_path), thumbnails=False).read_text(encoding="utf-8"))
    assert not made.all("img")
    assert "data:image" not in made.source


def test_the_same_run_gives_the_same_page(tmp_path):
    run = make_run(tmp_path)
    assert write_report(run).read_bytes() == write_report(run).read_bytes()
    assert sorted(path.suffix for path in run.iterdir()).count(".tmp") == 0


def light(colour):
    """The relative luminance of a colour, as WCAG defines it."""
    parts = [value / 255 for value in colour]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, two):
    dark, bright = sorted([light(one), light(two)])
    return (bright + 0.05) / (dark + 0.05)


def themes():
    """The colours of each theme in the style sheet, by name."""
    style = files("interlude.report").joinpath("style.css").read_text()
    for block in re.findall(r"--paper:[^}]+", style):
        hexed = {n: tuple(bytes.fromhex(v)) for n, v in re.findall(r"--([\w-]+): #(\w{6})", block)}
        spaced = {n: tuple(map(int, v.split())) for n, v in re.findall(r"--([\w-]+-rgb): ([\d ]+)", block)}
        yield hexed | spaced | {"most": float(re.search(r"--most: ([\d.]+)", block)[1])}


def test_there_is_one_light_theme_and_the_two_dark_ones_are_alike():
    bright, *dark = themes()
    assert len(dark) == 2
    assert dark[0] == dark[1] != bright


@pytest.mark.parametrize("theme", list(themes()), ids=["light", "dark by the system", "dark by the button"])
def test_words_stand_out_from_their_ground(theme):
    for ground in ("paper", "card"):
        for ink in ("ink", "quiet", "accent", "good", "doubt", "bad"):
            assert contrast(theme[ink], theme[ground]) >= 4.5, (ink, ground)
    shades = [("accent-rgb", theme["most"]), ("bad-rgb", 0.7)]
    for colour, most in shades:  # cells of the confusion matrix at their strongest
        cell = [most * c + (1 - most) * p for c, p in zip(theme[colour], theme["paper"], strict=True)]
        assert contrast(theme["ink"], cell) >= 4.5, colour


@pytest.mark.parametrize("short", [False, True])
def test_a_verdict_of_short_runs_says_so(page, short):
    crossed = fit_file(CLASSES)["cross_validation"] | {"short": short}
    assert ("only short runs" in page(cross_validation=crossed).text()[0]) == short


def test_nothing_is_more_unusual_than_all_training_images(page):
    rows = [row | {"ood": 0.9999} for row in fit_file(CLASSES)["unlabeled"]["surprising"]]
    text = page(unlabeled=fit_file(CLASSES)["unlabeled"] | {"surprising": rows}).text()[0]
    assert "more unusual than 99 % of the training images" in text
