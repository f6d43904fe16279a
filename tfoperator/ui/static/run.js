// The page of a pipeline run: the graph of the steps, the list of the steps, and the details and the log of the selected step.

import { Stream } from "./api.js";
import { framed, h, setAttribute, setText } from "./dom.js";
import { ago, capital, clock, count, duration, tone } from "./format.js";
import { graph } from "./graph.js";
import { properties } from "./artifact.js";
import { addressOf, took } from "./runs.js";
import { StepPanel } from "./step.js";
import { visible } from "./text.js";

const TAIL = 100_000; // the page requests at most this many of the existing lines of a step's log
const URGENT = ["failed", "interrupted", "running"]; // the states of the step that the page selects at first

export class RunView {
  constructor({ id, step, setState }) {
    Object.assign(this, { id, setState, step: null, up: "#/runs", rows: new Map() });
    this.data = { run: undefined, steps: [] };
    this.draw = framed(() => this.update());
    this.build();
    this.ticking = setInterval(this.draw, 1000);
    this.select(step);
  }

  close() {
    this.stream.close();
    this.panel?.close();
    clearInterval(this.ticking);
  }

  build() {
    this.heading = h("h1", { tabindex: -1 }, "\u2026");
    this.badge = h("span", { class: "badge" });
    this.notice = h("div");
    this.why = h("p", { class: "why", role: "status", hidden: true });
    this.facts = h("dl", { class: "facts" });
    this.parameters = h("div");
    this.picture = h("div", { class: "picture-place" });
    this.body = h("tbody", { onkeydown: (event) => this.key(event) });
    this.place = h("div");
    const columns = ["Step", "State", "Duration", "Attempts", "Platform"];
    this.content = h("div", { class: "stack run", hidden: true },
      h("section", { class: "panel" }, h("header", {}, h("h2", {}, "Graph")), this.picture),
      h("section", { class: "panel" }, h("header", {}, h("h2", {}, "Steps"), this.number = h("span", { class: "muted num" })),
        h("div", { class: "body scroll steps", role: "region", "aria-label": "Steps", tabindex: 0 }, h("table", {}, h("thead", {}, h("tr", {}, columns.map((one, at) => h("th", { scope: "col", class: at === 2 || at === 3 ? "num" : null }, one)))), this.body))),
      this.place);
    this.element = h("div", {}, h("a", { class: "back", href: this.up }, "\u2190 All runs"),
      h("div", { class: "title" }, this.heading, this.badge, h("span", { class: "muted" }, visible(this.id))),
      this.notice, this.why, this.facts, this.parameters, this.content);
  }

  /** Show the step with this name. Without a name, show the first step with a state in URGENT, or the last step. */
  select(step) {
    const asked = step !== undefined;
    const name = step ?? this.first();
    if (asked && name === this.step) { this.panel?.focus(); return; }
    if (!this.stream || name !== this.step) {
      this.step = name;
      this.panel?.close();
      this.panel = name === null ? null : new StepPanel(name);
      this.place.replaceChildren(this.panel?.element ?? "");
      this.connect();
    }
    this.drawn = null;
    this.draw();
    if (asked && this.data.run) { this.update(); this.panel?.focus(); }
  }

  first() {
    const { steps } = this.data;
    for (const state of URGENT) {
      const found = steps.find((one) => one.state === state);
      if (found) return found.name;
    }
    return steps.at(-1)?.name ?? null;
  }

  connect() {
    this.stream?.close();
    this.stream = new Stream("/api/run", { id: this.id, ...(this.step === null ? {} : { step: this.step, tail: TAIL }) }, {
      opened: () => this.panel?.clear(),
      message: (message) => this.take(message),
      state: this.setState,
    });
  }

  take(message) {
    if (message.log) { this.panel?.log(message.log); return; }
    if ("run" in message) this.data.run = message.run;
    if ("steps" in message) {
      this.data.steps = message.steps;
      if (this.step === null && message.steps.length) { this.select(); return; }
    }
    if ("problems" in message) this.problems = message.problems;
    this.draw();
  }

  update() {
    const { run, steps } = this.data;
    this.drawNotice();
    if (!run) return;
    const state = capital(run.state);
    setText(this.heading, visible(run.pipeline));
    document.title = `${visible(run.pipeline)} \u00b7 tfoperator`;
    setText(this.badge, visible(state));
    setAttribute(this.badge, "class", `badge ${tone(state)}`);
    this.why.hidden = !run.message;
    setText(this.why, visible(run.message));
    setAttribute(this.why, "class", `why ${tone(state)}`);
    this.drawFacts(run);
    this.content.hidden = false;
    setText(this.number, `${count(run.done)} of ${count(run.steps)} done`);
    this.drawGraph(run, steps);
    this.drawSteps(steps);
    const chosen = steps.find((one) => one.name === this.step);
    if (chosen) this.panel?.update(chosen, run.key);
    else if (this.panel && steps.length) this.panel.missing();
  }

  drawNotice() {
    const reasons = Object.values(this.problems ?? {}).map(visible);
    const text = this.data.run === null ? "This run does not exist, or it was removed." : reasons.length ? `This page may be out of date: ${reasons.join(", ")}` : "";
    if (text !== (this.noticed ?? "")) { this.noticed = text; this.notice.replaceChildren(text ? h("p", { class: "notice", role: "alert" }, text) : ""); }
  }

  drawFacts(run) {
    const facts = [["Steps", `${count(run.done)}/${count(run.steps)}`], [run.ended ? "Duration" : "Running for", duration(took(run))], ["Began", clock(run.began)], ["Age", ago(run.began)],
      ["Location of the outputs", run.root], ["File", run.source]].filter(([, value]) => value);
    const said = JSON.stringify([facts, run.parameters]);
    if (said === this.factsSaid) return;
    this.factsSaid = said;
    this.facts.replaceChildren(...facts.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, visible(value)))));
    const shown = properties(run.parameters);
    this.parameters.replaceChildren(shown ? h("section", { "aria-label": "Parameters" }, shown) : "");
  }

  drawGraph(run, steps) {
    const notes = new Map(steps.map((step) => [step.name, { state: step.state, note: note(step) }]));
    const said = JSON.stringify([run.picture, [...notes], this.step]);
    if (said === this.drawn) return;
    this.drawn = said;
    const focused = this.picture.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const before = this.picture.firstChild;
    this.picture.replaceChildren(run.picture ? graph(run, notes, this.step) : h("p", { class: "body muted" }, "The pipeline has too many steps for a graph."));
    if (before?.scrollLeft) this.picture.firstChild.scrollLeft = before.scrollLeft;
    if (focused) [...this.picture.querySelectorAll("a")].find((one) => one.getAttribute("href") === focused)?.focus({ preventScroll: true });
  }

  drawSteps(steps) {
    for (const step of steps) {
      let row = this.rows.get(step.name);
      if (!row) {
        const link = h("a", { href: addressOf(this.id, step.name) }, visible(step.name)), badge = h("span");
        const cells = [h("td", { class: "num" }), h("td", { class: "num" }), h("td")];
        row = h("tr", {}, h("td", {}, link), h("td", {}, badge), cells);
        row.parts = { link, badge, cells };
        this.rows.set(step.name, row);
        this.body.append(row);
      }
      const { link, badge, cells } = row.parts, state = capital(step.state);
      setAttribute(link, "aria-current", step.name === this.step ? "step" : null);
      setText(badge, visible(state));
      setAttribute(badge, "class", `badge ${tone(state)}`);
      setText(cells[0], step.state === "cached" ? "\u2013" : duration(took(step)));
      setText(cells[1], step.attempts ? count(step.attempts) : "\u2013");
      setText(cells[2], step.state === "cached" ? "outputs from the cache" : visible(step.platform));
    }
  }

  key(event) {
    const links = [...this.body.querySelectorAll("td:first-child a")], at = links.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: links.length - 1 }[event.key];
    if (to === undefined || at < 0) return;
    event.preventDefault();
    links[Math.min(links.length - 1, Math.max(0, to))].focus();
  }

  search() { this.panel?.search(); }
}

function note(step) {
  const seconds = step.state === "cached" ? null : took(step);
  return [step.state, seconds === null ? "" : duration(seconds), step.attempts > 1 ? `attempt ${count(step.attempts)}` : ""].filter(Boolean).join(", ");
}
