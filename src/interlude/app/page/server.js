// The line to the server: requests, the stream of events, and labels that wait until they are on disk.

const PENDING = "interlude-pending";
const PATIENCE = 20_000;

/** The last state the server told, and whether it can be reached. */
export const line = { state: null, up: true, refused: false, trouble: "" };

const listeners = new Set();
let source = null;
let retry = null;
let wait = 500;

/** Call `listener` after every change of the state, of the line, or of the labels that wait. */
export function onChange(listener) {
  listeners.add(listener);
}

function tell() {
  for (const listener of listeners) listener();
}

/** A sentence of the server, or what went wrong on the way to it. */
export class Refusal extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
  get away() {
    return this.status === 0;
  }
}

/** The token of the address is in a cookie by now, which all tabs share; take it out of sight. */
export function hideToken() {
  const address = new URL(location.href);
  if (!address.searchParams.has("token")) return;
  address.searchParams.delete("token");
  history.replaceState(null, "", address);
}

/** The answer of the server as an object; a Refusal if there is none. */
export async function ask(path, { method = "GET", body, signal } = {}) {
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  const patience = AbortSignal.timeout(PATIENCE);
  let response;
  let answer;
  try {
    response = await fetch(path, {
      method, headers, body: body === undefined ? undefined : JSON.stringify(body),
      signal: signal ? AbortSignal.any([signal, patience]) : patience,
    });
    answer = await (response.ok ? response.json() : response.json().catch(() => ({})));
  } catch (error) {
    if (signal?.aborted) throw error;
    lost();
    throw new Refusal("The server does not answer.", 0);
  }
  if (response.ok) return answer;
  if (response.status === 403) shutOut();
  throw new Refusal(answer.error ?? `The server answered ${response.status}.`, response.status);
}

export const post = (path, body = {}) => ask(path, { method: "POST", body });

/** What is known of one image. */
export async function lookUp(id) {
  const { images } = await ask(`/api/images?filter=all&sort=name&offset=${id}&limit=1`);
  return images[0];
}

/** Take over what the server says; what is older than what is known only `anyway`, after a new connection. */
export function learn(news, anyway = false) {
  const old = line.state;
  const another = news.session !== undefined && news.session !== old?.session;
  if (!old || anyway || another || !(news.changed < old.changed)) line.state = { ...old, ...news };
  tell();
}

/** Ask for the state, open the stream, send what still waits; and again whenever the line broke. */
export async function connect() {
  clearTimeout(retry);
  try {
    learn(await ask("/api/state"), true);
  } catch (error) {
    if (!error.away && error.status !== 403) troubled(error.message);
    return;
  }
  wait = 500;
  Object.assign(line, { up: true, refused: false, trouble: "" });
  tell();
  listen();
  send();
}

function listen() {
  source?.close();
  source = new EventSource("/api/events");
  source.addEventListener("state", (event) => {
    if (!sending) learn(JSON.parse(event.data)); // else the answer to what is being sent tells more, and counts nothing twice
  });
  source.addEventListener("error", () => {
    source.close();
    source = null;
    again(300);
  });
}

function lost() {
  if (line.up) {
    line.up = false;
    tell();
  }
  again(wait);
  wait = Math.min(5000, wait * 1.5);
}

/** Say what went wrong, until something goes right again. */
export function complain(message) {
  line.trouble = message;
  tell();
}

function troubled(message) {
  complain(message);
  again(3000);
}

function shutOut() {
  Object.assign(line, { up: false, refused: true });
  tell();
  again(2000);
}

function again(after) {
  clearTimeout(retry);
  retry = setTimeout(connect, after);
}

// Labels in the order they were made: {session, ids, names, before, value}, or {undo: true}.
// What is not confirmed survives a reload; sending a label twice does no harm, an undo would, so it is not kept.
const pending = JSON.parse(sessionStorage.getItem(PENDING) ?? "[]");
let sending = null;

export const waiting = () => pending.length;

function keep() {
  sessionStorage.setItem(PENDING, JSON.stringify(pending.filter((one) => !one.undo)));
}

/** Label images ({id, label}) at once on the page, and on disk as soon as the server answers. */
export function label(images, value) {
  if (images.length === 0) return;
  const [ids, names, before] = ["id", "name", "label"].map((key) => images.map((one) => one[key] ?? null));
  pending.push({ session: line.state.session, ids, names, before, value });
  keep();
  dispatchEvent(new CustomEvent("labeled", { detail: { ids: pending.at(-1).ids, value } }));
  tell();
  send();
}

/** What an image is labeled with, counting what still waits. */
export function labelOf(image) {
  const last = pending.findLast((one) => one.ids?.includes(image.id));
  return last ? last.value : (image.label ?? null);
}

/** The images that wait for their label to be confirmed. */
export const waitingIds = () => pending.flatMap((one) => one.ids ?? []);

/** How many images each class has, counting what still waits. */
export function counts() {
  const found = new Map((line.state?.classes ?? []).map((one) => [one.id, one.count]));
  for (const { ids = [], before, value } of pending) {
    for (const place of ids.keys()) {
      if (found.has(before[place])) found.set(before[place], found.get(before[place]) - 1);
      if (found.has(value)) found.set(value, found.get(value) + 1);
    }
  }
  return found;
}

/** What to do for a number that can be trusted, in a sentence; "" where enough random images have a label. */
export function lackingForNumber() {
  const { labels, least } = line.state.sample;
  if (labels >= least) return "";
  return `Label ${least - labels} more of the random images for a number that can be trusted.`;
}

/** Take the last step back: one that still waits is forgotten, one on disk is undone there. */
export function undo() {
  const last = pending.at(-1);
  if (last && last !== sending && !last.undo) {
    pending.pop();
    keep();
    tell();
    return Promise.resolve({ ids: last.ids, value: last.value });
  }
  return new Promise((resolve, reject) => {
    pending.push({ undo: true, resolve, reject });
    send();
  });
}

async function send() {
  if (sending) return;
  while (pending.length > 0) {
    sending = pending[0];
    let news = null;
    try {
      news = await (sending.undo ? post("/api/undo") : sendLabel(sending));
    } catch (error) {
      if (!drop(sending, error)) break;
    }
    pending.shift();
    keep();
    if (news) learn(news);
    else tell();
    sending.resolve?.(news?.undone ?? null);
  }
  sending = null;
}

async function sendLabel(step) {
  if (step.session !== line.state.session) await findAgain(step);
  const { session, ids, value } = step;
  const news = await post("/api/labels", { session, ids, value });
  line.trouble = "";
  return news;
}

/** A server that was started again may count its images anew: make sure that the numbers still mean the same. */
async function findAgain(step) {
  const found = await Promise.all(step.ids.map(lookUp));
  if (found.some((one, place) => one?.name !== step.names[place])) {
    throw new Refusal("The files in the folder have changed. Label these images again.", 410);
  }
  step.session = line.state.session;
}

/** Whether a step that failed is given up: an undo always, a label only if the server will never take it. */
function drop(step, error) {
  if (step.undo) {
    step.reject(error);
    return true;
  }
  if (error.away || error.status === 403) return false;
  if (error.status >= 500) {
    troubled(error.message);
    return false;
  }
  line.trouble = `${step.ids.length === 1 ? "A label was" : `${step.ids.length} labels were`} not taken: ${error.message}`;
  return true;
}
