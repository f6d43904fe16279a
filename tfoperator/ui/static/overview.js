// The first tab on the page of a job: progress with curves of metrics, the history of each replica, conditions, events and commands.

import { chart } from "./chart.js";
import { h, setText } from "./dom.js";
import { ago, clock, count, duration, number, progressOf, tone } from "./format.js";
import { ReplicasPanel } from "./replicas.js";
import { visible } from "./text.js";
import { TimePanel } from "./time.js";

const CHARTS = 12;

export class OverviewTab {
  constructor({ about }) {
    this.about = about;
    this.progress = h("section", { class: "panel progress", "aria-label": "Progress", hidden: true });
    this.time = new TimePanel();
    this.replicas = new ReplicasPanel();
    this.commands = h("ul", { class: "commands" });
    this.typed = h("section", { class: "panel", "aria-label": "Commands", hidden: about.commands === null }, h("header", {}, h("h2", {}, "Commands"),
      h("span", { class: "muted" }, "this page can't change the job: run these commands in a terminal")), h("div", { class: "body" }, this.commands));
    this.conditions = h("ul", { class: "feed" });
    this.events = h("ul", { class: "feed more", tabindex: 0, "aria-label": "Events, the newest first" });
    this.eventCount = h("span", { class: "muted num" });
    this.element = h("div", { class: "stack" }, this.progress, this.time.element, this.replicas.element, h("div", { class: "two" },
      h("section", { class: "panel" }, h("header", {}, h("h2", {}, "Conditions")), h("div", { class: "body" }, this.conditions)),
      h("section", { class: "panel" }, h("header", {}, h("h2", {}, "Events"), this.eventCount), h("div", { class: "body" }, this.events))), this.typed);
  }

  close() { this.replicas.close(); }

  update({ job, replicas, events, curves }) {
    if (!job) return;
    if (this.changed("progress", [job.progress, curves])) this.drawProgress(job, curves);
    this.replicas.update(job, replicas);
    this.time.update(job.time, this.replicas);
    if (this.changed("conditions", [job.conditions, minute()])) this.conditions.replaceChildren(...none([...job.conditions].reverse().map(condition), "None. Check that the operator is running."));
    if (this.changed("events", [events, minute()])) this.events.replaceChildren(...none(events.map(event), "None. The API server deletes events after some time."));
    const typed = this.about.commands === null ? [] : commands(job, this.about.commands);
    if (this.changed("commands", typed)) this.commands.replaceChildren(...typed.map(command));
    setText(this.eventCount, events.length ? count(events.length) : "");
  }

  changed(part, value) {
    const said = JSON.stringify(value);
    if (this[`${part}Said`] === said) return false;
    this[`${part}Said`] = said;
    return true;
  }

  drawProgress(job, curves) {
    const { progress } = job;
    this.progress.hidden = !progress;
    if (!progress) return;
    const { percent, left, step, total } = progressOf(progress);
    const when = Date.parse(progress.lastUpdatedTime ?? "") / 1000;
    const says = [step !== null && `step ${count(step)}${total ? ` of ${count(total)}` : ""}`, left !== null && !job.completed && `${duration(left)} left`,
      Number.isFinite(when) && `last report at ${clock(when)}`].filter(Boolean).join(" \u00b7 ");
    const bar = h("i");
    bar.style.width = `${percent ?? 0}%`;
    const charts = Object.entries(curves).filter(([, points]) => points.length > 1).slice(0, CHARTS).map(curve);
    this.progress.replaceChildren(h("header", {}, h("h2", {}, "Progress")), h("div", { class: "body" },
      h("div", { class: "big" }, percent === null ? "" : h("strong", {}, `${Math.round(percent)}%`), h("span", { class: "muted num" }, says)),
      percent === null ? "" : h("div", { class: `meter ${tone(job.state) === "run" ? "" : tone(job.state)}`, role: "progressbar", "aria-label": "Progress",
        "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(percent) }, bar),
      metrics(progress), behind(progress), slow(progress), h("div", { class: "charts" }, charts)));
  }
}

// Draw the curve of a metric: over steps if each point has a step, and otherwise over time.
function curve([name, points]) {
  const stepped = points.every(([, , at]) => at >= 0);
  return chart({ title: name, series: [{ name, points: points.map(([time, value, at]) => [stepped ? at : time, value]) }], ...(stepped && { x: (at) => `step ${count(Math.round(at))}` }) });
}

function metrics(progress) {
  const known = (Array.isArray(progress.metrics) ? progress.metrics : []).slice(0, 16);
  return known.length ? h("dl", { class: "facts" }, known.map(({ name, value }) => h("div", {}, h("dt", {}, visible(name)),
    h("dd", {}, Number.isFinite(Number(value)) ? number(Number(value)) : visible(value))))) : null;
}

// Show the replicas whose step is behind the job's step. When the training is complete, show nothing.
function behind(progress) {
  if (progressOf(progress).percent === 100) return null;
  const all = Array.isArray(progress.behind) ? progress.behind : [];
  const first = Math.max(progressOf(progress).step ?? 0, ...all.map(({ step }) => (Number.isFinite(step) ? step : 0)));
  const known = all.filter(({ step }) => !(step >= first)).slice(0, 8);
  return known.length ? h("p", { class: "muted" }, visible(`Behind: ${known.map(({ name, step }) => `${name}${Number.isFinite(step) ? ` at step ${count(step)}` : ""}`).join(", ")}`)) : null;
}

// Show the replicas whose steps take much longer than the steps of other replicas.
function slow(progress) {
  const named = (Array.isArray(progress.slow) ? progress.slow : []).slice(0, 8);
  return named.length ? h("p", { class: "muted" }, visible(`Slow: ${named.map(({ name, factor }) => `${name} (each step takes ${factor} times the usual duration)`).join(", ")}`)) : null;
}

// Return the commands that the user can run for this job.
function commands(job, options) {
  const where = `${job.name} -n ${job.namespace}${options && ` ${options}`}`, workers = job.replicas.Worker;
  return [!job.completed && !job.queueState && `${job.suspended ? "resume" : "suspend"} ${where}`, !job.completed && workers && `scale ${where} --workers ${workers}`,
    `delete ${where}`].filter(Boolean).map((one) => `tfoperator ${one}`);
}

function command(typed) {
  const copy = h("button", { class: "button", type: "button", "aria-label": `Copy ${typed}`, onclick: async () => { await navigator.clipboard.writeText(typed); setText(copy, "Copied"); } }, "Copy");
  return h("li", {}, h("code", {}, visible(typed)), copy);
}

const minute = () => Math.floor(Date.now() / 20_000);

const none = (items, text) => (items.length ? items : [h("li", { class: "muted" }, text)]);

const condition = ({ type, status, since, reason, message }) => h("li", {},
  h("strong", {}, visible(status === "True" ? type : `${type}: ${status === "False" ? "no" : status.toLowerCase()}`)),
  h("span", { class: "when num", title: since ? clock(since) : "" }, `${ago(since)} ago`), h("p", {}, visible(message || reason)));

const event = ({ type, reason, message, subject, times, seen }) => h("li", { class: type === "Warning" ? "warn" : "" },
  h("strong", {}, visible(reason), times > 1 ? ` \u00d7${count(times)}` : ""), h("span", { class: "when num", title: clock(seen) }, `${ago(seen)} ago`),
  h("p", {}, visible(`${subject}: ${message}`)));
