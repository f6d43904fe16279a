// The list of pipeline runs.

import { ago, capital, count, duration, tone } from "./format.js";
import { drawParts, LiveList } from "./livelist.js";

const RUNS = {
  path: "/api/runs", part: "runs", address: "#/runs", title: "Pipeline runs", label: "runs", placeholder: "Filter by pipeline, run or message  (key: /)",
  columns: [["pipeline", "Run"], ["state", "State"], ["", "Activity"], ["", "Steps"], ["took", "Duration"], ["began", "Age"]],
  order: ["Running", "Interrupted", "Failed", "Cancelled", "Succeeded"],
  sortedBy: "began", down: ["took", "began"],
  noMatch: "No run matches the filter", looking: "Loading the runs \u2026",
  empty: ["No runs yet", "To run a pipeline: tfoperator pipeline run pipeline.py"],
  trouble: (reasons) => `This page may be out of date or incomplete, because it can't read the runs (${reasons}).`,
  state: (run) => capital(run.state),
  text: (run) => `${run.pipeline} ${run.key} ${run.message}`,
  value: (by) => ({ pipeline: (run) => run.pipeline, took, began: (run) => run.began ?? 0 })[by],
  draw(parts, run) {
    const state = capital(run.state);
    drawParts(parts, {
      name: run.pipeline, place: run.key, address: addressOf(run.key), state, tone: tone(state), hint: run.message,
      does: run.message || (run.ended ? "" : "starting"), percent: run.steps ? (100 * run.done) / run.steps : null,
      cells: [`${count(run.done)}/${count(run.steps)}`, duration(took(run)), ago(run.began)],
    });
  },
};

/** The address at which the page shows a run, or, with `step`, a step of the run. */
export const addressOf = (run, step) => `#/runs/${encodeURIComponent(run)}${step === undefined ? "" : `/${encodeURIComponent(step)}`}`;

/** The seconds that a run or a step has taken so far. Return null if the time is unknown, because the program that executed the run has died. */
export function took({ began, ended, state }) {
  if (began === null || began === undefined) return null;
  return ended ? ended - began : state === "running" ? Date.now() / 1000 - began : null;
}

export class RunsView extends LiveList {
  constructor(options) { super(RUNS, options); }
}
