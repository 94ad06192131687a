// The screen Look: a wall of all images of which only the visible ones exist, and a key to correct them.

import { $, classOfKey, fillPad, flash, giveBackFocus, hueOf, isUndo, make, nameOf, newTile, number, percent, plural, say, setText, showPixels, touch } from "./dom.js";
import { fillFilter, Listing } from "./listing.js";
import { Keeper } from "./scroll.js";
import { label, labelOf, line } from "./server.js";
import { takeBack } from "./label.js";

const GAP = 8;
const ROWS_BEYOND = 2;

let total = null;
let listed = null;
let changedAt = null;
let basis = null;
let columns = 1;
let side = 100;
let active = 0;
let anchor = 0;
let leap = null;
let lastTop = 0;
let painting = false;
let settle = null;
const tiles = new Map();
const spare = [];
const selection = new Map();

const wall = $("wall");
const canvas = $("canvas");
const keeper = new Keeper(wall, reveal);
const listing = new Listing(() => ({ filter: $("filter").value, sort: $("sort").value }), arrived);

export function openLook() {
  wall.addEventListener("scroll", schedule, { passive: true });
  wall.addEventListener("click", press);
  wall.addEventListener("dblclick", (event) => event.target.closest(".tile") && openViewer());
  new ResizeObserver(measure).observe(wall);
  $("filter").addEventListener("change", () => {
    const wish = $("filter").value;
    if (wish.startsWith("predicted:") || wish === "surprising") $("sort").value = "certain";
    reload();
  });
  $("sort").addEventListener("change", reload);
  for (const choice of [$("filter"), $("sort")]) giveBackFocus(choice, wall);
  $("refresh").addEventListener("click", refresh);
  $("look-strange").addEventListener("click", () => correct("strange"));
  $("look-clear").addEventListener("click", () => correct(null));
  $("look-undo").addEventListener("click", takeBack);
  $("look-open").addEventListener("click", openViewer);
  $("look-none").addEventListener("click", deselect);
  $("viewer-back").addEventListener("click", () => step(-1));
  $("viewer-on").addEventListener("click", () => step(1));
  $("viewer-strange").addEventListener("click", () => correct("strange"));
  $("viewer-close").addEventListener("click", () => $("viewer").close());
  $("viewer").addEventListener("close", () => wall.focus({ preventScroll: true }));
  addEventListener("undone", renewPages);
}

/** Follow the state of the server; called while the screen is seen. */
export function updateLook() {
  const { session, classes } = line.state;
  fillFilter($("filter"), classes);
  fillPad($("look-pad"), classes, correct);
  fillPad($("viewer-pad"), classes, correct);
  if (session !== listed) {
    listed = session;
    reload();
  } else if (basis !== grounds()) {
    if (selection.size > 0) $("refresh").hidden = false;
    else refresh();
  }
  $("look-undo").disabled = $("undo").disabled;
  repaint();
}

/** The screen came to the front: its sizes are known now, and keys go to the wall. */
export function enterLook() {
  measure();
  if (changedAt !== line.state.changed) renewPages();
  wall.focus({ preventScroll: true });
}

export function lookKey(event) {
  const key = event.key;
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns };
  const leaps = { PageUp: -columns * rowsSeen(), PageDown: columns * rowsSeen(), Home: -Infinity, End: Infinity };
  if ($("viewer").open) return viewerKey(event);
  if (key in steps) move(active + steps[key], event.shiftKey, true);
  else if (key in leaps) leapBy(leaps[key]);
  else if (key === " ") toggle(active);
  else if (key === "Enter") openViewer();
  else if (key === "Escape") deselect();
  else if (key.toLowerCase() === "a" && (event.ctrlKey || event.metaKey)) selectSeen();
  else return labelingKey(event);
  return true;
}

function viewerKey(event) {
  const { key } = event;
  if (key === "ArrowLeft") step(-1);
  else if (key === "ArrowRight") step(1);
  else return labelingKey(event);
  return true;
}

function labelingKey(event) {
  const { key } = event;
  if (isUndo(event)) takeBack();
  else if (event.ctrlKey || event.metaKey || event.altKey) return false;
  else if (key.toLowerCase() === "n") correct("strange");
  else if (key === "Delete" || key === "Backspace") correct(null);
  else {
    const one = classOfKey(key, line.state.classes);
    if (!one) return false;
    correct(one.id);
  }
  return true;
}

// What is listed.

/** What the beliefs of the model rest on. */
const grounds = () => `${line.state.phase} ${line.state.latest?.fit} ${line.state.training.state}`;

function refresh() {
  $("refresh").hidden = true;
  basis = grounds();
  renewPages();
}

function reload() {
  selection.clear();
  active = 0;
  wall.scrollTop = 0;
  total = null;
  setText($("total"), "");
  listing.forget();
  for (const [index, tile] of tiles) release(index, tile);
  refresh();
}

function renewPages() {
  listing.renew();
  changedAt = line.state?.changed ?? null;
  schedule();
}

function arrived(count) {
  if (count !== total) resize(count);
  if (leap !== null) leapBy(leap);
  repaint();
}

// The wall.

function measure() {
  const width = canvas.clientWidth;
  if (width === 0) return;
  const wish = width < 600 ? 104 : 148;
  const middle = Math.floor((wall.scrollTop + wall.clientHeight / 2) / (side + GAP)) * columns;
  const before = `${columns} ${side}`;
  columns = Math.max(2, Math.floor((width - GAP) / (wish + GAP)));
  side = Math.floor((width - GAP) / columns) - GAP;
  if (before === `${columns} ${side}`) { schedule(); return; }
  canvas.style.setProperty("--side", `${side}px`);
  if (total !== null) resize(total);
  if (wall.scrollTop > 0) wall.scrollTop = Math.floor(middle / columns) * (side + GAP) - wall.clientHeight / 2;
  for (const tile of tiles.values()) tile.index = -1;
  schedule();
}

function resize(count) {
  total = count;
  active = Math.max(0, Math.min(active, total - 1));
  canvas.style.height = `${Math.ceil(total / columns) * (side + GAP) + GAP}px`;
  setText($("total"), plural(total, "image"));
  $("none").hidden = total > 0;
  setText($("none"), emptySentence());
}

function emptySentence() {
  const wish = $("filter").value;
  if ((wish.startsWith("predicted:") || wish === "surprising") && !line.state.latest) {
    return "There is no model yet. Train one on the screen Results, then its beliefs are here.";
  }
  return "No image is like this.";
}

const rowsSeen = () => Math.max(1, Math.floor(wall.clientHeight / (side + GAP)));

function schedule() {
  if (painting) return;
  painting = true;
  requestAnimationFrame(paint);
}

function paint() {
  painting = false;
  const height = wall.clientHeight;
  if (height === 0 || !line.state) return;
  const top = wall.scrollTop;
  const fast = Math.abs(top - lastTop) > height;
  lastTop = top;
  const row = side + GAP;
  const from = Math.max(0, Math.floor(top / row) - ROWS_BEYOND) * columns;
  const to = Math.min(total ?? Infinity, (Math.ceil((top + height) / row) + ROWS_BEYOND) * columns);
  clearTimeout(settle);
  if (fast) settle = setTimeout(schedule, 90);
  else listing.need(from, to);
  if (total === null) return;
  for (const [index, tile] of tiles) if (index < from || index >= to) release(index, tile);
  for (let index = from; index < to; index += 1) place(index, fast);
  wall.setAttribute("aria-activedescendant", `tile-${active}`);
  showSelection();
}

/** Draw again what is seen, after labels or pages changed. */
function repaint() {
  for (const tile of tiles.values()) tile.seen = "";
  schedule();
}

function release(index, tile) {
  tiles.delete(index);
  tile.picture.removeAttribute("src");
  tile.tag.hidden = true;
  tile.box.setAttribute("aria-selected", "false");
  tile.box.remove();
  if (spare.length < 200) spare.push(tile);
}

function place(index, fast) {
  let tile = tiles.get(index);
  if (!tile) {
    tile = spare.pop() ?? newTile();
    Object.assign(tile, { index: -1, seen: "" });
    tiles.set(index, tile);
    canvas.append(tile.box);
  }
  if (tile.index !== index) {
    tile.index = index;
    tile.box.id = `tile-${index}`;
    tile.box.dataset.index = index;
    tile.box.setAttribute("aria-posinset", index + 1);
    const [x, y] = [index % columns, Math.floor(index / columns)];
    tile.box.style.transform = `translate(${GAP + x * (side + GAP)}px, ${GAP + y * (side + GAP)}px)`;
  }
  const image = listing.at(index);
  if (image && !fast) dress(tile, image);
  tile.box.classList.toggle("active", index === active);
}

function dress(tile, image) {
  const url = `/thumb/${image.id}?size=${side * devicePixelRatio > 200 ? 320 : 160}`;
  if (tile.picture.getAttribute("src") !== url) {
    tile.picture.classList.remove("ready");
    tile.picture.src = url;
  }
  const { classes } = line.state;
  const value = labelOf(image);
  const chosen = selection.has(image.id);
  const seen = JSON.stringify([image.id, value, image.belief, chosen, total]);
  if (tile.seen === seen) return;
  tile.seen = seen;
  tile.box.setAttribute("aria-selected", String(chosen));
  tile.box.setAttribute("aria-setsize", total);
  tile.box.setAttribute("aria-label", `${image.name ?? `image ${image.id + 1}`}, ${describe(image, value)}`);
  tile.box.title = image.name ?? "";
  const known = value !== null;
  tile.tag.hidden = !known && !image.belief;
  tile.tag.className = known ? "tag known" : "tag";
  tile.tag.dataset.hue = hueOf(known ? value : image.belief?.class_id, classes);
  setText(tile.words, known ? nameOf(value, classes) : believed(image, classes));
}

const believed = ({ belief }, classes) => (belief ? `${nameOf(belief.class_id, classes)} ${percent(belief.p)}` : "");

function describe(image, value) {
  const { classes } = line.state;
  if (value !== null) return `labeled ${nameOf(value, classes)}`;
  return image.belief ? `the model believes ${believed(image, classes)}` : "no label";
}

// Choosing and correcting.

function press(event) {
  const tile = event.target.closest(".tile");
  if (!tile) return;
  const index = Number(tile.dataset.index);
  if (event.shiftKey) selectRange(anchor, index);
  else toggle(index);
  active = index;
  schedule();
}

function move(to, selecting, byStep = false) {
  if (total === null || to < 0 || to >= total) return;
  if (selecting && byStep) for (const index of [active, to]) add(index);
  active = to;
  anchor = to;
  reveal();
  repaint();
}

/** Move by many places, or to an end; at once, or as soon as the list is there. */
function leapBy(by) {
  leap = total === null ? by : null;
  if (!total) return;
  move(Math.max(0, Math.min(total - 1, active + by)), false);
  keeper.keep();
}

function reveal() {
  const top = Math.floor(active / columns) * (side + GAP);
  if (top < wall.scrollTop) wall.scrollTop = top;
  else if (top + side + 2 * GAP > wall.scrollTop + wall.clientHeight) wall.scrollTop = top + side + 2 * GAP - wall.clientHeight;
}

function add(index) {
  const image = listing.at(index);
  if (image) selection.set(image.id, image);
}

function toggle(index) {
  const image = listing.at(index);
  anchor = index;
  if (image && !selection.delete(image.id)) selection.set(image.id, image);
  repaint();
}

function selectRange(one, other) {
  for (let index = Math.min(one, other); index <= Math.max(one, other); index += 1) add(index);
  repaint();
}

function selectSeen() {
  const first = Math.ceil(wall.scrollTop / (side + GAP)) * columns;
  selectRange(first, Math.min(total, first + rowsSeen() * columns) - 1);
}

function deselect() {
  selection.clear();
  repaint();
}

/** The selected images; without a selection the one the keyboard is at, or the one enlarged. */
function targets() {
  if ($("viewer").open) return [listing.at(active)].filter(Boolean);
  if (selection.size > 0) return [...selection.values()];
  return wall.matches(":focus-visible") ? [listing.at(active)].filter(Boolean) : [];
}

function correct(value) {
  const images = targets();
  if (images.length === 0) {
    say("Select an image first.");
    flash($("selected"));
    return;
  }
  const before = images.map((one) => ({ ...one, label: labelOf(one) }));
  for (const image of images) image.label = value;
  label(before, value);
  listing.stale = $("filter").value !== "all";
  for (const pad of ["look-pad", "viewer-pad"]) flash($(pad).querySelector(`[data-id="${value}"]`));
  say(`${images.length === 1 ? "" : `${images.length} images: `}${nameOf(value, line.state.classes)}`);
  if ($("viewer").open) step(1);
  else if (selection.size === 0) move(active + 1, false);
  selection.clear();
  repaint();
}

function showSelection() {
  const { size } = selection;
  setText($("selected"), size > 0 ? `${number(size)} selected` : `Select images, then ${touch ? "tap a class" : "press a key"}.`);
  $("selected").classList.toggle("some", size > 0);
  for (const id of ["look-none", "look-open"]) $(id).disabled = size === 0;
}

// One image, enlarged.

function openViewer() {
  if (!listing.at(active)) return;
  showEnlarged();
  if (!$("viewer").open) $("viewer").showModal();
}

function step(by) {
  move(active + by, false);
  if (!listing.at(active)) listing.need(active, active + 1);
  setTimeout(showEnlarged);
}

function showEnlarged() {
  const image = listing.at(active);
  if (!image) return;
  const shown = make("img", { src: `/thumb/${image.id}?size=640`, alt: "", load: (event) => showPixels(event.target) });
  $("viewer-frame").replaceChildren(shown);
  setText($("viewer-file"), image.name ?? `image ${image.id + 1}`);
  setText($("viewer-state"), describe(image, labelOf(image)));
}
