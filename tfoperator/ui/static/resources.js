// The tab with the CPU, memory and other resources that the replicas use: over time, and in a table with the replicas' limits.

import { chart } from "./chart.js";
import { h } from "./dom.js";
import { amount, inBytes, quantity } from "./format.js";
import { visible } from "./text.js";

const LINES = 8;
const FIRST = ["cpu", "memory"];
const NAMES = { cpu: "CPU (cores)", memory: "Memory" };

export class ResourcesTab {
  constructor() {
    this.element = h("div", { class: "stack" });
  }

  update({ job, replicas, usage, usageProblem }) {
    if (!job) return;
    const said = JSON.stringify([[...usage].map(([name, samples]) => [name, samples.length, samples.at(-1)]), usageProblem]);
    if (said === this.said) return;
    this.said = said;
    if (!usage.size) {
      const hint = usageProblem || (job.completed ? "The job has ended. This page measures the usage of a job only while the job runs, and only after the page was opened." : "The first values appear some seconds after the start of a replica.");
      this.element.replaceChildren(h("div", { class: "panel empty" }, h("h2", {}, "There are no values"), h("p", {}, visible(hint))));
      return;
    }
    const resources = [...new Set([...usage.values()].flatMap((samples) => Object.keys(samples.at(-1)[1])))];
    resources.sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
    const charts = resources.map((resource) => chart({ title: NAMES[resource] ?? resource, series: busiest(usage, resource), format: (value) => amount(resource, value), from0: true, binary: inBytes(resource) }));
    this.element.replaceChildren(
      h("section", { class: "panel" }, h("header", {}, h("h2", {}, "Usage over time"), h("span", { class: "muted" }, usage.size > LINES ? `of the ${LINES} replicas with the highest usage` : "")), h("div", { class: "body" }, h("div", { class: "charts" }, charts))),
      h("section", { class: "panel" }, h("header", {}, h("h2", {}, "Current and highest usage")), h("div", { class: "body scroll", tabindex: 0, role: "region", "aria-label": "Usage by replica" }, table(replicas, usage, resources))));
  }
}

const rank = (name) => (FIRST.indexOf(name) + 1 || 9);

function busiest(usage, resource) {
  return [...usage].map(([name, samples]) => ({ name, points: samples.filter(([, used]) => resource in used).map(([time, used]) => [time, used[resource]]) }))
    .filter((one) => one.points.length).sort((a, b) => b.points.at(-1)[1] - a.points.at(-1)[1]).slice(0, LINES).sort((a, b) => (a.name < b.name ? -1 : 1));
}

function table(replicas, usage, resources) {
  const limits = new Map(replicas.map((one) => [one.name, one.limits ?? {}]));
  return h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Replica"), resources.map((one) => [
    h("th", { scope: "col", class: "num" }, NAMES[one] ?? visible(one)), h("th", { scope: "col", class: "num" }, "highest"), h("th", { scope: "col", class: "num" }, "limit")]))),
  h("tbody", {}, [...usage].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, samples]) => h("tr", {}, h("td", {}, visible(name)), resources.map((resource) => {
    const values = samples.map(([, used]) => used[resource]).filter((value) => value !== undefined);
    const last = values.at(-1);
    return [h("td", { class: "num" }, last === undefined ? "\u2013" : amount(resource, last)), h("td", { class: "num" }, values.length ? amount(resource, Math.max(...values)) : "\u2013"),
      h("td", { class: "num" }, visible(quantity(resource, String(limits.get(name)?.[resource] ?? "\u2013"))))];
  })))));
}
