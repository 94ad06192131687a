// The screen Label: one large image, or a grid of proposals, and a key for each class.

import { $, classOfKey, fillPad, flash, hueOf, isUndo, keepFocus, make, nameOf, number, plural, percent, say, setText, showPixels, touch } from "./dom.js";
import { ask, complain, counts, label, lackingForNumber, line, lookUp, undo, waitingIds } from "./server.js";

const AHEAD = 24;
const DECODED = 12;
const REASONS = {
  random: "drawn at random: it counts for the honest number",
  typical: "typical of many images", spread: "unlike those before", uncertain: "the model is unsure here",
};

let queue = [];
let fetching = null;
let emptyAt = null;
let listed = null;
let grounds = null;
let inGrid = false;
let selected = new Set();
let active = 0;
const pictures = new Map();
let recent = [];

/** Set the screen up. */
export function openLabel() {
  for (const part of ["label", "look", "viewer"]) keepFocus($(part));
  $("skip").addEventListener("click", () => choose("skip"));
  $("strange").addEventListener("click", () => choose("strange"));
  $("undo").addEventListener("click", takeBack);
  $("grid").addEventListener("click", () => switchGrid(!inGrid));
  $("tiles").addEventListener("click", pressTile);
  addEventListener("labeled", ({ detail }) => {
    queue = queue.filter((one) => !detail.ids.includes(one.id));
  });
}

/** Follow the state of the server. */
export function updateLabel() {
  const { session, phase, latest, training } = line.state;
  if (session !== listed) {
    if (listed !== null) pictures.clear();
    listed = session;
    queue = [];
    emptyAt = null;
  }
  const now = `${phase} ${latest?.fit} ${training.state}`;
  if (now !== grounds) {
    grounds = now;
    queue.length = Math.min(queue.length, 3);
    emptyAt = null;
  }
  showProgress();
  refill();
}

/** Act on a key; whether it meant something here. */
export function labelKey(event) {
  const key = event.key.toLowerCase();
  if (isUndo(event)) takeBack();
  else if (inGrid && gridKey(event)) return true;
  else if (event.ctrlKey || event.metaKey || event.altKey) return false;
  else if (key === "g") switchGrid(!inGrid);
  else if (key === "n") choose("strange");
  else if (key === " ") choose("skip");
  else {
    const one = classOfKey(key, line.state.classes);
    if (!one) return false;
    choose(one.id);
  }
  return true;
}

function choose(value) {
  const images = inGrid ? queue.slice(0, AHEAD).filter((one) => selected.has(one.id)) : queue.slice(0, 1);
  if (images.length === 0) {
    say(inGrid ? "Select images first." : "There is no image to label.");
    if (inGrid) flash($("batch-hint"));
    return;
  }
  if (!inGrid && value !== "skip" && !picture(images[0].id).classList.contains("ready")) {
    say("The picture is not here yet.");
    return;
  }
  const began = performance.now();
  flash(value === "skip" ? $("skip") : value === "strange" ? $("strange") : $("pad").querySelector(`[data-id="${value}"]`));
  selected.clear();
  for (const one of images) recent.unshift({ ...one, value });
  recent.length = Math.min(recent.length, AHEAD);
  label(images, value);
  say(`${images.length === 1 ? "" : `${images.length} images: `}${nameOf(value, line.state.classes)}`);
  requestAnimationFrame(() => setTimeout(() => performance.measure("label-to-next", { start: began })));
}

async function takeBack() {
  try {
    const undone = await undo();
    if (!undone?.ids?.length) {
      say("There is nothing to undo.");
      return;
    }
    say(`Undone: ${nameOf(undone.value, line.state.classes)}`);
    const back = new Set(undone.ids);
    const known = recent.filter((one) => back.has(one.id)).map(({ value, ...image }) => image);
    recent = recent.filter((one) => !back.has(one.id));
    const images = known.length > 0 ? known : await Promise.all(undone.ids.slice(0, AHEAD).map(lookUp));
    queue = [...images.filter((one) => one.label === null), ...queue.filter((one) => !back.has(one.id))];
    show();
    dispatchEvent(new CustomEvent("undone", { detail: undone }));
  } catch (error) {
    complain(`Nothing was undone: ${error.message}`);
  }
}
export { takeBack };

/** Whether the server had nothing more to propose, and nothing changed since. */
const exhausted = () => emptyAt === line.state.changed;

/** Keep enough proposals ahead, and their pictures decoded. */
async function refill() {
  show();
  if (fetching || exhausted() || queue.length >= AHEAD || line.state.classes.length === 0) return;
  const asked = line.state.session;
  const known = [...queue.map((one) => one.id), ...waitingIds()];
  fetching = ask(`/api/next?count=${2 * AHEAD - queue.length}&skip=${known.join(",")}`);
  try {
    const { images } = await fetching;
    if (asked !== line.state.session) return;
    const taken = new Set([...queue.map((one) => one.id), ...waitingIds()]);
    const fresh = images.filter((one) => !taken.has(one.id));
    queue.push(...fresh);
    if (fresh.length === 0) emptyAt = line.state.changed;
  } catch (error) {
    if (!error.away) emptyAt = line.state.changed;
  } finally {
    fetching = null;
  }
  show();
}

function show() {
  const over = queue.length === 0 && exhausted() && !fetching;
  $("single").hidden = inGrid || queue.length === 0;
  $("batch").hidden = !inGrid || over;
  $("nothing").hidden = !over;
  if (inGrid) showTiles();
  else if (queue.length > 0) showSingle(queue[0]);
  if (queue.length < AHEAD && !fetching && !exhausted() && line.up) queueMicrotask(refill);
  showRecent();
}

function showSingle(image) {
  for (const one of queue.slice(0, DECODED)) picture(one.id);
  const shown = picture(image.id);
  if ($("frame").firstChild !== shown) $("frame").replaceChildren(shown);
  setText($("file"), image.name ?? `image ${image.id + 1}`);
  const { belief } = image;
  const guess = belief ? `model's guess: ${nameOf(belief.class_id, line.state.classes)}, ${percent(belief.p)}` : REASONS[image.why];
  setText($("why"), guess ?? "");
  for (const id of pictures.keys()) {
    if (pictures.size <= 4 * DECODED) break;
    pictures.delete(id);
  }
}

/** The picture of an image at full size, being decoded before it is needed. */
function picture(id) {
  if (!pictures.has(id)) {
    const image = make("img", { src: `/thumb/${id}?size=640`, alt: "The image to label", draggable: "false" });
    image.addEventListener("load", () => {
      image.classList.add("ready");
      showPixels(image);
    });
    image.decode().catch(() => {
      image.classList.add("lost");
      pictures.delete(id);
    });
    pictures.set(id, image);
  }
  const image = pictures.get(id);
  requestAnimationFrame(() => showPixels(image));
  return image;
}

function showProgress() {
  const { classes, images, can_undo: canUndo } = line.state;
  const found = counts();
  const labels = [...found.values()].reduce((sum, one) => sum + one, 0);
  fillPad($("pad"), classes, choose, found);
  setText($("count"), number(labels));
  setText($("count-word"), labels === 1 ? "label" : "labels");
  setText($("of"), `of ${plural(images, "image")}`);
  $("undo").disabled = !canUndo && waitingIds().length === 0;
  const without = classes.filter((one) => !found.get(one.id)).map((one) => one.name);
  setText($("hint"), advice(labels, without, Math.min(...found.values())));
}

function advice(labels, without, least) {
  if (labels === 0) return `${touch ? "Tap" : "Press the key of"} the class you see.`;
  if (without.length > 0) return `No label yet: ${without.slice(0, 4).join(", ")}${without.length > 4 ? " …" : ""}`;
  if (line.state.training?.state === "running") return "Training goes on while you label.";
  const lacking = lackingForNumber();
  if (line.state.latest && lacking) return lacking;
  if (!line.state.latest && least >= 5) return "Enough for a first training: see Results.";
  if (!line.state.latest) return "Five of each class make a first training worthwhile.";
  return "";
}

function showRecent() {
  const { classes } = line.state;
  const shape = JSON.stringify(recent.map((one) => [one.id, nameOf(one.value, classes)]));
  if ($("recent").dataset.shape === shape) return;
  $("recent").dataset.shape = shape;
  $("recent-box").hidden = recent.length === 0;
  $("recent").replaceChildren(...recent.slice(0, 6).map((one) => make(
    "li", { "data-hue": hueOf(one.value, classes) },
    make("img", {
      src: `/thumb/${one.id}?size=160`, alt: "", load: (event) => showPixels(event.target),
      error: (event) => event.target.classList.add("lost"),
    }),
    make("span", {}, nameOf(one.value, classes)),
  )));
}

// The grid of proposals.

function switchGrid(on) {
  inGrid = on;
  selected.clear();
  active = 0;
  $("grid").setAttribute("aria-pressed", String(on));
  $("label").classList.toggle("in-grid", on);
  show();
  if (on) $("tiles").focus({ preventScroll: true });
  say(on ? "Grid: select images with the arrows and Space, then press the key of their class." : "One image at a time.");
}

function showTiles() {
  const box = $("tiles");
  const images = queue.slice(0, AHEAD);
  active = Math.max(0, Math.min(active, images.length - 1));
  const old = new Map([...box.children].map((tile) => [Number(tile.dataset.id), tile]));
  box.replaceChildren(...images.map((one) => old.get(one.id) ?? proposal(one)));
  for (const [place, tile] of [...box.children].entries()) {
    const chosen = selected.has(Number(tile.dataset.id));
    tile.setAttribute("aria-selected", String(chosen));
    tile.classList.toggle("active", place === active);
  }
  if (images.length > 0) box.setAttribute("aria-activedescendant", `proposal-${images[active].id}`);
  setText($("batch-hint"), selected.size > 0
    ? `${selected.size} selected: now ${touch ? "tap" : "the key of"} their class`
    : `Select images that belong together, then ${touch ? "tap" : "press the key of"} their class.`);
}

function proposal(image) {
  const name = image.name ?? `image ${image.id + 1}`;
  const drawn = image.why === "random";
  return make(
    "div", {
      role: "option", class: "tile", id: `proposal-${image.id}`, "data-id": image.id,
      "aria-label": name, "aria-description": REASONS[image.why], title: REASONS[image.why],
    },
    make("img", { src: `/thumb/${image.id}?size=320`, alt: "", draggable: "false", load: (event) => showPixels(event.target) }),
    drawn ? make("span", { class: "drawn", "aria-hidden": "true" }, "random") : null,
  );
}

function gridKey(event) {
  const columns = getComputedStyle($("tiles")).gridTemplateColumns.split(" ").length;
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns };
  const images = queue.slice(0, AHEAD);
  if (event.key in steps) {
    if (event.shiftKey) selected.add(images[active].id);
    const to = active + steps[event.key];
    if (to >= 0 && to < images.length) active = to;
    if (event.shiftKey) selected.add(images[active].id);
  } else if (event.key === " ") toggle(images[active]?.id);
  else if (event.key === "Escape") selected.clear();
  else if (event.key.toLowerCase() === "a" && (event.ctrlKey || event.metaKey)) selected = new Set(images.map((one) => one.id));
  else return false;
  showTiles();
  $("tiles").children[active]?.scrollIntoView({ block: "nearest" });
  return true;
}

function toggle(id) {
  if (id === undefined) return;
  if (!selected.delete(id)) selected.add(id);
}

function pressTile(event) {
  const tile = event.target.closest(".tile");
  if (!tile) return;
  const place = [...$("tiles").children].indexOf(tile);
  if (event.shiftKey) {
    const [from, to] = [Math.min(place, active), Math.max(place, active)];
    for (const one of queue.slice(from, to + 1)) selected.add(one.id);
  } else toggle(Number(tile.dataset.id));
  active = place;
  showTiles();
}
