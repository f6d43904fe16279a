// Shows all replicas of a job. Each replica has a lane that shows its states over time. All lanes have the same time scale.

import { h, s, setAttribute, setText } from "./dom.js";
import { clock, count, duration, tone } from "./format.js";
import { visible } from "./text.js";
import { VirtualList } from "./virtual.js";

const W = 1000; // the width of a lane, in SVG units
const KEY = [["pending", "pending or waiting"], ["running", "running"], ["succeeded", "succeeded"], ["failed", "failed"], ["stopped", "stopped"]];
const ENDS = new Set(["succeeded", "failed", "stopped"]), MARK = 10; // the width of the mark at the end of a run, in SVG units
const HIGH = 40, MOST = 12; // the height of a row in pixels, and the largest number of visible rows

export class ReplicasPanel {
  constructor() {
    this.replicas = [];
    this.picked = null;
    this.number = h("span", { class: "muted num" });
    this.axis = s("svg", { class: "lane axis", "aria-hidden": "true" });
    this.list = new VirtualList({ height: HIGH, make: () => this.make(), draw: (row, index) => this.draw(row, index),
      attributes: { role: "rowgroup", onkeydown: (event) => this.key(event), tabindex: -1 } });
    this.detail = h("div", { class: "body", role: "region", "aria-label": "Runs of the selected replica", hidden: true });
    this.table = h("div", { role: "table", "aria-label": "Replicas" }, h("div", { class: "row head", role: "row" },
      h("div", { role: "columnheader" }, "Replica"), h("div", { role: "columnheader" }, "State"),
      h("div", { role: "columnheader", "aria-label": "States over time" }, this.axis), h("div", { role: "columnheader", class: "right" }, "Restarts")), this.list.element);
    this.element = h("section", { class: "panel replicas" }, h("header", {}, h("h2", {}, "Replicas"), this.number,
      h("div", { class: "key" }, KEY.map(([state, label]) => h("span", {}, s("svg", { viewBox: "0 0 12 12", "aria-hidden": "true" },
        s("rect", { class: `span-${state}`, width: 12, height: 12, rx: 3 })), label)))), this.table, this.detail);
  }

  close() { this.list.close(); }

  update(job, replicas) {
    this.replicas = replicas;
    setText(this.number, replicas.length ? count(replicas.length) : "");
    const starts = replicas.flatMap((one) => one.spans.map((span) => span.start));
    this.from = Math.min(job.created ?? Infinity, ...starts.slice(0, 10_000));
    const ends = replicas.flatMap((one) => one.spans.map((span) => span.end ?? (job.completed && one.state !== "Running" ? job.completed : Date.now() / 1000)));
    const now = Date.now() / 1000, phases = job.time?.spans ?? []; // a job without pods has phases, too
    this.to = Math.max(this.from + 1, ...ends.slice(0, 10_000), ...phases.map((span) => Math.min(span.end ?? now, now)));
    this.drawAxis();
    this.list.element.style.height = `${Math.max(1, Math.min(replicas.length, MOST)) * HIGH}px`;
    setAttribute(this.table, "aria-rowcount", replicas.length + 1);
    this.list.resize(replicas.length);
    this.drawDetail();
  }

  at(time) { return ((time - this.from) / (this.to - this.from)) * W; }

  drawAxis() {
    const wide = this.axis.getBoundingClientRect().width || 600;
    const long = this.to - this.from;
    const said = `${wide} ${Math.round(long)}`;
    if (said === this.axisSaid) return;
    this.axisSaid = said;
    const steps = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400, 604800];
    const step = steps.find((one) => (one / long) * wide > 70) ?? steps.at(-1);
    const marks = [];
    for (let t = 0; t <= long && marks.length < 30; t += step) marks.push(t);
    setAttribute(this.axis, "viewBox", `0 0 ${wide} 18`);
    this.axis.replaceChildren(...marks.map((t) => s("text", { x: (t / long) * wide, y: 13, "text-anchor": t === 0 ? "start" : (t / long) > 0.97 ? "end" : "middle" },
      t === 0 ? clock(this.from) : `+${duration(t)}`)));
  }

  make() {
    const pick = h("button", { class: "pick", type: "button", onclick: () => this.pick(row.replica) });
    const badge = h("span", { class: "badge" }), lane = s("svg", { class: "lane", viewBox: `0 0 ${W} 22`, preserveAspectRatio: "none", role: "img" });
    const restarts = h("div", { role: "cell", class: "right" });
    const row = h("div", { class: "row", role: "row" }, h("div", { role: "cell", class: "cell" }, pick), h("div", { role: "cell", class: "cell" }, badge),
      h("div", { role: "cell" }, lane), restarts);
    row.parts = { pick, badge, lane, restarts };
    return row;
  }

  draw(row, index) {
    const replica = this.replicas[index];
    if (!replica) return;
    const { pick, badge, lane, restarts } = row.parts;
    row.replica = replica.name;
    row.dataset.index = index;
    setText(pick, visible(replica.name));
    setText(badge, visible(replica.state));
    setAttribute(badge, "class", `badge ${tone(replica.state)}`);
    setAttribute(badge, "title", visible(replica.why ?? ""));
    setText(restarts, String(replica.restarts ?? 0));
    setAttribute(pick, "aria-expanded", String(this.picked === replica.name));
    lane.replaceChildren(...replica.spans.map((span) => this.span(span)));
    setAttribute(lane, "aria-label", replica.spans.map(words).join("; ") || "no pod yet");
  }

  // Draw a span. A run has the colour of a running replica. A mark at the end of the run shows how the run ended.
  span(span) {
    const x = this.at(span.start), width = Math.max(2, this.at(span.end ?? this.to) - x);
    const [y, height] = span.state === "pending" || span.state === "waiting" ? [8, 6] : [4, 14];
    const piece = (state, from, wide) => s("rect", { class: `span-${state}`, x: from.toFixed(1), width: wide.toFixed(1), y, height, rx: 2 });
    const mark = ENDS.has(span.state) ? Math.min(MARK, width) : width;
    return s("g", {}, s("title", {}, visible(words(span))), ...(width > mark ? [piece("running", x, width - mark)] : []), piece(span.state, x + width - mark, mark));
  }

  pick(name) {
    this.picked = this.picked === name ? null : name;
    this.detailSaid = null;
    this.list.refresh();
    this.drawDetail();
  }

  drawDetail() {
    const replica = this.replicas.find((one) => one.name === this.picked);
    this.detail.hidden = !replica;
    const said = JSON.stringify(replica ?? null);
    if (!replica || said === this.detailSaid) return;
    this.detailSaid = said;
    const facts = [["Pod", replica.pod], ["Node", replica.node], ["Image", replica.image], ["Limits", quantities(replica.limits)],
      ["Requests", quantities(replica.requests)], ["Reason", replica.why]].filter(([, value]) => value);
    this.detail.replaceChildren(h("h2", {}, visible(replica.name)), h("dl", { class: "facts" }, facts.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, visible(value))))),
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Runs" }, h("table", {}, h("thead", {}, h("tr", {}, ["Start", "Duration", "State", "Reason", "Pod"].map((one) => h("th", { scope: "col" }, one)))),
        h("tbody", {}, replica.spans.map((span) => h("tr", {}, h("td", { class: "num" }, clock(span.start)), h("td", {}, duration((span.end ?? Date.now() / 1000) - span.start)),
          h("td", {}, span.state), h("td", {}, visible(span.why)), h("td", {}, visible(span.pod))))))));
  }

  key(event) {
    const at = Number(document.activeElement?.closest?.(".row")?.dataset.index ?? -1);
    const step = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined || at < 0) return;
    event.preventDefault();
    const to = Math.min(this.replicas.length - 1, Math.max(0, at + step));
    this.list.show(to);
    this.list.rows.get(to)?.querySelector("button")?.focus({ preventScroll: true });
  }
}

const words = (span) => `${span.state} from ${clock(span.start)} for ${duration((span.end ?? Date.now() / 1000) - span.start)}${span.why ? `, ${visible(span.why)}` : ""}`;

const quantities = (all) => Object.entries(all ?? {}).map(([name, value]) => `${name} ${value}`).join(", ");
