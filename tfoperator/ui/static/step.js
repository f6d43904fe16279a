// The details of a step of a pipeline run: the result, the inputs and outputs, and the log.

import { properties, sides, stepLink } from "./artifact.js";
import { h, setAttribute, setText } from "./dom.js";
import { capital, clock, count, duration, tone } from "./format.js";
import { LogPane } from "./logpane.js";
import { took } from "./runs.js";
import { visible } from "./text.js";

const LINES = 100_000; // the page keeps at most this many lines of the log

export class StepPanel {
  constructor(name) {
    this.name = name;
    this.heading = h("h2", { tabindex: -1 }, visible(name));
    this.badge = h("span", { class: "badge" });
    this.detail = h("div", { class: "body stack" });
    this.pane = new LogPane(name, LINES, "Log");
    this.box = h("input", { class: "field", type: "search", placeholder: "Search the log  (key: /)", "aria-label": "Search the log", oninput: () => this.pane.search(this.box.value.toLowerCase(), false),
      onkeydown: (event) => { if (event.key === "Enter") { event.preventDefault(); this.pane.jump(event.shiftKey ? -1 : 1); } } });
    this.tools = h("div", { class: "tools" }, this.box);
    this.element = h("section", { class: "stack step", "aria-label": visible(`Step ${name}`) }, h("div", { class: "panel" }, h("header", {}, this.heading, this.badge), this.detail),
      h("div", { class: "step-log" }, this.tools, this.pane.element));
  }

  close() { this.pane.close(); }

  clear() { this.pane.clear(); }

  log({ step, lines, afresh, problem }) {
    if (step !== this.name) return;
    if (afresh) this.pane.clear();
    this.pane.take({ pod: step, restarts: 0, lines, problem });
  }

  focus() { this.heading.focus({ preventScroll: true }); this.element.scrollIntoView({ block: "nearest" }); }

  search() { this.box.focus(); this.box.select(); }

  missing() { this.detail.replaceChildren(h("p", { class: "notice", role: "alert" }, "This run has no step with this name.")); }

  update(step, run) {
    const state = capital(step.state);
    setText(this.badge, visible(state));
    setAttribute(this.badge, "class", `badge ${tone(state)}`);
    this.tools.hidden = this.pane.element.hidden = ["cached", "not run", "waiting"].includes(step.state);
    const own = { run, step: step.name };
    const cached = step.state === "cached";
    const facts = [["Began", step.began ? clock(step.began) : ""], ["Duration", cached ? "" : duration(took(step))], ["Attempts", step.attempts ? count(step.attempts) : ""], ["Platform", step.platform],
      [step.platform === "In process" ? "Class" : "Container", step.job ? "" : step.container], ["Image", step.image], ["Runs after", step.after.join(", ")]].filter(([, value]) => value && value !== "\u2013");
    const said = JSON.stringify([facts, step]);
    if (said === this.said) return;
    this.said = said;
    const list = h("dl", { class: "facts" }, facts.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, visible(value)))));
    if (step.job) list.append(h("div", {}, h("dt", {}, "Job"), h("dd", {}, h("a", { href: `#/jobs/${encodeURIComponent(step.job.namespace)}/${encodeURIComponent(step.job.name)}` }, visible(step.job.name)))));
    this.detail.replaceChildren(...[step.message ? h("p", { class: `why ${tone(state)}` }, visible(step.message)) : null, list,
      cached && step.usedFrom ? h("p", {}, "The outputs of this step were made earlier by ", stepLink(step.usedFrom), ".") : null,
      properties(step.parameters), h("div", { class: "two" }, sides("Inputs", step.inputs, own), sides("Outputs", step.outputs, own))].filter(Boolean));
  }
}
