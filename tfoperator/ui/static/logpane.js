// Shows the log of a replica. It draws only the visible lines. If the end of the log is visible, the pane scrolls to each new line.

import { framed, h, setText } from "./dom.js";
import { count } from "./format.js";
import { LogBuffer, MARK } from "./logbuffer.js";
import { pieces, visible } from "./text.js";
import { VirtualList } from "./virtual.js";

export class LogPane {
  constructor(name, most, title = name) {
    this.name = name;
    this.buffer = new LogBuffer(most);
    this.waiting = []; // lines that arrived while the pane was paused
    this.lost = 0; // the number of further lines, for which `waiting` had no room
    this.run = null;
    this.only = false;
    this.now = -1; // the index of the hit to which the user has jumped, or -1
    this.following = true;
    this.said = h("span", { class: "muted num", role: "status" });
    this.list = new VirtualList({ height: 18, make: () => h("div", { class: "row" }), draw: (row, index) => this.draw(row, index),
      attributes: { class: "lines", tabindex: 0, role: "log", "aria-live": "off", "aria-label": `Log of ${visible(name)}` } });
    this.top = 0; // the scroll position at the last scroll event
    this.list.element.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.list.element.addEventListener("wheel", ({ deltaY }) => { if (deltaY < 0) this.leaveEnd(); }, { passive: true });
    this.list.element.addEventListener("keydown", (event) => this.jumpToEdge(event));
    this.element = h("section", { class: "panel pane", "data-replica": name }, h("header", {}, h("h2", {}, visible(title)), this.said), this.list.element);
    this.settle = framed(() => this.arrange());
  }

  close() {
    this.list.close();
    clearTimeout(this.looking);
  }

  clear() {
    this.buffer.clear();
    this.buffer.search(this.text ?? "");
    this.waiting = [];
    this.lost = 0;
    this.now = -1;
    this.run = null;
    this.settle();
  }

  /** Add lines of a run to the log. Before the first lines of a run, add a line that names the run, except for the very first run. */
  take({ pod, uid = "", restarts, lines = [], problem }) {
    const run = `${pod} ${uid} ${restarts}`;
    const found = [];
    if (run !== this.run) {
      const anew = this.run !== null && uid !== this.uid ? ", a new pod with the same name" : "";
      if (this.run !== null || restarts > 0) found.push(`${MARK}${pod}${anew}, run ${restarts + 1}`);
      Object.assign(this, { run, uid });
    }
    // A search skips the lines that the page itself has added. So replace MARK at the beginning of a program's line.
    for (const line of lines) found.push(line.startsWith(MARK) ? `\ufffd${line.slice(1)}` : line);
    if (problem) found.push(`${MARK}${problem}`);
    if (this.paused) {
      const room = Math.max(0, this.buffer.most - this.waiting.length);
      this.lost += Math.max(0, found.length - room);
      this.waiting.push(...found.slice(0, room));
      this.tell();
    } else {
      this.append(found);
      this.settle();
    }
  }

  pause(paused) {
    this.paused = paused;
    if (!paused) {
      const missing = this.lost ? [`${MARK}${count(this.lost)} lines that arrived during the pause were dropped`] : [];
      this.append([...this.waiting.splice(0), ...missing]);
      this.lost = 0;
    }
    this.settle();
  }

  // Add lines to the buffer. If the buffer drops old lines, the same lines and the same hit stay in view.
  append(lines) {
    const gone = this.buffer.add(lines);
    this.now = Math.max(-1, this.now - gone.hits);
    const rows = this.only ? gone.hits : gone.lines;
    if (rows && !this.following) this.list.element.scrollTop -= rows * this.list.height;
  }

  // While new lines arrive, the pane scrolls in nearly each frame. A smooth scroll upwards is at first still near the end. So a scroll
  // upwards never makes the pane follow the log.
  scrolled() {
    const top = this.list.element.scrollTop, up = top < this.top;
    this.top = top;
    if (!this.moving && !(up && this.list.atEnd)) this.following = this.list.atEnd;
  }

  leaveEnd() {
    if (this.list.element.scrollTop > 0) this.following = false;
  }

  search(text, only) {
    this.only = only && text !== "";
    if (text !== this.text) {
      this.text = text;
      this.buffer.search(text);
      this.now = -1;
    }
    this.settle();
  }

  /** Jump to the next hit (`step` 1) or to the previous hit (`step` -1). Return whether there are hits. */
  jump(step) {
    const { hits } = this.buffer;
    const shown = this.only ? hits[this.list.first] ?? 0 : this.list.first;
    // If the user presses Enter before the search has found the next hit, continue the search until it finds this hit.
    while ((!hits.length || hits.at(-1) < shown) && this.buffer.look());
    if (!hits.length) return false;
    if (this.now < 0) {
      const first = hits.findIndex((hit) => hit >= shown);
      this.now = step > 0 ? Math.max(0, first) : (first < 0 ? hits.length : first) - 1;
    } else this.now += step;
    this.now = (this.now + hits.length) % hits.length;
    this.following = false;
    this.list.show(this.only ? this.now : hits[this.now], "middle");
    this.list.refresh();
    this.tell();
    return true;
  }

  /**
   * Jump to the first line (key Home) or to the last line (key End). A browser would scroll smoothly, and on a busy machine the
   * scrolling sometimes ends in the middle of a long log. After ArrowUp or PageUp, the pane no longer follows new lines.
   */
  jumpToEdge(event) {
    if (["ArrowUp", "PageUp"].includes(event.key)) this.leaveEnd();
    if (!["Home", "End"].includes(event.key) || event.shiftKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    if (event.key === "Home") this.list.show(0);
    else this.list.toEnd();
    this.following = this.list.atEnd;
  }

  arrange() {
    const more = this.buffer.look();
    clearTimeout(this.looking);
    if (more) this.looking = setTimeout(() => this.arrange(), 0);
    const { hits, lines } = this.buffer;
    this.list.resize(this.only ? hits.length : lines.length);
    if (this.following && !this.paused) {
      this.moving = true;
      this.list.toEnd();
      requestAnimationFrame(() => { this.moving = false; });
    }
    this.tell();
  }

  tell() {
    const { hits, lines, dropped } = this.buffer;
    const parts = [];
    if (this.text) parts.push(hits.length ? `${this.now >= 0 ? `${count(this.now + 1)} of ` : ""}${count(hits.length)} found` : "no line matches");
    parts.push(`${count(lines.length)} lines${dropped ? `, ${count(dropped)} earlier lines dropped` : ""}`);
    if (this.paused) parts.push(`paused, ${count(this.waiting.length + this.lost)} new lines`);
    setText(this.said, parts.join(" \u00b7 "));
  }

  draw(row, index) {
    const at = this.only ? this.buffer.hits[index] : index;
    const line = this.buffer.lines[at];
    if (line === undefined) { row.replaceChildren(); return; }
    if (line.startsWith(MARK)) {
      row.className = "row mark";
      row.textContent = `\u2500\u2500 ${visible(line.slice(1))}`;
      return;
    }
    const found = this.text ? this.buffer.hits[this.now] === at : false;
    row.className = found ? "row now" : "row";
    const all = pieces(line);
    if (all.length === 1 && !all[0].classes && !this.text) { row.textContent = all[0].text; return; }
    row.replaceChildren(...all.flatMap(({ text, classes }) => marked(text, this.text).map((part) => piece(part, classes))));
  }
}

function piece(part, classes) {
  if (part.found) return h("mark", { class: classes || null }, part.text);
  return classes ? h("span", { class: classes }, part.text) : document.createTextNode(part.text);
}

// Split a text into parts that match the search, and other parts. A match that contains a change of colour is not marked, but a search finds its line.
function marked(text, wanted) {
  if (!wanted) return [{ text }];
  const found = [], lower = text.toLowerCase();
  if (lower.length !== text.length) return [{ text }];
  let from = 0;
  for (let at = lower.indexOf(wanted); at >= 0; at = lower.indexOf(wanted, from)) {
    if (at > from) found.push({ text: text.slice(from, at) });
    found.push({ text: text.slice(at, at + wanted.length), found: true });
    from = at + wanted.length;
  }
  if (from < text.length) found.push({ text: text.slice(from) });
  return found;
}
