// A list of any length. The page has elements only for the visible rows, and reuses these elements. All rows have the same height.

import { framed, h } from "./dom.js";

const BEYOND = 8; // this many rows above and below the visible rows also have elements
const TALLEST = 15_000_000; // the largest height of a list in pixels; browsers can't display much larger elements

/** Rows of `height` pixels in an element that scrolls. `make()` returns an empty row, and `draw(row, index)` fills a row. */
export class VirtualList {
  constructor({ height, make, draw, attributes = {} }) {
    Object.assign(this, { height, make, draw, length: 0, rows: new Map(), spare: [] });
    this.spacer = h("div", { class: "spacer", role: "presentation" });
    this.element = h("div", { ...attributes, class: `viewport ${attributes.class ?? ""}` }, this.spacer);
    this.refresh = framed(() => this.render(true));
    this.scrolled = framed(() => this.render(false));
    this.element.addEventListener("scroll", this.scrolled, { passive: true });
    this.observer = new ResizeObserver(this.scrolled);
    this.observer.observe(this.element);
  }

  close() { this.observer.disconnect(); }

  /** Set the number of rows, and draw the visible rows again. */
  resize(length) {
    this.length = Math.min(length, Math.floor(TALLEST / this.height));
    this.refresh();
  }

  get first() { return Math.floor(this.element.scrollTop / this.height); }

  get visible() { return Math.max(1, Math.floor(this.element.clientHeight / this.height)); }

  get atEnd() { return this.element.scrollTop + this.element.clientHeight >= this.length * this.height - this.height * 1.5; }

  /** Scroll the list so that a row is visible. */
  show(index, place = "nearest") {
    const top = index * this.height, seen = this.element.scrollTop, high = this.element.clientHeight;
    if (place === "middle") this.element.scrollTop = top - high / 2;
    else if (top < seen) this.element.scrollTop = top;
    else if (top + this.height > seen + high) this.element.scrollTop = top + this.height - high;
    this.render(false);
  }

  toEnd() {
    this.spacer.style.height = `${this.length * this.height}px`;
    this.element.scrollTop = this.length * this.height;
  }

  render(all) {
    const tall = `${this.length * this.height}px`;
    if (this.spacer.style.height !== tall) this.spacer.style.height = tall;
    const from = Math.max(0, this.first - BEYOND);
    const to = Math.min(this.length, this.first + this.visible + BEYOND + 2);
    for (const [index, row] of this.rows) {
      if ((index < from || index >= to) && !row.contains(document.activeElement)) {
        this.rows.delete(index);
        this.spare.push(row);
      } else if (index >= this.length) {
        this.rows.delete(index);
        row.remove();
      }
    }
    for (let index = from; index < to; index++) {
      let row = this.rows.get(index);
      if (row && !all) continue;
      if (!row) {
        row = this.spare.pop() ?? this.spacer.appendChild(this.make());
        row.style.transform = `translateY(${index * this.height}px)`;
        this.rows.set(index, row);
      }
      this.draw(row, index);
    }
    for (const row of this.spare.splice(0)) row.remove();
  }
}
