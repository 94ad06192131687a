"""The page of `interlude app` in a real browser, Debian's Chromium, with a real server behind it."""

import csv
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import expect, sync_playwright
from sklearn.datasets import load_digits

pytestmark = pytest.mark.slow
CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
INTERLUDE = [sys.executable, "-m", "interlude"]
CLASSES = ["zero", "one", "two"]
PHONE = {"width": 390, "height": 844}
SCREENS = ["label", "grid", "look", "results"]
PATIENCE = 90_000  # milliseconds; other tests run beside this one
HOSTILE = "!<img src=x onerror=alert(1)>&amp;.png"
REFUSAL = {"status": 500, "json": {"error": "The disk is full."}}
OUTAGE = ("ERR_CONNECTION", "ERR_INCOMPLETE", "ERR_EMPTY", "status of 403", "status of 500")


class Server:
    """`interlude app` on a folder, as a process that can be killed and started again: at the same port."""

    def __init__(self, folder, scratch):
        self.folder, self.scratch = folder, scratch
        self.start()

    def start(self):
        offline = {
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "INTERLUDE_CACHE": str(self.scratch / "cache"),
        }
        command = [*INTERLUDE, "app", str(self.folder), "--no-browser"]
        with (self.scratch / "server.log").open("a") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, env=os.environ | offline
            )
        line = self.process.stdout.readline()
        assert "http" in line, (self.scratch / "server.log").read_text()
        self.address = re.search(r"http\S+", line)[0]

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def labels(self):
        """What `fit` would read now."""
        table = self.folder / ".interlude" / "labels.csv"
        with table.open(newline="", encoding="utf-8") as file:
            return {row["file_name"]: row["label"] for row in csv.DictReader(file)}


def write_digits(folder, count):
    """So many images of zeros, ones and twos; returns which is which."""
    folder.mkdir(parents=True)
    digits = load_digits()
    rows = [row for row, target in enumerate(digits.target) if target < len(CLASSES)][:count]
    for row in rows:
        pixels = (digits.images[row] * 15.9).astype("uint8")
        Image.fromarray(pixels).resize((32, 32)).save(folder / f"{row:04d}.png")
    return {f"{row:04d}.png": CLASSES[digits.target[row]] for row in rows}


@pytest.fixture(scope="module")
def chromium():
    if not Path(CHROMIUM).exists():
        pytest.fail(f"there is no browser at {CHROMIUM}; install one by `make browser`")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium):
    """Open an address; at the end no script may have failed."""
    contexts, complaints = [], []

    def heard(message):
        if message.type in ("error", "warning") and not any(part in message.text for part in OUTAGE):
            complaints.append(message.text)

    def open_page(address, context=None, **options):
        if context is None:
            context = chromium.new_context(**options)
            contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", heard)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
        page.goto(address)
        return page

    expect.set_options(timeout=PATIENCE)
    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def fresh(tmp_path):
    """A server on a folder that nobody has labeled."""
    truth = write_digits(tmp_path / "digits", 90)
    server = Server(tmp_path / "digits", tmp_path)
    server.truth = truth
    yield server
    server.stop()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A server with three classes for tests that do not care which labels others have made."""
    scratch = tmp_path_factory.mktemp("shared")
    truth = write_digits(scratch / "digits", 140)
    first = scratch / "digits" / min(truth)
    (scratch / "digits" / HOSTILE).write_bytes(first.read_bytes())
    server = Server(scratch / "digits", scratch)
    yield server
    server.stop()


def name_classes(page):
    page.fill("#name-field", CLASSES[0])
    page.press("#name-field", "Enter")
    page.type("#name-field", ",".join(CLASSES[1:]) + ",")
    expect(page.locator("#chips li")).to_have_count(len(CLASSES))
    page.click("#begin")


def enter(page, screen="label"):
    """Go to a screen, naming the classes if this is the first visit."""
    page.wait_for_selector("#tabs:visible, #welcome:visible")
    if page.is_visible("#welcome"):
        name_classes(page)
    page.click(f"#tab-{'label' if screen == 'grid' else screen}")
    if screen == "grid":
        page.click("#grid")
        page.wait_for_selector("#tiles img")
    elif screen == "look":
        page.wait_for_selector(".canvas img.ready")
    elif screen == "label":
        page.wait_for_selector("#frame img.ready")


def shown(page):
    """The file that is to be labeled."""
    return page.inner_text("#file")


def label(page, truth, times):
    """Label rightly by keys; returns what was labeled."""
    done = {}
    for _ in range(times):
        page.wait_for_selector("#frame img.ready")
        name = shown(page)
        done[name] = truth[name]
        page.keyboard.press(str(CLASSES.index(truth[name]) + 1))
        expect(page.locator("#file")).not_to_have_text(name)
    return done


def expect_labels(page, server, wanted):
    """All is sent, and on the disk."""
    expect(page.locator("#count")).to_have_text(str(len(wanted)))
    expect(page.locator("#waiting")).to_be_hidden()
    page.wait_for_timeout(1000)
    for _ in range(60):
        if server.labels() == wanted:
            return
        page.wait_for_timeout(500)
    assert server.labels() == wanted


LOADED = "performance.getEntriesByType('resource').filter((one) => one.name.endsWith('size=640')).length"


def test_labels_by_keys_survive_undo_a_reload_and_a_killed_server(fresh, visit):
    page = visit(fresh.address)
    assert "token" not in page.url
    expect(page.locator("#found")).to_have_text("90 images in digits")
    name_classes(page)
    page.wait_for_selector("#frame img.ready")
    done = label(page, fresh.truth, 12)

    last = list(done)[-1]
    page.keyboard.press("u")
    expect(page.locator("#file")).to_have_text(last)
    expect(page.locator("#count")).to_have_text("11")
    done |= label(page, fresh.truth, 1)

    page.reload()
    page.wait_for_selector("#frame img.ready")
    assert shown(page) not in done
    done |= label(page, fresh.truth, 4)
    expect_labels(page, fresh, done)

    while page.evaluate(LOADED) < 4 + 5:
        page.wait_for_timeout(100)
    fresh.kill()
    done |= label(page, fresh.truth, 4)
    expect(page.locator("#notice")).to_contain_text("The server is gone. 4 labels wait")
    fresh.start()
    expect(page.locator("#notice")).to_contain_text("started anew")
    visit(fresh.address, page.context)
    expect(page.locator("#notice")).to_be_hidden()
    assert len(done) == 20
    expect_labels(page, fresh, done)


SLOW_ONCE = """(path) => {
  const send = window.fetch;
  window.fetch = async (address, options) => {
    if (address.startsWith(path)) {
      window.fetch = send;
      await new Promise((done) => setTimeout(done, 500));
    }
    return send(address, options);
  };
}"""


def test_classes_stand_in_the_order_they_were_typed_in_however_slow_the_line_is(fresh, visit):
    page = visit(fresh.address)
    page.evaluate(SLOW_ONCE, "/api/classes")
    name_classes(page)
    expect(page.locator("#chips li span")).to_have_text(CLASSES)


def test_what_is_seen_can_be_selected_while_the_list_is_fetched_anew(shared, visit):
    page = visit(shared.address)
    enter(page, "look")
    page.evaluate(SLOW_ONCE, "/api/images")
    page.evaluate("dispatchEvent(new Event('undone'))")
    page.click("#tile-0")
    expect(page.locator("#selected")).to_have_text("1 selected")


def test_images_of_another_list_are_not_seen_while_one_is_fetched(shared, visit):
    page = visit(shared.address)
    enter(page, "look")
    page.evaluate(SLOW_ONCE, "/api/images")
    page.select_option("#filter", "unlabeled")
    assert page.locator(".tile").count() == 0
    expect(page.locator("#tile-0")).to_be_visible()


def test_from_labels_to_a_model_that_predicts(fresh, visit, tmp_path):
    page = visit(fresh.address)
    name_classes(page)
    page.wait_for_selector("#frame img.ready")
    label(page, fresh.truth, 15)
    page.click("#tab-results")
    page.eval_on_selector("[name=budget]:checked", "one => { one.value = '15s' }")
    page.click("#train")
    expect(page.locator("#training")).to_be_visible()
    page.click("#training [data-go=label]")
    label(page, fresh.truth, 1)  # goes on while the training does
    page.click("#tab-results")
    expect(page.locator("#verdict")).to_be_visible(timeout=5 * PATIENCE)

    believed = correct_one(page, fresh)
    page.click("#tab-results")
    with page.context.expect_page() as report:
        page.click("#report-link")
    expect(report.value.locator("h1")).not_to_be_empty()
    assert saved(page, "#labels-link").read_text().count("\n") == 18
    with zipfile.ZipFile(saved(page, "#model-link")) as archive:
        archive.extractall(tmp_path / "taken")
    (run,) = (path.parent for path in (tmp_path / "taken").rglob("config.json"))
    image = fresh.folder / believed
    command = [*INTERLUDE, "predict", str(run), str(image), "--quiet"]
    (row,) = csv.DictReader(subprocess.check_output(command, text=True).splitlines())
    assert believed in row.values() or str(image) in row.values()
    assert set(CLASSES) & set(row.values())


def correct_one(page, server):
    """Give an image another class than the model believes; returns its name."""
    page.click("#tab-look")
    page.select_option("#filter", "unlabeled")
    tile = page.locator("#tile-0")
    expect(tile).to_have_attribute("aria-label", re.compile("the model believes"))
    name, believed = re.match(r"(\S+), the model believes (\w+)", tile.get_attribute("aria-label")).groups()
    other = next(one for one in CLASSES if one != believed)
    tile.click()
    expect(page.locator("#selected")).to_have_text("1 selected")
    page.keyboard.press(str(CLASSES.index(other) + 1))
    expect(page.locator("#tile-0 .tag.known")).to_have_text(other)
    expect(page.locator("#waiting")).to_be_hidden()
    page.wait_for_timeout(2000)
    assert server.labels()[name] == other
    return name


def saved(page, link):
    with page.expect_download() as download:
        page.click(link)
    return download.value.path()


def test_a_label_that_cannot_be_written_waits_and_is_sent_later(shared, visit):
    page = visit(shared.address)
    enter(page)
    name = shown(page)
    page.route("**/api/labels", lambda route: route.fulfill(**REFUSAL))
    page.keyboard.press("2")
    expect(page.locator("#notice")).to_have_text("The disk is full.")
    page.reload()
    expect(page.locator("#notice")).to_have_text("The disk is full.")
    page.unroute("**/api/labels")
    with page.expect_response("**/api/labels") as response:
        pass
    assert response.value.ok
    expect(page.locator("#notice")).to_be_hidden()
    page.wait_for_timeout(2000)
    assert shared.labels()[name] == "one"


def test_labels_of_images_that_moved_in_the_list_are_not_sent_to_others(shared, visit):
    page = visit(shared.address)
    enter(page)
    page.route("**/api/labels", lambda route: route.fulfill(**REFUSAL))
    page.keyboard.press("3")
    expect(page.locator("#notice")).to_have_text("The disk is full.")
    page.evaluate(
        """() => {
            const [step] = JSON.parse(sessionStorage.getItem("interlude-pending"));
            const moved = {...step, session: "old", names: ["moved.png"]};
            sessionStorage.setItem("interlude-pending", JSON.stringify([moved]));
        }"""
    )
    page.reload()
    expect(page.locator("#notice")).to_contain_text("A label was not taken")
    assert page.evaluate("sessionStorage.getItem('interlude-pending')") == "[]"


def test_a_grid_labels_many_at_once_and_undoes_them_at_once(shared, visit):
    page = visit(shared.address)
    enter(page, "grid")
    before = int(page.inner_text("#count"))
    for key in ["Space", "ArrowRight", "Shift+ArrowRight", "Shift+ArrowDown"]:
        page.keyboard.press(key)
    page.locator("#tiles .tile").nth(5).click()
    chosen = page.locator("#tiles [aria-selected=true]")
    expect(chosen).to_have_count(5)
    names = chosen.evaluate_all("all => all.map(one => one.ariaLabel)")
    page.keyboard.press("1")
    expect(page.locator("#count")).to_have_text(str(before + 5))
    page.wait_for_timeout(2000)
    assert {shared.labels()[name] for name in names} == {"zero"}
    page.keyboard.press("Control+z")
    expect(page.locator("#count")).to_have_text(str(before))


def test_a_hundred_thousand_images_need_few_elements(shared, visit):
    page = visit(shared.address)
    enter(page, "results")

    def answer(route):
        query = dict(part.split("=") for part in route.request.url.partition("?")[2].split("&"))
        offset = int(query["offset"])
        images = [
            {"id": row % 100, "name": f"{row}.png", "label": None} for row in range(offset, offset + 200)
        ]
        route.fulfill(json={"total": 100_000, "images": images})

    page.route("**/api/images?*", answer)
    page.click("#tab-look")
    expect(page.locator("#total")).to_have_text("100,000 images")
    for top in (5_000, 300_000, 900_000, 10**9):
        page.evaluate(f"document.getElementById('wall').scrollTop = {top}")
        page.wait_for_timeout(300)
        assert page.locator(".canvas .tile").count() < 150
    expect(page.locator("#tile-99999 img.ready")).to_be_visible()
    page.evaluate("document.getElementById('wall').scrollTop = 0")
    expect(page.locator("#tile-0 img.ready")).to_be_visible()


def many_images(route):
    """Five thousand images, as the server would list them."""
    query = dict(part.split("=") for part in route.request.url.partition("?")[2].split("&"))
    rows = range(int(query["offset"]), min(5000, int(query["offset"]) + 200))
    images = [{"id": row % 100, "name": f"{row}.png", "label": None} for row in rows]
    route.fulfill(json={"total": 5000, "images": images})


def look_at_many(page):
    """The screen Look with these images; the page again."""
    enter(page, "results")
    page.route("**/api/images?*", many_images)
    page.click("#tab-look")
    expect(page.locator("#total")).to_have_text("5,000 images")
    return page


# what a wheel does that was turned just before: it scrolls on, frame by frame
TURNING = """() => {
    const wall = document.getElementById("wall");
    let frame = 0;
    const turn = () => {
        wall.scrollTop = 40_000 + 100 * frame;
        frame += 1;
        if (frame < 8) requestAnimationFrame(turn);
    };
    turn();
}"""


@pytest.mark.parametrize(("key", "tile"), [("Home", "#tile-0"), ("End", "#tile-4999")])
def test_the_keys_to_the_ends_win_over_a_wheel_that_still_turns(shared, visit, key, tile):
    page = look_at_many(visit(shared.address))
    page.evaluate(TURNING)
    page.keyboard.press(key)
    page.wait_for_timeout(1000)
    expect(page.locator(tile)).to_be_in_viewport(ratio=0.9)
    page.mouse.move(600, 400)
    page.mouse.wheel(0, 2000 if key == "Home" else -2000)  # it is let go by the next turn
    expect(page.locator(tile)).not_to_be_in_viewport()


# the head of an answer comes at once, its body takes a while and breaks off if the page gives it up
SLOW_BODIES = """() => {
    const real = window.fetch;
    window.fetch = async (path, options) => {
        const answer = await real(path, options);
        if (!path.startsWith("/api/images")) return answer;
        const bytes = new Uint8Array(await answer.arrayBuffer());
        const start = (body) => {
            const whole = setTimeout(() => { body.enqueue(bytes); body.close(); }, 300);
            options.signal.addEventListener("abort", () => {
                clearTimeout(whole);
                body.error(options.signal.reason);
            });
        };
        return new Response(new ReadableStream({ start }), answer);
    };
}"""


def test_a_list_given_up_while_its_body_comes_in_leaves_the_keys_working(shared, visit):
    page = look_at_many(visit(shared.address))
    page.evaluate(SLOW_BODIES)
    for top in (20_000, 60_000):
        with page.expect_response("**/api/images?*"):
            page.evaluate(f"document.getElementById('wall').scrollTop = {top}")
    page.keyboard.press("Home")
    expect(page.locator("#tile-0")).to_be_in_viewport(ratio=0.9)
    page.keyboard.press("End")
    expect(page.locator("#tile-4999")).to_be_in_viewport(ratio=0.9)
    expect(page.locator("#total")).to_have_text("5,000 images")


def test_a_key_to_the_end_is_not_lost_while_the_list_is_on_its_way(shared, visit):
    page = visit(shared.address)
    enter(page, "results")
    waiting, pressed = [], []

    def answer(route):
        if pressed:
            many_images(route)
        else:
            waiting.append(route)

    page.route("**/api/images?*", answer)
    page.click("#tab-look")
    while not waiting:
        page.wait_for_timeout(50)
    page.keyboard.press("End")
    pressed.append("End")
    for route in waiting:
        many_images(route)
    expect(page.locator("#tile-4999")).to_be_in_viewport()


def test_the_wall_stays_where_it_is_when_only_its_height_changes(shared, visit):
    page = visit(shared.address, viewport={"width": 1280, "height": 800})
    enter(page, "results")
    page.route("**/api/images?*", many_images)
    page.click("#tab-look")
    expect(page.locator("#total")).to_have_text("5,000 images")
    page.evaluate("document.getElementById('wall').scrollTop = 12_345")
    page.set_viewport_size({"width": 1280, "height": 700})
    page.wait_for_timeout(500)
    assert page.evaluate("document.getElementById('wall').scrollTop") == 12_345


def test_every_second_image_is_drawn_at_random_and_says_so_in_both_views(fresh, visit):
    page = visit(fresh.address)
    name_classes(page)
    said = []
    for _ in range(6):
        page.wait_for_selector("#frame img.ready")
        said.append("counts for the honest number" in page.inner_text("#why"))
        label(page, fresh.truth, 1)
    assert said == [True, False] * 3
    page.click("#tab-results")
    expect(page.locator("#train-line")).to_contain_text("Label 5 more of the random images")
    page.click("#tab-label")
    page.click("#grid")
    expect(page.locator("#tiles .drawn")).to_have_count(12)
    page.wait_for_timeout(1500)
    with (fresh.folder / ".interlude" / "labels.csv").open(newline="") as file:
        assert sorted(row["sampled"] for row in csv.DictReader(file)) == ["no"] * 3 + ["yes"] * 3


def test_another_order_or_choice_shows_every_picture_again(shared, visit):
    page = visit(shared.address)
    enter(page, "look")
    for box, wish in (
        ("#sort", "certain"),
        ("#filter", "unlabeled"),
        ("#sort", "uncertain"),
        ("#filter", "all"),
    ):
        page.select_option(box, wish)
        expect(page.locator(".canvas img.ready").first).to_be_visible()
        expect(page.locator(".canvas img:not(.ready)")).to_have_count(0)


def test_an_image_that_cannot_be_seen_yet_is_skipped_but_not_labeled(shared, visit):
    page = visit(shared.address)
    page.route("**/thumb/*?size=640", lambda route: None)
    page.wait_for_selector("#tabs:visible, #welcome:visible")
    if page.is_visible("#welcome"):
        name_classes(page)
    page.wait_for_selector("#frame img:not(.ready)", state="attached")
    name = shown(page)
    page.keyboard.press("1")
    expect(page.locator("#say")).to_have_text("The picture is not here yet.")
    assert shown(page) == name
    page.keyboard.press("Space")
    expect(page.locator("#file")).not_to_have_text(name)


def test_a_file_name_is_text(shared, visit):
    page = visit(shared.address)
    enter(page, "look")
    tile = page.locator(f".tile[title='{HOSTILE}']")
    expect(tile).to_have_count(1)
    tile.dblclick()
    expect(page.locator("#viewer-file")).to_have_text(HOSTILE)


@pytest.mark.parametrize("screen", SCREENS)
def test_a_phone_never_scrolls_sideways_and_every_target_can_be_touched(shared, visit, screen):
    page = visit(shared.address, viewport=PHONE, has_touch=True, is_mobile=True)
    enter(page, screen)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    assert page.evaluate("document.getElementById('main').scrollWidth") <= PHONE["width"]
    boxes = page.eval_on_selector_all(
        "button, select, summary, .links a, fieldset span",
        """all => all.filter((one) => one.checkVisibility())
                     .map((one) => [one.id || one.innerText, one.clientHeight + 2])""",
    )
    assert len(boxes) > 5
    assert [name for name, height in boxes if height < 44] == []


@pytest.mark.parametrize("screen", SCREENS)
def test_everything_that_can_be_used_has_a_name(shared, visit, screen):
    page = visit(shared.address)
    enter(page, screen)
    tree = page.locator("body").aria_snapshot()
    roles = re.findall(
        r"- (button|tab|link|combobox|option|radio|listbox|tabpanel|img)\b( \"[^\"]+\")?", tree
    )
    assert len(roles) > 5
    assert [role for role, name in roles if not name and role != "option"] == []


CONTRASTS = """() => {
  const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
  const linear = (c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const ground = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const colour = numbers(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const worded = (one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  const words = [...document.querySelectorAll("body *")].filter(
    (one) => one.checkVisibility() && worded(one) && !one.closest(":disabled, .unseen"));
  return words.map((one) => {
    const [a, b] = [light(numbers(getComputedStyle(one).color)), light(ground(one))].sort((x, y) => y - x);
    return [one.textContent.trim().slice(0, 40), (a + 0.05) / (b + 0.05)];
  });
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("screen", SCREENS)
def test_words_stand_out_from_their_ground(shared, visit, screen, scheme):
    page = visit(shared.address, color_scheme=scheme)
    enter(page, screen)
    found = page.evaluate(CONTRASTS)
    assert len(found) > 8
    assert [(words, round(ratio, 2)) for words, ratio in found if ratio < 4.5] == []


def test_the_next_image_is_there_within_a_tenth_of_a_second_of_work(shared, visit):
    page = visit(shared.address)
    enter(page)
    page.wait_for_timeout(1000)
    client = page.context.new_cdp_session(page)
    client.send("Performance.enable", {"timeDomain": "threadTicks"})

    def busy():
        metrics = client.send("Performance.getMetrics")["metrics"]
        return {one["name"]: one["value"] for one in metrics}["ThreadTime"]

    before = busy()
    for _ in range(10):
        name = shown(page)
        page.keyboard.press("Space")
        expect(page.locator("#file")).not_to_have_text(name)
    seconds = (busy() - before) / 10
    assert seconds < 0.1
    print(json.dumps({"seconds of work from a label to the next image": seconds}))
