// A long list of images of which only the pages in sight are fetched.

import { make } from "./dom.js";
import { ask } from "./server.js";

const PAGE = 200;
const KEPT = 60;

export class Listing {
  #pages = new Map();
  #before = new Map();
  #wish;
  #arrived;

  /** Labels changed since it was fetched: what follows may have moved up. */
  stale = false;

  /** `wish()` says what is listed, in which order; `arrived(total)` is called when a page is there. */
  constructor(wish, arrived) {
    this.#wish = wish;
    this.#arrived = arrived;
  }

  /** The image at a place, or undefined while it is not there; what was there before, while it is fetched anew. */
  at(index) {
    const place = Math.floor(index / PAGE);
    return (this.#pages.get(place)?.images ?? this.#before.get(place))?.[index % PAGE];
  }

  /** Fetch everything anew; what is seen can still be used until it is there. */
  renew() {
    for (const [place, page] of this.#pages) {
      page.control?.abort();
      if (page.images) this.#before.set(place, page.images);
    }
    this.#pages.clear();
    this.stale = false;
  }

  /** List something else. */
  forget() {
    this.renew();
    this.#before.clear();
  }

  /** Fetch the pages between two places, and give up those that were scrolled past. */
  need(from, to) {
    const [first, last] = [Math.floor(from / PAGE), Math.floor(Math.max(from, to - 1) / PAGE)];
    const inSight = (place) => place >= first && place <= last;
    for (const [place, page] of this.#pages) {
      if (inSight(place) || !(page.control || this.#pages.size > KEPT)) continue;
      page.control?.abort();
      this.#pages.delete(place);
    }
    for (const place of this.#before.keys()) if (!inSight(place)) this.#before.delete(place);
    const places = Array.from({ length: last - first + 1 }, (_, step) => first + step);
    if (this.stale && !places.every((place) => this.#pages.has(place))) this.renew();
    for (const place of places) if (!this.#pages.has(place)) this.#fetch(place);
  }

  async #fetch(place) {
    const page = { control: new AbortController(), images: null };
    this.#pages.set(place, page);
    const wish = new URLSearchParams({ ...this.#wish(), offset: place * PAGE, limit: PAGE });
    try {
      const answer = await ask(`/api/images?${wish}`, { signal: page.control.signal });
      Object.assign(page, { images: answer.images, control: null });
      this.#before.delete(place);
      this.#arrived(answer.total);
    } catch {
      if (this.#pages.get(place) === page) this.#pages.delete(place);
    }
  }
}

/** Keep the choice of what to list in step with the classes. */
export function fillFilter(box, classes) {
  const shape = JSON.stringify(classes.map((one) => [one.id, one.name]));
  if (box.dataset.shape === shape) return;
  const wish = box.value;
  box.dataset.shape = shape;
  const option = (value, text) => make("option", { value }, text);
  const group = (text, kind) => make(
    "optgroup", { label: text }, ...classes.map((one) => option(`${kind}:${one.id}`, `${text.toLowerCase()} ${one.name}`)),
  );
  box.replaceChildren(
    option("all", "all images"), option("unlabeled", "without a label"), option("labeled", "with a label"),
    option("surprising", "surprising: like few others"), option("strange", "none of these"), option("skipped", "skipped"),
    group("Predicted", "predicted"), group("Labeled", "class"),
  );
  if (wish) box.value = wish;
  if (box.selectedIndex < 0) box.value = "all";
}
