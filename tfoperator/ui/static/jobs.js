// The list of jobs.

import { ago, amount, duration, number, progressOf, told, tone } from "./format.js";
import { drawParts, LiveList } from "./livelist.js";

const GPU = "nvidia.com/gpu";
const took = (job) => (job.started ? (job.completed ?? Date.now() / 1000) - job.started : null);
const used = (job, resource) => (job.completed ? undefined : job.used?.[resource]);

function metric({ progress }) {
  const [one] = Array.isArray(progress?.metrics) ? progress.metrics : [];
  return one ? `${one.name} ${Number.isFinite(Number(one.value)) ? number(Number(one.value)) : one.value}` : "";
}

const JOBS = {
  path: "/api/jobs", part: "jobs", address: "#/", title: "Jobs", label: "jobs", placeholder: "Filter by name, namespace or message  (key: /)",
  columns: [["name", "Job"], ["state", "State"], ["", "Activity"], ["", "Last metric"], ["cpu", "CPU"], ["gpu", "GPU"],
    ["", "Ready"], ["restarts", "Restarts"], ["took", "Duration"], ["created", "Age"]],
  order: ["Running", "Pending", "Created", "Restarting", "Stalled", "Straggling", "Diverged", "Suspended", "Failed", "TimedOut", "Interrupted", "Died", "Succeeded",
    "Terminating"],
  sortedBy: "attention", down: ["attention", "cpu", "gpu", "restarts", "took", "created"],
  noMatch: "No job matches the filter", looking: "Loading the jobs \u2026",
  empty: ["No jobs yet", "To submit a job: tfoperator submit job.yaml, or kubectl apply -f job.yaml"],
  trouble: (reasons) => `This page may be out of date or incomplete, because it can't read some objects from the API server (${reasons}).`,
  state: (job) => job.state,
  text: (job) => `${job.name} ${job.namespace} ${job.message}`,
  value: (by) => ({ name: (job) => job.name, restarts: (job) => job.restarts ?? 0, created: (job) => job.created ?? 0, took: (job) => took(job) ?? 0,
    cpu: (job) => used(job, "cpu") ?? 0, gpu: (job) => used(job, GPU) ?? 0,
    attention: (job) => (job.created ?? 0) + (tone(job.state) === "bad" ? 1e11 : 0) })[by], // failures and stalls first, then the newest
  draw(parts, job, several) {
    const { state } = job, { percent, left } = progressOf(job.progress);
    const going = percent !== null && !job.completed && state === "Running";
    drawParts(parts, {
      name: job.name, place: several ? job.namespace : "", address: `#/jobs/${encodeURIComponent(job.namespace)}/${encodeURIComponent(job.name)}`,
      state, tone: tone(state), percent, hint: job.message,
      does: going ? `${Math.round(percent)}%${left === null ? "" : `, ${duration(left)} left`}` : told(job.message, job),
      cells: [metric(job), ...["cpu", GPU].map((one) => (used(job, one) === undefined ? "" : amount(one, used(job, one)))),
        job.completed ? "" : job.ready, String(job.restarts ?? "-"), took(job) === null ? "" : duration(took(job)), ago(job.created)],
    });
  },
};

export class JobsView extends LiveList {
  constructor(options) { super(JOBS, options); }
}
