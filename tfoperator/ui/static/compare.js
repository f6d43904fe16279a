// Compares two runs that have ended: tables with results, parameters and last metrics, and charts with the curves of both runs.

import { chart } from "./chart.js";
import { h } from "./dom.js";
import { capital, count } from "./format.js";
import { visible } from "./text.js";

const CHARTS = 32; // the page shows at most this many charts, because the record of a run has at most this many curves

export class ComparisonView {
  /** `tables`: [[title, header, rows], ...]; `curves`: for each run, the points [step, value] of each metric. */
  constructor({ tables, curves }) {
    const names = tables[0][1].slice(1), metrics = [...new Set(curves.flatMap(Object.keys))];
    const drawn = metrics.map((metric) => [metric, names.map((name, i) => ({ name, points: curves[i][metric] ?? [] }))])
      .filter(([, series]) => series.some(({ points }) => points.length > 1)).slice(0, CHARTS);
    this.element = h("div", { class: "stack" }, h("h1", { tabindex: -1 }, "Comparison of two runs"),
      drawn.length ? h("section", { class: "panel" }, h("header", {}, h("h2", {}, "Curves")), h("div", { class: "body" }, h("div", { class: "charts" },
        drawn.map(([title, series]) => chart({ title, series, x: (at) => `step ${count(Math.round(at))}` }))))) : null,
      tables.filter(([, header]) => header[0] !== "step").map(([title, header, rows]) => h("section", { class: "panel" }, h("header", {}, h("h2", {}, capital(title))),
        h("div", { class: "body scroll", tabindex: 0, role: "region", "aria-label": title }, h("table", {},
          h("thead", {}, h("tr", {}, header.map((one) => (one ? h("th", { scope: "col" }, visible(one)) : h("td"))))),
          h("tbody", {}, rows.map(([name, ...values]) => h("tr", {}, h("th", { scope: "row" }, visible(name)), values.map((one) => h("td", {}, visible(one)))))))))));
  }

  close() {}
}
