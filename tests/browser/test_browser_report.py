"""The report in a real browser, Debian's Chromium; `make browser` installs it."""

import pytest
from playwright.sync_api import sync_playwright

from interlude.report import write_report
from made_up_run import CLASSES, HOSTILE, bare_run, make_run

pytestmark = pytest.mark.slow
CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
PHONE = {"width": 390, "height": 844}
RUNS = {
    "three classes": lambda folder: make_run(folder, CLASSES),
    "hostile names": lambda folder: make_run(folder, HOSTILE, folder="x" * 300),
    "two hundred classes": lambda folder: make_run(folder, [f"species_{i}_{'x' * i}" for i in range(200)]),
    "twenty classes": lambda folder: make_run(folder, [f"a class called {i}" for i in range(20)]),
    "nothing to say": lambda folder: bare_run(folder / "run"),
}


@pytest.fixture(scope="module")
def chromium():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium, tmp_path):
    """Open the report of a run; `page.complaints` and `page.requests` collect what happens."""
    contexts = []

    def open_page(name="three classes", **options):
        path = write_report(RUNS[name](tmp_path / "made-up"))
        contexts.append(chromium.new_context(**options))
        page = contexts[-1].new_page()
        page.complaints, page.requests = [], []
        page.on("console", lambda message: page.complaints.append(message.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("dialog", lambda dialog: (page.complaints.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: page.requests.append(request.url))
        page.goto(path.as_uri())
        page.address = path.as_uri()
        return page

    yield open_page
    for context in contexts:
        context.close()


def ground(page):
    """The colour behind the page."""
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


@pytest.mark.parametrize("name", RUNS)
def test_no_script_fails_and_no_request_leaves_the_file(visit, name):
    page = visit(name)
    page.click("#theme")
    for summary in page.query_selector_all("summary"):
        summary.click()
    assert page.complaints == []
    assert [url for url in page.requests if not url.startswith("data:")] == [page.address]


@pytest.mark.parametrize("name", RUNS)
def test_a_phone_never_scrolls_sideways(visit, name):
    page = visit(name, viewport=PHONE)
    page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]


def test_every_thumbnail_can_be_seen(visit):
    page = visit()
    widths = page.eval_on_selector_all("img", "all => all.map(one => one.naturalWidth)")
    assert widths == [8] * 9


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_button_turns_the_colours_of_the_system_over_and_back(visit, scheme):
    page = visit(color_scheme=scheme)
    other = {"light": "dark", "dark": "light"}[scheme]
    before = ground(page)
    assert (sum(map(int, before[4:-1].split(","))) > 384) == (scheme == "light")
    assert page.inner_text("#theme") == other
    page.click("#theme")
    assert ground(page) != before
    assert page.inner_text("#theme") == scheme
    page.keyboard.press("Enter")
    assert ground(page) == before


def test_the_page_is_whole_without_its_script(visit):
    page = visit(java_script_enabled=False)
    assert page.inner_text("h1") == "The unlabeled images helped."
    assert not page.is_visible("#theme")


def test_paper_is_white_and_shows_what_is_folded_on_the_screen(visit):
    page = visit(color_scheme="dark")
    page.click("#theme")
    page.click("#theme")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert ground(page) == "rgb(251, 250, 247)"
    assert page.is_visible("text=threshold: 0.95")
    assert not page.is_visible("#theme")
