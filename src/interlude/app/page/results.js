// The screen Results: training, how good the model is, what more labels would buy, and what to take away.

import { curveChart, interval } from "./charts.js";
import { $, duration, make, number, plural, points, say, setText } from "./dom.js";
import { ask, counts, lackingForNumber, line, post } from "./server.js";

let loaded = null;
let fits = { fits: [], curve: [], forecast: null };
let doctor = null;
let asking = false;
let before = null;

export function openResults() {
  $("train-form").addEventListener("submit", (event) => {
    event.preventDefault();
    train();
  });
  $("anyway").addEventListener("click", () => train(true));
  $("stop").addEventListener("click", () => post("/api/train/stop").catch(complain));
  new ResizeObserver(() => showCurve()).observe($("curve"));
}

/** Follow the state of the server. */
export function updateResults() {
  const { training, latest } = line.state;
  announce(training);
  showTraining(training);
  const wish = `${line.state.session} ${latest?.fit} ${training.state}`;
  if (loaded !== wish) {
    loaded = wish;
    loadFits();
  }
  if (!doctor || doctor.running) loadDoctor();
  showVerdict();
}

async function train(force = false) {
  const budget = new FormData($("train-form")).get("budget");
  try {
    await post("/api/train", { budget, force });
    say("Training began.");
  } catch (error) {
    complain(error);
  }
}

function complain(error) {
  setText($("train-line"), error.message);
  $("train-card").classList.add("failed");
  say(error.message);
}

function announce({ state, message }) {
  if (before === "running" && state === "done") say("Training is done.");
  if (before === "running" && state === "failed") say(`Training failed. ${message ?? ""}`);
  before = state;
}

function showTraining({ state, line: last, fraction, message }) {
  const running = state === "running";
  const lacking = missing();
  $("train-form").hidden = running;
  $("training").hidden = !running;
  $("train").disabled = lacking !== "";
  setText($("train"), line.state.latest ? "Train again" : "Train");
  setText($("train-title"), running ? "Training" : "Train");
  if (Number.isFinite(fraction)) $("fraction").value = fraction;
  else $("fraction").removeAttribute("value");
  $("train-card").classList.toggle("failed", state === "failed");
  $("anyway").hidden = state !== "failed" || !/doctor|--force/.test(message ?? "");
  $("train-line").title = running ? (last ?? "") : "";
  if (running) setText($("train-line"), inShort(last ?? ""));
  else if (state === "failed") setText($("train-line"), message || "Training failed.");
  else setText($("train-line"), lacking || newLabels());
}

/** The line of a fit without its figures for experts, which are shown when the mouse rests on it. */
function inShort(last) {
  const step = /step (\d+)\/(\d+)/.exec(last);
  const left = /([\d.]+ (?:s|min|h)) left/.exec(last);
  if (step) return `Step ${step[1]} of ${step[2]}${left ? `, ${left[1]} left` : ""}. You can go on labeling.`;
  if (/^(model|report):/.test(last)) return "Almost done.";
  return last || "Starting. You can go on labeling.";
}

function missing() {
  const found = [...counts()];
  const named = found.filter(([, count]) => count > 0).length;
  if (named >= 2) return "";
  return named === 1 ? "Label at least one image of a second class first." : "Label at least one image of two classes first.";
}

function newLabels() {
  const labels = [...counts().values()].reduce((sum, one) => sum + one, 0);
  const { latest } = line.state;
  const lacking = lackingForNumber();
  if (!latest) return `${plural(labels, "label")} to learn from. ${lacking || "Training runs on this computer; you can go on labeling."}`;
  const more = labels - latest.labels;
  const news = more > 0 ? `${plural(more, "new label")} since the last training.` : "No new label since the last training.";
  return `${news} ${lacking}`.trim();
}

async function loadFits() {
  try {
    const answer = await ask("/api/fits");
    fits = Array.isArray(answer) ? { fits: answer, curve: [], forecast: null } : answer;
    showVerdict();
    showCurve();
    showHistory();
  } catch {
    loaded = null;
  }
}

async function loadDoctor() {
  if (asking) return;
  asking = true;
  try {
    doctor = await ask("/api/doctor");
    showDoctor();
  } catch {
    doctor = null;
  }
  setTimeout(() => { asking = false; }, 2000);
}

function showVerdict() {
  const { latest } = line.state;
  $("verdict").hidden = !latest;
  $("before").hidden = Boolean(latest);
  if (!latest) return;
  setText($("verdict-line"), headline(latest));
  const known = Number.isFinite(latest.accuracy);
  setText($("accuracy"), known ? points(latest.accuracy) : "not known yet");
  const between = Number.isFinite(latest.low) ? `With 95\u00a0% certainty between ${points(latest.low)} and ${points(latest.high)}. ` : "";
  setText($("accuracy-note"), known
    ? `${between}Balanced accuracy of models that had not learned from the image in question, ${latest.basis}.`
    : sentence(latest.reason || "too few labels for an estimate; a few more of each class will give one"));
  $("accuracy").classList.toggle("unknown", !known);
  showInterval(latest);
  setText($("fact-labels"), number(latest.labels ?? 0));
  setText($("fact-judged"), number(latest.judged ?? 0));
  setText($("fact-classes"), number(line.state.classes.length));
  setText($("fact-took"), duration(latest.seconds));
  $("report-link").href = `/report/${latest.fit}`;
  $("model-link").href = `/api/export/model/${latest.fit}`;
}

function headline({ outcome, verdict }) {
  return outcome === "no estimate" || !verdict ? "The model is trained, but not measured." : sentence(verdict);
}

const sentence = (words) => `${words[0].toUpperCase()}${words.slice(1)}${/[.!?]$/.test(words) ? "" : "."}`;

function showInterval({ accuracy, low, high }) {
  const box = $("interval");
  const shape = `${accuracy} ${low} ${high}`;
  if (box.dataset.shape === shape) return;
  box.dataset.shape = shape;
  const known = Number.isFinite(accuracy) && Number.isFinite(low);
  box.replaceChildren(...(known ? [interval(accuracy, low, high)] : []));
}

function showHistory() {
  const rows = [...fits.fits].reverse();
  $("history-box").hidden = rows.length < 2;
  $("history").replaceChildren(...rows.map((one) => make(
    "tr", {},
    make("th", { scope: "row" }, one.fit),
    make("td", {}, number(one.labels)),
    make("td", {}, Number.isFinite(one.accuracy) ? `${points(one.accuracy)} (${points(one.low)} to ${points(one.high)})` : "–"),
    make("td", {}, duration(one.seconds)),
    make("td", {}, make("a", { href: `/report/${one.fit}`, target: "_blank", rel: "noopener", "aria-label": `Report of training ${one.fit}` }, "report")),
  )));
}

function showDoctor() {
  const { running, findings = [], failure } = doctor;
  $("doctor-card").hidden = false;
  const words = { stop: "stop", warn: "warning", warning: "warning", note: "note", info: "note" };
  if (running) $("findings").replaceChildren(make("li", { class: "quiet" }, "Looking at the images …"));
  else if (findings.length === 0) $("findings").replaceChildren(make("li", {}, failure || "Nothing to complain about."));
  else {
    $("findings").replaceChildren(...findings.map(({ severity, title, detail }) => make(
      "li", {},
      make("span", { class: `badge ${words[severity] ?? "note"}` }, words[severity] ?? severity),
      make("p", {}, make("b", {}, title), detail ? make("span", { class: "quiet" }, ` ${detail}`) : null),
    )));
  }
}

// The curve of accuracy over labels.

function showCurve() {
  const width = $("curve").clientWidth;
  const { curve = [], forecast } = fits;
  setText($("forecast"), forecastSentence(forecast, curve));
  if (width === 0 || curve.length === 0) {
    $("curve").replaceChildren();
    return;
  }
  $("curve").replaceChildren(curveChart(curve, forecast, width));
}

const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(1)}`;

function forecastSentence(forecast, curve) {
  if (forecast) return `${forecast.sentence}, between ${signed(forecast.low)} and ${signed(forecast.high)}.`;
  return curve.length < 3 ? "Three trainings, each with more labels, will tell what 20 more would buy." : "";
}
