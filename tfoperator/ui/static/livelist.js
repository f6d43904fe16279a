// A list of jobs or pipeline runs that updates itself. The user can filter and sort the list. It draws only the visible rows, so it is
// also fast with 5,000 rows.

import { Stream } from "./api.js";
import { framed, h, setAttribute, setText } from "./dom.js";
import { count } from "./format.js";
import { visible } from "./text.js";
import { VirtualList } from "./virtual.js";

const NARROW = matchMedia("(max-width: 760px)");
const WIDE_ROW = 56, NARROW_ROW = 74;

/** A list of entries, jobs or runs, that come from a stream. Each entry has a `key`. `kind` describes the list:
 *
 * - `path`, `part`: the path of the stream, and the field of its messages that contains the entries
 * - `address`, `title`, `label`, `placeholder`: the address of the list on the page, and texts for people
 * - `columns`: [value to sort by, label] of each column; columns from the fourth on are right-aligned
 * - `order`: the order of states; `state(entry)`: the state of an entry; `text(entry)`: the text to which the filter applies
 * - `value(by)`: a function that returns the value of an entry to sort by; `sortedBy`: the first sorting; `down`: the values that are first sorted from high to low
 * - `draw(parts, entry, several)`: draws a row; `several`: whether the entries belong to several namespaces
 * - `empty`: title and hint of an empty list; `noMatch`, `looking`: titles; `trouble(reasons)`: a message about problems */
export class LiveList {
  constructor(kind, { setState, query }) {
    this.kind = kind;
    this.all = new Map();
    this.shown = [];
    this.query = query.get("q") ?? "";
    this.state = query.get("state") ?? "";
    this.sort = { by: kind.sortedBy, down: true };
    this.synced = false;
    this.draw = framed(() => this.arrange());
    this.build();
    this.stream = new Stream(kind.path, {}, {
      opened: () => { this.stale = new Set(this.all.keys()); },
      message: (message) => this.take(message),
      state: setState,
    });
    this.ticking = setInterval(() => this.list.refresh(), 5000);
    this.resized = () => { this.list.height = NARROW.matches ? NARROW_ROW : WIDE_ROW; this.list.rows.forEach((row) => row.remove()); this.list.rows.clear(); this.list.refresh(); };
    NARROW.addEventListener("change", this.resized);
  }

  close() {
    this.stream.close();
    this.list.close();
    clearInterval(this.ticking);
    NARROW.removeEventListener("change", this.resized);
  }

  build() {
    const { kind } = this;
    this.filter = h("input", {
      class: "field", type: "search", placeholder: kind.placeholder, "aria-label": `Filter ${kind.label}`,
      value: this.query, oninput: () => { this.query = this.filter.value; this.remember(); this.draw(); },
      onkeydown: (event) => { if (event.key === "ArrowDown") { event.preventDefault(); this.focusRow(0); } },
    });
    this.chips = h("div", { class: "chips", role: "group", "aria-label": "Filter by state" });
    this.notice = h("div");
    this.head = h("div", { class: "row head", role: "row", "aria-rowindex": 1 }, kind.columns.map(([by, label], at) => h("div",
      { class: at > 2 ? "cell right" : "cell", role: "columnheader", "data-by": by },
      by ? h("button", { type: "button", onclick: () => this.sortBy(by) }, label) : label)));
    this.list = new VirtualList({
      height: NARROW.matches ? NARROW_ROW : WIDE_ROW, make: () => row(kind.columns.length), draw: (element, index) => this.drawRow(element, index),
      attributes: { role: "rowgroup", onkeydown: (event) => this.key(event), tabindex: -1 },
    });
    this.table = h("div", { class: `panel listing ${kind.part}`, role: "table", "aria-label": kind.title }, this.head, this.list.element);
    this.empty = h("div", { class: "panel empty", role: "status" }, h("h2", {}, kind.looking));
    this.element = h("div", {},
      h("div", { class: "title" }, h("h1", { tabindex: -1 }, kind.title), this.total = h("span", { class: "muted num" })),
      this.notice, h("div", { class: "tools" }, this.filter, this.chips), this.table, this.empty);
    this.table.hidden = true;
  }

  take(message) {
    for (const one of message[this.kind.part] ?? []) { one.used = this.all.get(one.key)?.used; this.all.set(one.key, one); this.stale?.delete(one.key); }
    for (const key of message.gone ?? []) this.all.delete(key);
    if (message.used) for (const [key, one] of this.all) one.used = message.used[key];
    if ("synced" in message) {
      this.synced = message.synced;
      this.problems = message.problems;
      if (this.synced && this.stale) { for (const key of this.stale) this.all.delete(key); this.stale = null; }
    }
    this.draw();
  }

  arrange() {
    const words = this.query.toLowerCase().split(/\s+/).filter(Boolean);
    const counts = new Map(), found = [], places = new Set();
    for (const one of this.all.values()) {
      places.add(one.namespace);
      const state = this.kind.state(one);
      counts.set(state, (counts.get(state) ?? 0) + 1);
      if (this.state && state !== this.state) continue;
      const text = `${this.kind.text(one)} ${state}`.toLowerCase();
      if (words.every((word) => text.includes(word))) found.push(one);
    }
    this.several = places.size > 1;
    this.shown = found.sort(this.order());
    this.drawChips(counts);
    setText(this.total, this.all.size ? (found.length === this.all.size ? count(this.all.size) : `${count(found.length)} of ${count(this.all.size)}`) : "");
    setAttribute(this.table, "aria-rowcount", this.shown.length + 1);
    for (const cell of this.head.children) setAttribute(cell, "aria-sort", cell.dataset.by === this.sort.by ? (this.sort.down ? "descending" : "ascending") : null);
    this.table.hidden = this.shown.length === 0;
    this.empty.hidden = !this.table.hidden;
    this.drawEmpty();
    this.drawNotice();
    this.list.element.style.height = `${this.shown.length * this.list.height}px`;
    this.list.resize(this.shown.length);
  }

  drawChips(counts) {
    const { order } = this.kind;
    const states = [...order, ...[...counts.keys()].filter((one) => !order.includes(one))].filter((one) => counts.has(one) || one === this.state);
    const wanted = [["", "All", this.all.size], ...states.map((one) => [one, one, counts.get(one) ?? 0])];
    const focused = document.activeElement?.dataset?.state;
    const said = JSON.stringify([wanted, this.state]);
    if (said === this.chipsSaid) return;
    this.chipsSaid = said;
    this.chips.replaceChildren(...wanted.map(([state, label, number]) => h("button", {
      type: "button", class: "chip", "data-state": state, "aria-pressed": String(this.state === state),
      onclick: () => { this.state = state; this.remember(); this.draw(); },
    }, label, " ", h("b", {}, count(number)))));
    if (focused !== undefined) this.chips.querySelector(`[data-state="${CSS.escape(focused)}"]`)?.focus();
  }

  drawEmpty() {
    if (!this.empty.hidden) {
      const [title, hint] = this.all.size ? [this.kind.noMatch, "Change the filter, or select another state."]
        : this.synced ? this.kind.empty : [this.kind.looking, ""];
      this.empty.replaceChildren(h("h2", {}, title), h("p", {}, hint));
    }
  }

  drawNotice() {
    const reasons = Object.entries(this.problems ?? {}).map(([kind, reason]) => `${kind}: ${reason}`);
    const text = reasons.length ? this.kind.trouble(visible(reasons.join(", "))) : "";
    if (text !== (this.noticed ?? "")) { this.noticed = text; this.notice.replaceChildren(text ? h("p", { class: "notice", role: "alert" }, text) : ""); }
  }

  order() {
    const { by, down } = this.sort, sign = down ? -1 : 1;
    const value = by === "state" ? (one) => this.kind.order.indexOf(this.kind.state(one)) : this.kind.value(by);
    return (a, b) => { const x = value(a), y = value(b); return x < y ? -sign : x > y ? sign : a.key < b.key ? -1 : 1; };
  }

  sortBy(by) {
    this.sort = { by, down: this.sort.by === by ? !this.sort.down : this.kind.down.includes(by) };
    this.draw();
  }

  remember() {
    const query = new URLSearchParams(Object.entries({ q: this.query, state: this.state }).filter(([, value]) => value));
    history.replaceState(null, "", query.size ? `${this.kind.address}?${query}` : this.kind.address);
  }

  key(event) {
    const at = Number(document.activeElement?.closest?.(".row")?.dataset.index ?? -1);
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: this.list.visible, PageUp: -this.list.visible, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined || at < 0) return;
    event.preventDefault();
    if (at === 0 && step === -1) this.filter.focus();
    else this.focusRow(Math.min(this.shown.length - 1, Math.max(0, at + step)));
  }

  focusRow(index) {
    if (!this.shown.length) return;
    this.list.show(index);
    this.list.rows.get(index)?.querySelector("a")?.focus({ preventScroll: true });
  }

  search() { this.filter.focus(); this.filter.select(); }

  drawRow(element, index) {
    const one = this.shown[index];
    if (!one) return;
    element.dataset.index = index;
    setAttribute(element, "aria-rowindex", index + 2);
    this.kind.draw(element.parts, one, this.several);
  }
}


function row(columns) {
  const name = h("a", { class: "name" }), place = h("div", { class: "sub" }), badge = h("span", { class: "badge" });
  const bar = h("i"), meter = h("div", { class: "meter", "aria-hidden": "true" }, bar), does = h("div", { class: "sub" });
  const cells = [h("div", { class: "cell", role: "cell" }, name, place), h("div", { class: "cell", role: "cell" }, badge),
    h("div", { class: "cell", role: "cell" }, does, meter), ...Array.from({ length: columns - 3 }, () => h("div", { class: "cell right", role: "cell" }))];
  const element = h("div", { class: "row", role: "row" }, cells);
  element.parts = { name, place, badge, bar, meter, does, cells };
  return element;
}

/** Draw a row. `entry` has the `name`, `place`, `address`, `state` and `tone` (colour of the state), the activity `does` with a tooltip `hint`,
 * the progress in `percent`, and the texts of the other `cells`. */
export function drawParts({ name, place, badge, bar, meter, does, cells }, entry) {
  setText(name, visible(entry.name));
  setAttribute(name, "href", entry.address);
  setText(place, visible(entry.place));
  setText(badge, visible(entry.state));
  setAttribute(badge, "class", `badge ${entry.tone}`);
  meter.hidden = entry.percent === null;
  if (entry.percent !== null) bar.style.width = `${entry.percent}%`;
  setAttribute(meter, "class", `meter ${entry.tone === "run" ? "" : entry.tone}`);
  setText(does, visible(entry.does));
  setAttribute(does, "title", visible(entry.hint).slice(0, 500));
  entry.cells.forEach((text, at) => setText(cells[3 + at], text));
}
