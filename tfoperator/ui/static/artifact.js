// Shows artifacts: the inputs and outputs of a step, and the page of an artifact with the artifact's lineage.

import { get, Unauthorized } from "./api.js";
import { h, setText } from "./dom.js";
import { clock } from "./format.js";
import { addressOf } from "./runs.js";
import { visible } from "./text.js";

const INDENTED = 8; // a lineage is a tree: deeper levels of the tree are not indented any further

const STATES = { PENDING: "not made yet", ABANDONED: "was never made", DELETED: "was removed" };

/** Show the artifacts of a step's inputs or outputs, by name. `own` ({run, step}) is this step: it is not shown as the maker of artifacts. */
export function sides(title, side, own) {
  const names = Object.entries(side);
  return h("section", { "aria-label": title }, h("h3", {}, title), names.length ? h("dl", { class: "sides" }, names.map(([name, artifacts]) =>
    [h("dt", {}, visible(name)), h("dd", {}, artifacts.length ? artifacts.map((one) => artifact(one, own)) : "nothing")])) : h("p", { class: "muted" }, "None."));
}

function artifact(one, own) {
  const { maker } = one;
  return h("div", { class: "artifact" }, link(one), " ", h("span", { class: "mono" }, visible(one.uri)), STATES[one.state] ? ` (${STATES[one.state]})` : "",
    properties(one.properties), maker && (maker.run !== own.run || maker.step !== own.step) ? h("p", { class: "muted" }, "made by ", stepLink(maker)) : null);
}

const link = (one) => h("a", { href: `#/artifacts/${one.id}` }, visible(`${one.type} ${one.id}`));

/** Return a link to a step. If the run of the step was removed, return only the name of the step. */
export function stepLink({ run, step }) {
  return run ? h("a", { href: addressOf(run, step) }, visible(`${step} of run ${run}`)) : h("span", {}, visible(`${step} of a run that was removed`));
}

/** Return a list of names and values, or null if there are no values. */
export function properties(values) {
  const all = Object.entries(values ?? {});
  return all.length ? h("ul", { class: "properties" }, all.map(([name, value]) => h("li", {}, h("span", { class: "muted" }, visible(name)), " ", visible(value)))) : null;
}

export class ArtifactView {
  constructor({ id, setState }) {
    this.up = "#/runs";
    this.heading = h("h1", { tabindex: -1 }, `Artifact ${id}`);
    this.said = h("p", { class: "muted", role: "status" }, "Loading \u2026");
    this.content = h("div", { class: "stack about" });
    this.element = h("div", {}, h("a", { class: "back", href: this.up }, "\u2190 All runs"), h("div", { class: "title" }, this.heading), this.said, this.content);
    this.load(id, setState);
  }

  close() { this.closed = true; }

  async load(id, setState) {
    try {
      const found = await get("/api/artifact", { id });
      if (this.closed) return;
      setState("live");
      this.said.hidden = true;
      this.draw(found);
    } catch (error) {
      if (this.closed) return;
      if (error instanceof Unauthorized) { setState("unauthorized"); return; }
      setText(this.said, visible(error.message));
      this.said.setAttribute("role", "alert");
    }
  }

  draw({ artifact: one, origin, use }) {
    setText(this.heading, visible(`${one.type} ${one.id}`));
    const facts = [["URI", one.uri], ["State", STATES[one.state] ?? "exists"], ["Recorded", one.created ? clock(one.created) : ""]];
    this.content.replaceChildren(h("dl", { class: "facts" }, facts.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, visible(value))))),
      properties(one.properties) ? panel("Properties", properties(one.properties)) : "",
      panel("Made from", tree(origin, "made")), panel("Used for", tree(use, "read")));
  }
}

const panel = (title, content) => h("section", { class: "panel", "aria-label": title }, h("header", {}, h("h2", {}, title)), h("div", { class: "body" }, content));

// Show an artifact, the steps that made or read the artifact, and, indented, the other artifacts of these steps.
function tree(one, verb, depth = 0) {
  const { artifact: it, executions, next, repeated, cut } = one;
  return h("ul", { class: depth && depth < INDENTED ? "lineage inner" : "lineage" }, h("li", {}, link(it), " ", h("span", { class: "mono" }, visible(it.uri)),
    repeated ? " (see above)" : cut ? " (not all artifacts are shown: the tree is too large)" : executions.length || depth ? "" : h("p", { class: "muted" }, `The records contain no pipeline step that has ${verb} this artifact.`),
    executions.map((by) => h("div", {}, h("span", { class: "muted" }, "by "), stepLink(by), properties(by.parameters))), next.map((below) => tree(below, verb, depth + 1))));
}
