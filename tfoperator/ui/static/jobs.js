// The list of jobs.

import { ago, duration, progressOf, told, tone } from "./format.js";
import { drawParts, LiveList } from "./livelist.js";

export const stateOf = (job) => job.flags[0] ?? job.state;

const JOBS = {
  path: "/api/jobs", part: "jobs", address: "#/", title: "Jobs", label: "jobs", placeholder: "Filter by name, namespace or message  ( / )",
  columns: [["name", "Job"], ["state", "State"], ["", "What it does"], ["", "Ready"], ["restarts", "Restarts"], ["created", "Age"]],
  order: ["Running", "Pending", "Created", "Restarting", "Stalled", "Straggling", "Suspended", "Failed", "Succeeded", "Terminating"],
  sortedBy: "attention", down: ["attention", "restarts", "created"],
  noMatch: "No job matches", looking: "Looking for jobs \u2026",
  empty: ["No jobs yet", "Submit one: tfoperator submit job.yaml, or kubectl apply -f job.yaml"],
  trouble: (reasons) => `What is shown may be old or incomplete: the API server can't be read (${reasons}).`,
  state: stateOf,
  text: (job) => `${job.name} ${job.namespace} ${job.message}`,
  value: (by) => ({ name: (job) => job.name, restarts: (job) => job.restarts ?? 0, created: (job) => job.created ?? 0,
    attention: (job) => (job.created ?? 0) + (tone(stateOf(job)) === "bad" ? 1e11 : 0) })[by], // failures and stalls first, then the newest
  draw(parts, job) {
    const state = stateOf(job), { percent, left } = progressOf(job.progress);
    const going = percent !== null && !job.completed && state === "Running";
    drawParts(parts, {
      name: job.name, place: job.namespace, address: `#/jobs/${encodeURIComponent(job.namespace)}/${encodeURIComponent(job.name)}`,
      state, tone: tone(state), percent, hint: job.message,
      does: going ? `${Math.round(percent)}%${left === null ? "" : `, ${duration(left)} left`}` : told(job.message, job),
      cells: [job.completed ? "" : job.ready, String(job.restarts ?? "-"), ago(job.created)],
    });
  },
};

export class JobsView extends LiveList {
  constructor(options) { super(JOBS, options); }
}
