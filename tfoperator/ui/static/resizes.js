// The changes of the number of workers of an elastic job: a lane with a mark at each change, and a list with their costs.

import { h, setAttribute, setText } from "./dom.js";
import { capital, clock, count, duration } from "./format.js";
import { visible } from "./text.js";

const LETTER = 7.5; // pixels of a letter in the lane
const LEAST = 3; // pixels of the shortest mark

export class Resizes {
  constructor() {
    this.number = h("div", { class: "cell muted num" });
    this.lane = h("div", { class: "phases sizes", role: "img" });
    this.row = h("div", { class: "row" }, h("strong", {}, "Workers"), this.number, this.lane, h("div", { class: "right" }));
    this.heading = h("h3");
    this.changes = h("ol", { class: "feed" });
    this.list = h("div", {}, this.heading, this.changes);
  }

  /** Show the changes in `time`: the lane below the element `lane`, the list below `sums`. Without changes, show nothing. */
  update(time, scale, lane, sums) {
    const marks = time.resizes ?? [];
    if (!marks.length) { this.row.remove(); this.list.remove(); return; }
    if (!this.row.isConnected) { lane.after(this.row); sums.after(this.list); }
    const now = Date.now() / 1000, goesOn = Boolean(time.usage.phase);
    const texts = marks.map((mark) => words(mark, now, goesOn));
    setText(this.number, `${count(time.changes)} ${time.changes === 1 ? "change" : "changes"}`);
    this.lane.replaceChildren(...placed(marks, scale, this.lane.clientWidth || 600).flatMap((place) => drawn(place, texts[place.index])));
    setAttribute(this.lane, "aria-label", texts.join("; "));
    this.drawList(marks, time.changes, now, goesOn);
  }

  drawList(marks, changes, now, goesOn) {
    const all = changes > marks.length ? `the last ${count(marks.length)} of ${count(changes)}, the newest first` : marks.length > 1 && "the newest first";
    setText(this.heading, `Changes of the number of workers${all ? ` (${all})` : ""}`);
    const items = [...marks].reverse().map((mark) => [sizes(mark), mark.time === null ? "" : clock(mark.time), costs(mark, now, goesOn), visible(mark.why ?? "")]);
    const said = JSON.stringify(items);
    if (said === this.said) return;
    this.said = said;
    this.changes.replaceChildren(...items.map(([size, when, cost, why]) => h("li", {}, h("strong", {}, `${size}: ${cost}`),
      h("span", { class: "when num" }, when), why && h("p", {}, capital(why)))));
  }
}

/** Where the marks are in a lane of `wide` pixels: begin and width in percent, and a label if there is room before the next mark. */
export function placed(marks, { from, to }, wide) {
  const at = (time) => Math.min(100, Math.max(0, (100 * (time - from)) / (to - from)));
  const timed = marks.map((mark, index) => ({ mark, index })).filter(({ mark }) => mark.time !== null).sort((a, b) => a.mark.time - b.mark.time);
  return timed.map(({ mark, index }, number) => {
    const next = timed[number + 1]?.mark.time ?? to, begin = at(mark.time), least = (100 * LEAST) / wide;
    const width = Math.max(least, at(Math.min(mark.end ?? to, next)) - begin), left = Math.min(begin, 100 - least);
    const room = ((at(next) - left - width) / 100) * wide, label = `${mark.before} to ${mark.workers}`;
    return { index, left, width, label: room > label.length * LETTER + 8 ? label : "" };
  });
}

function drawn({ left, width, label }, text) {
  const mark = h("span", { class: "resize", title: text });
  mark.style.left = `${left}%`;
  mark.style.width = `${width}%`;
  if (!label) return [mark];
  const size = h("span", { class: "size", title: text }, label);
  size.style.left = `${left + width}%`;
  return [mark, size];
}

const sizes = ({ before, workers }) => `${count(before)} to ${count(workers)} ${workers === 1 ? "worker" : "workers"}`;

// The seconds of a change after which the job does not train yet are counted until now.
const costs = ({ cost, time, end }, now, goesOn) => (goesOn && time !== null && end === undefined ? `${cost} (${duration(now - time)} so far)` : cost);

const words = (mark, now, goesOn) => `${sizes(mark)}${mark.time === null ? "" : ` at ${clock(mark.time)}`}: ${costs(mark, now, goesOn)}${mark.why ? `, because ${visible(mark.why)}` : ""}`;
