// Keeps a box scrolled to where a key has put it, although the wheel may still be turning.

const FRAMES = 20;

export class Keeper {
  #frames = 0;
  #reveal;

  /** `reveal()` scrolls to what is to be seen; a new turn of the wheel, or a touch, ends it. */
  constructor(box, reveal) {
    this.#reveal = reveal;
    for (const kind of ["wheel", "pointerdown"]) box.addEventListener(kind, () => { this.#frames = 0; }, { passive: true });
  }

  /** Scroll there now, and again for some frames: an animation that was running would take it back. */
  keep() {
    const runs = this.#frames > 0;
    this.#frames = FRAMES;
    this.#reveal();
    if (!runs) requestAnimationFrame(() => this.#again());
  }

  #again() {
    if (this.#frames <= 0) return;
    this.#frames -= 1;
    this.#reveal();
    requestAnimationFrame(() => this.#again());
  }
}
