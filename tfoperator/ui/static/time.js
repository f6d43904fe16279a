// Shows the phases of a job over time: a lane with the same time scale as the lanes of the replicas, and the total time of each phase.
// The list of total times is also the legend of the lane's colours.

import { h, setAttribute, setText } from "./dom.js";
import { capital, clock, count, duration, percents, tone } from "./format.js";
import { Resizes } from "./resizes.js";
import { visible } from "./text.js";

const GIB = 2 ** 30;
const MIN_SECONDS = 10; // if an ended job has taken fewer seconds, its time is not shown, as in `tfoperator describe`
const LETTER = 7.5; // the width of a letter in the lane, in pixels

export class TimePanel {
  constructor() {
    this.said = h("span", { class: "muted" });
    this.badge = h("span", { class: "badge" });
    this.lane = h("div", { class: "phases", role: "img" });
    this.share = h("div", { class: "right" });
    this.sums = h("dl", { class: "facts" });
    this.held = h("dl", { class: "facts" });
    this.note = h("p", { class: "muted", hidden: true }, "A thin bar shows only the total time of a phase. The start and the end of the phase are unknown.");
    this.resizes = new Resizes();
    this.row = h("div", { class: "row" }, h("strong", {}, "Job"), h("div", { class: "cell" }, this.badge), this.lane, this.share);
    this.element = h("section", { class: "panel replicas time", "aria-label": "Time", hidden: true }, h("header", {}, h("h2", {}, "Time"), this.said), this.row,
      h("div", { class: "body" }, this.note, this.sums, this.held));
  }

  /** Show the time of a job. `scale.from` and `scale.to` are the times at which the lane begins and ends. */
  update(time, scale) {
    const now = Date.now() / 1000, { phase = "", source = "" } = time?.usage ?? {};
    const seconds = time ? sums(time.usage, now) : {}, total = Object.values(seconds).reduce((all, one) => all + one, 0);
    this.element.hidden = !total || (!phase && total < MIN_SECONDS && !time.resizes);
    if (this.element.hidden) return;
    const whole = percents(seconds, "training"), trained = `${whole.training}%`;
    const share = (name) => (name === "training" ? trained : `${whole[name] || "<1"}%`);
    setText(this.said, `${trained} of the time was training (from ${source === "Reports" ? "progress reports" : "the states of pods"})`);
    setText(this.share, trained);
    setText(this.badge, capital(visible(phase)) || "Ended");
    setAttribute(this.badge, "class", `badge ${phase === "training" ? "run" : phase && tone(capital(phase))}`);
    const wide = this.lane.clientWidth || 600;
    this.lane.replaceChildren(...time.spans.map((span) => piece(span, scale, wide)));
    setAttribute(this.lane, "aria-label", time.spans.map((span) => words(span, now)).join("; "));
    this.note.hidden = !time.spans.some((span) => span.rough);
    const longest = Object.entries(seconds).sort(([a, x], [b, y]) => (b === "training") - (a === "training") || y - x);
    fill(this.sums, longest.filter(([, spent]) => spent).map(([name, spent]) => [name, `${duration(spent)} (${share(name)})`]), true);
    fill(this.held, resources(time.usage, now));
    this.resizes.update(time, scale, this.row, this.held);
  }
}

// The sums in the status end at the time `since`. After this time, the job has always been in its current phase.
function sums({ seconds, phase = "", since }, now) {
  return { ...seconds, ...(Object.hasOwn(seconds, phase) && { [phase]: seconds[phase] + passed(since, now) }) };
}

function resources({ resources = {}, resourcesSince, phase }, now) {
  const more = passed(resourcesSince, now);
  return Object.entries(resources).slice(0, 16).map(([name, { inUse = 0, requestedSeconds = 0, trainedSeconds = 0 }]) => {
    const hours = (seconds) => figure(seconds / 3600 / (name === "memory" ? GIB : 1));
    const trained = trainedSeconds + (phase === "training" ? inUse * more : 0);
    const unit = name === "memory" ? "GiB hours" : name === "cpu" ? "core hours" : "hours";
    return [`${name} requested \u00d7 time, ${unit}`, `${hours(requestedSeconds + inUse * more)} (${hours(trained)} during the training)`];
  });
}

const passed = (since, now) => Math.max(0, Math.floor(now - Date.parse(since) / 1000)) || 0;

const figure = (value) => (value >= 100 ? count(Math.round(value)) : String(Number(value.toPrecision(3))));

function fill(list, facts, swatches = false) {
  const said = JSON.stringify(facts);
  if (list.dataset.said === said) return;
  list.dataset.said = said;
  list.replaceChildren(...facts.map(([term, value]) => h("div", {}, h("dt", {}, swatches && h("i", { class: `phase phase-${term}` }), visible(term)), h("dd", {}, value))));
}

function piece(span, { from, to }, wide) {
  const at = (time) => Math.min(100, Math.max(0, (100 * (time - from)) / (to - from)));
  const begin = at(span.start), width = at(span.end ?? to) - begin;
  const fits = !span.rough && (width / 100) * wide > span.phase.length * LETTER + 8;
  const made = h("span", { class: `phase phase-${span.phase}${span.rough ? " rough" : ""}`, title: words(span, to) }, fits ? span.phase : "");
  made.style.left = `${begin}%`;
  made.style.width = `${width}%`;
  return made;
}

const words = ({ phase, start, end, rough }, now) => (rough ? `${phase} for ${duration(end - start)} in total` : `${phase} from ${clock(start)} for ${duration((end ?? now) - start)}`);
