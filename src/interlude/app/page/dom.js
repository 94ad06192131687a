// Small helpers: elements from names, words for people, a pad of class buttons.

export const $ = (id) => document.getElementById(id);

/** An element with attributes, listeners (functions) and children; text is always text, never markup. */
export function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for a drawing. */
export function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Set a text or an attribute only if it differs, so that screen readers and layout stay quiet. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Tell a screen reader, politely. */
export function say(text) {
  $("say").textContent = text;
}

export const number = (value) => new Intl.NumberFormat("en").format(value);
export const plural = (count, word) => `${number(count)} ${word}${count === 1 ? "" : "s"}`;
export const percent = (p) => points(100 * p);

/** The same for what is in percent already. */
export const points = (value) => `${Math.round(value)}\u00a0%`;

/** 95 s → "1.6 min". */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  return seconds < 5400 ? `${(seconds / 60).toFixed(1)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

const KEYS = [..."1234567890qwertyasdfhjklzxcvbmiop"];

/** The key of the class at a place, or "" where keys run out. */
export const keyAt = (place) => KEYS[place] ?? "";

/** The class that a key stands for, or undefined. */
export const classOfKey = (key, classes) => classes[KEYS.indexOf(key.toLowerCase())];

/** Whether a key takes the last step back. */
export function isUndo({ key, ctrlKey, metaKey, altKey }) {
  const modified = ctrlKey || metaKey;
  return !altKey && ((key.toLowerCase() === "u" && !modified) || (key.toLowerCase() === "z" && modified));
}

/** What a label is called. */
export function nameOf(value, classes) {
  if (value === "skip") return "skipped";
  if (value === "strange") return "none of these";
  return classes.find((one) => one.id === value)?.name ?? "no label";
}

/** The place of a class in the palette of ten hues; strange and skipped images are gray. */
export function hueOf(value, classes) {
  const place = classes.findIndex((one) => one.id === value);
  return place < 0 ? "gray" : String(place % 10);
}

/** Keep a row of class buttons in step with the classes; `press(id)` when one is chosen. */
export function fillPad(pad, classes, press, counts = null) {
  const shape = JSON.stringify(classes.map((one) => [one.id, one.name]));
  if (pad.dataset.shape !== shape) {
    pad.dataset.shape = shape;
    pad.classList.toggle("many", classes.length > 7);
    pad.replaceChildren(...classes.map((one, place) => classButton(one, place, press, counts !== null)));
  }
  if (counts === null) return;
  const most = Math.max(1, ...counts.values());
  for (const button of pad.children) {
    const count = counts.get(Number(button.dataset.id)) ?? 0;
    setText(button.querySelector(".count"), number(count));
    button.style.setProperty("--share", String(count / most));
    button.classList.toggle("without", count === 0);
  }
}

function classButton(one, place, press, counted) {
  const key = keyAt(place);
  return make(
    "button",
    {
      type: "button", "data-id": one.id, "data-hue": place % 10, title: one.name,
      "aria-keyshortcuts": key || null, click: () => press(one.id),
    },
    key ? make("kbd", { "aria-hidden": "true" }, key.toUpperCase()) : null,
    make("span", { class: "name" }, one.name),
    counted ? make("span", { class: "count" }, "0") : null,
  );
}

/** A short flash on the button that a key stands for. */
export function flash(button) {
  if (!button) return;
  button.classList.remove("hit");
  void button.offsetWidth;
  button.classList.add("hit");
}

/** A press of the mouse leaves the keyboard where it was, so that the next key still means what it says. */
export function keepFocus(element) {
  element.addEventListener("mousedown", (event) => {
    if (event.target.closest("button")) event.preventDefault();
  });
}

/** A choice made with the mouse gives the keys to another element; one made with keys goes on. */
export function giveBackFocus(choice, to) {
  let byMouse = false;
  choice.addEventListener("pointerdown", () => { byMouse = true; });
  choice.addEventListener("keydown", () => { byMouse = false; });
  choice.addEventListener("change", () => byMouse && to.focus({ preventScroll: true }));
}

/** Whether fingers are used here rather than keys. */
export const touch = matchMedia("(hover: none)").matches;

/** Small images are shown as what they are, in squares. */
export function showPixels(image) {
  image.classList.toggle("tiny", image.naturalWidth > 0 && image.naturalWidth * 3 < image.clientWidth);
}

/** A tile of the wall, still without an image. */
export function newTile() {
  const picture = make("img", { alt: "", decoding: "async", draggable: "false" });
  const words = make("span", {});
  const tag = make("span", { class: "tag" }, words);
  picture.addEventListener("load", () => {
    showPixels(picture);
    picture.classList.add("ready");
  });
  picture.addEventListener("error", () => picture.removeAttribute("src"));
  return { box: make("div", { role: "option", class: "tile" }, picture, tag), picture, words, tag };
}
