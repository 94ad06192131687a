// The page as a whole: which screen is seen, which keys go where, what is said about the server.

import { $, keepFocus, make, percent, plural, setText } from "./dom.js";
import { connect, hideToken, line, onChange, waiting } from "./server.js";
import { openClasses, updateClasses, welcoming } from "./classes.js";
import { labelKey, openLabel, updateLabel } from "./label.js";
import { enterLook, lookKey, openLook, updateLook } from "./look.js";
import { openResults, updateResults } from "./results.js";

const SCREENS = ["label", "look", "results"];
const KEYS = { label: labelKey, look: lookKey };
let screen = SCREENS.includes(location.hash.slice(1)) ? location.hash.slice(1) : "label";

function go(name) {
  screen = name;
  history.replaceState(null, "", `#${name}`);
  update();
  if (name === "look") enterLook();
}

function update() {
  showLine();
  if (!line.state) return;
  const naming = welcoming();
  setText($("folder"), line.state.folder);
  document.title = `${line.state.folder} · interlude`;
  $("welcome").hidden = !naming;
  $("tabs").hidden = naming;
  for (const name of SCREENS) {
    const seen = !naming && name === screen;
    $(name).hidden = !seen;
    $(`tab-${name}`).setAttribute("aria-selected", String(seen));
    $(`tab-${name}`).tabIndex = seen ? 0 : -1;
  }
  updateClasses();
  if (naming && document.activeElement === document.body) $("name-field").focus();
  if (naming) return;
  updateLabel();
  if (screen === "look") updateLook();
  if (screen === "results") updateResults();
  showPill();
}

function showPill() {
  const { training, features } = line.state;
  const running = training.state === "running";
  const text = running
    ? `Training${Number.isFinite(training.fraction) ? ` ${percent(training.fraction)}` : " …"}`
    : features?.state === "running" ? `Reading images ${percent(features.done / Math.max(1, features.total))}` : "";
  $("pill").hidden = text === "" || (running && screen === "results");
  $("pill").classList.toggle("busy", running);
  setText($("pill"), text);
}

/** One sentence about the line to the server, where there is something to say. */
function showLine() {
  const count = waiting();
  const kept = count > 0 ? `${plural(count, "label")} ${count === 1 ? "waits" : "wait"} in this page and will be sent.` : "Nothing is lost.";
  let words = [line.trouble];
  if (line.refused) words = [`The server was started anew. ${kept} Open the address that it has printed: then this page goes on by itself.`];
  else if (!line.up) words = [`The server is gone. ${kept} Start it again with `, make("code", {}, "interlude app"), " and open the address that it prints: then this page goes on by itself."];
  const text = words.map((one) => one.textContent ?? one).join("");
  $("notice").hidden = text === "";
  $("notice").classList.toggle("gone", !line.up);
  if ($("notice").textContent !== text) $("notice").replaceChildren(...words);
  $("waiting").hidden = count === 0 || !line.up;
  setText($("waiting"), `saving ${count} …`);
}

function openTabs() {
  keepFocus($("tabs"));
  for (const name of SCREENS) $(`tab-${name}`).addEventListener("click", () => go(name));
  for (const button of document.querySelectorAll("[data-go]")) button.addEventListener("click", () => go(button.dataset.go));
  $("tabs").addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    const name = SCREENS.at((SCREENS.indexOf(screen) + by) % SCREENS.length);
    go(name);
    $(`tab-${name}`).focus();
  });
  $("pill").addEventListener("click", () => go("results"));
  $("help-open").addEventListener("click", () => $("help").showModal());
  addEventListener("hashchange", () => {
    if (SCREENS.includes(location.hash.slice(1))) go(location.hash.slice(1));
  });
}

function key(event) {
  const { target } = event;
  if (event.defaultPrevented || event.isComposing || !line.state || $("label").hidden && $("look").hidden) return;
  if (target.closest("input, select, textarea") || $("help").open || $("editor").open) return;
  if (target.closest("button, a, summary") && [" ", "Enter"].includes(event.key)) return;
  if (event.repeat && !event.key.startsWith("Arrow") && !event.key.startsWith("Page")) return;
  if (event.key === "?") $("help").showModal();
  else if (!KEYS[screen]?.(event)) return;
  event.preventDefault();
}

hideToken();
openTabs();
openClasses(() => go("label"));
openLabel();
openLook();
openResults();
onChange(update);
addEventListener("keydown", key);
connect();
