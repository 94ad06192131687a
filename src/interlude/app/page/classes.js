// Naming the classes: the first screen, and the dialog that changes them later.

import { $, make, plural, say, setText } from "./dom.js";
import { ask, connect, learn, line, post } from "./server.js";

let begun = false;
let last = Promise.resolve();

/** Changes are sent one after the other: classes stand in the order in which they were named. */
const inTurn = (work) => (last = last.then(work));

/** Set up the forms; `begin` is called when the first names are given. */
export function openClasses(begin) {
  $("name-form").addEventListener("submit", (event) => {
    event.preventDefault();
    add($("name-field"), $("name-hint"));
  });
  $("name-field").addEventListener("input", () => {
    if (/[,;\n]/.test($("name-field").value)) add($("name-field"), $("name-hint"));
  });
  $("begin").addEventListener("click", () => {
    begun = true;
    begin();
  });
  $("edit").addEventListener("click", () => {
    setText($("editor-hint"), "");
    $("editor").showModal();
  });
  $("editor-form").addEventListener("submit", (event) => {
    event.preventDefault();
    add($("editor-field"), $("editor-hint"));
  });
}

/** Whether the first screen is still needed: until there are two classes and the person went on. */
export function welcoming() {
  const { classes, labeled } = line.state;
  if (classes.length >= 2 && (labeled > 0 || $("welcome").hidden)) begun = true;
  return !begun;
}

/** Follow the state of the server. */
export function updateClasses() {
  const { classes, images, folder } = line.state;
  setText($("found"), images > 0 ? `${plural(images, "image")} in ${folder}` : `There are no images in ${folder}. Put some in and start again.`);
  $("begin").disabled = classes.length < 2 || images === 0;
  setText($("begin-hint"), ["", "One more class, at least."][classes.length] ?? "");
  keyed($("chips"), classes, chip);
  keyed($("editor-list"), classes, row);
}

/** Keep a list in step with the classes without touching a field that is being typed in. */
function keyed(list, classes, element) {
  const shape = JSON.stringify(classes.map((one) => [one.id, one.name, one.count > 0]));
  if (list.dataset.shape === shape) return;
  list.dataset.shape = shape;
  list.replaceChildren(...classes.map(element));
}

function chip(one, place) {
  return make(
    "li", { "data-hue": place % 10 },
    make("span", {}, one.name),
    make("button", { type: "button", "aria-label": `Remove ${one.name}`, click: () => inTurn(() => remove(one, $("name-hint"))) }, "×"),
  );
}

function row(one, place) {
  const field = make("input", { type: "text", maxlength: 100, "aria-label": `Name of class ${place + 1}`, spellcheck: "false" });
  field.value = one.name;
  field.addEventListener("change", () => {
    const name = field.value.trim();
    inTurn(() => change(`/api/classes/${one.id}`, { name }, $("editor-hint"), () => { field.value = one.name; }));
  });
  return make(
    "li", { "data-hue": place % 10 }, field,
    make("button", {
      type: "button", "aria-label": `Remove ${one.name}`, disabled: one.count > 0,
      title: one.count > 0 ? "It has labels" : "Remove", click: () => inTurn(() => remove(one, $("editor-hint"))),
    }, "×"),
  );
}

function add(field, hint) {
  const typed = new Set(field.value.split(/[,;\n]/).map((one) => one.trim()));
  field.value = "";
  field.focus();
  inTurn(async () => {
    const known = new Set(line.state.classes.map((one) => one.name));
    const names = [...typed].filter((one) => one && !known.has(one));
    if (names.length > 0 && await change("/api/classes", { names }, hint)) say(`Added ${names.join(", ")}`);
  });
}

async function remove(one, hint) {
  try {
    await ask(`/api/classes/${one.id}`, { method: "DELETE" });
    learn(await ask("/api/state"));
    setText(hint, "");
    say(`Removed ${one.name}`);
  } catch (error) {
    setText(hint, error.message);
  }
}

async function change(path, body, hint, otherwise = () => {}) {
  try {
    await post(path, body);
    await connect();
    setText(hint, "");
    return true;
  } catch (error) {
    otherwise();
    setText(hint, error.message);
    return false;
  }
}
