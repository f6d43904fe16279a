// The page of a job: the job's state with the reason for the state, and tabs with details.

import { Stream } from "./api.js";
import { framed, h, setAttribute, setText } from "./dom.js";
import { ago, clock, count, duration, told, tone } from "./format.js";
import { LogsTab } from "./logs.js";
import { OverviewTab } from "./overview.js";
import { ResourcesTab } from "./resources.js";
import { ReportTab, TensorBoardTab, YamlTab } from "./tabs.js";
import { visible } from "./text.js";

const TABS = [["overview", "Overview", OverviewTab], ["logs", "Logs", LogsTab], ["resources", "Resources", ResourcesTab],
  ["report", "Failure report", ReportTab], ["tensorboard", "TensorBoard", TensorBoardTab], ["yaml", "YAML", YamlTab]];
const SAMPLES = 360;
const unknown = () => ({ replicas: [], events: [], curves: {}, usage: new Map(), usageProblem: "" });

export class JobView {
  constructor({ namespace, name, tab, setState, about }) {
    Object.assign(this, { namespace, name, setState, about, wanted: tab, tab: null, logs: {}, up: "#/" });
    this.data = { job: undefined, ...unknown() };
    this.draw = framed(() => this.update());
    this.build();
    this.connect();
    this.ticking = setInterval(this.draw, 5000);
  }

  close() {
    this.closed = true;
    this.stream.close();
    this.tab?.close?.();
    clearInterval(this.ticking);
  }

  /** Open the stream of this job. With `logs` ({logs: names of replicas, tail: number of lines}), the stream also contains these logs. */
  connect(logs = {}) {
    if (this.closed) return; // the logs tab calls this method when it closes: on a closed page, the new stream would stay open
    this.stream?.close();
    this.logs = logs;
    this.stream = new Stream("/api/job", { namespace: this.namespace, name: this.name, ...logs }, {
      opened: () => { this.data.usage.clear(); this.tab?.restart?.(); },
      message: (message) => this.take(message),
      state: this.setState,
    });
  }

  build() {
    this.heading = h("h1", { tabindex: -1 }, visible(this.name));
    this.badge = h("span", { class: "badge" });
    this.why = h("p", { class: "why", role: "status", hidden: true });
    this.facts = h("dl", { class: "facts" });
    this.notice = h("div");
    this.tablist = h("div", { class: "tabs", role: "tablist", "aria-label": "Views of the job", onkeydown: (event) => this.arrow(event) });
    this.panel = h("div", { role: "tabpanel", id: "panel", tabindex: -1 });
    this.element = h("div", {}, h("a", { class: "back", href: this.up }, "\u2190 All jobs"),
      h("div", { class: "title" }, this.heading, this.badge, h("span", { class: "muted" }, visible(this.namespace))),
      this.notice, this.why, this.facts, this.tablist, this.panel);
  }

  take(message) {
    const { data } = this;
    if (message.job) this.identify(message.job.uid);
    if (message.log) { this.tab?.log?.(message.log); return; }
    for (const part of ["job", "replicas", "events", "curves"]) if (part in message) data[part] = message[part];
    if (message.usage) {
      data.usageProblem = message.problem;
      for (const [replica, samples] of Object.entries(message.usage)) {
        const all = data.usage.get(replica) ?? [];
        all.push(...samples);
        data.usage.set(replica, all.slice(-SAMPLES));
      }
    }
    if ("problems" in message) this.problems = message.problems;
    this.draw();
  }

  // If the job was deleted, and a new job has the same name, remove the data of the old job.
  identify(uid) {
    const anew = this.uid !== undefined && this.uid !== uid;
    this.uid = uid;
    if (!anew) return;
    Object.assign(this.data, unknown());
    this.tab?.close?.();
    this.tab = null;
  }

  update() {
    const { job } = this.data;
    this.drawNotice();
    if (job === null) { setText(this.badge, this.uid ? "Deleted" : ""); setAttribute(this.badge, "class", "badge"); }
    if (!job) return;
    const { state } = job;
    setText(this.badge, visible(state));
    setAttribute(this.badge, "class", `badge ${tone(state)}`);
    const message = visible(job.broken || told(job.message, job));
    this.why.hidden = !message;
    setText(this.why, message);
    setAttribute(this.why, "class", `why ${job.broken ? "bad" : tone(state)}`);
    this.drawFacts(job);
    this.drawTabs(job);
    this.tab?.update?.(this.data);
  }

  drawNotice() {
    const problems = Object.entries(this.problems ?? {});
    let text = problems.length ? `This page may be out of date or incomplete, because it can't read some objects from the API server (${visible(problems.map(([kind, why]) => `${kind}: ${why}`).join(", "))}).` : "";
    if (this.data.job === null) text = "This job does not exist, or it was deleted.";
    if (text !== (this.noticed ?? "")) { this.noticed = text; this.notice.replaceChildren(text ? h("p", { class: "notice", role: "alert" }, text) : ""); }
    if (this.data.job === null && !this.tab && this.about.archive) { this.drawTabs({}); }
  }

  drawFacts(job) {
    const now = job.completed ?? Date.now() / 1000;
    const facts = [["Ready", job.completed ? null : job.ready], ["Requested replicas", Object.entries(job.replicas).map(([kind, n]) => `${n} ${kind}`).join(", ")],
      [job.completed ? "Duration" : "Running for", job.started ? duration(now - job.started) : null], ["Age", ago(job.created)],
      ["Restarts", job.restarts === null ? null : count(job.restarts) + (job.disruptions ? `, ${count(job.disruptions)} of them after disruptions` : "")], ["Elastic workers", job.elastic], ["Data service", job.dataService], ["Queue", job.queueState || job.queue], ["Managed by", job.managedBy],
      ["Ended", job.completed ? clock(job.completed) : null]].filter(([, value]) => value);
    const said = JSON.stringify(facts);
    if (said === this.factsSaid) return;
    this.factsSaid = said;
    this.facts.replaceChildren(...facts.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, visible(value)))));
  }

  drawTabs(job) {
    const there = TABS.filter(([id]) => (id !== "tensorboard" || job.tensorBoard) && (id !== "report" || job.hasReport));
    const ids = there.map(([id]) => id).join();
    if (ids !== this.ids) {
      this.ids = ids;
      const focused = this.tablist.contains(document.activeElement);
      this.tablist.replaceChildren(...there.map(([id, label]) => h("button", { role: "tab", type: "button", id: `tab-${id}`,
        "aria-controls": "panel", onclick: () => this.go(id) }, label)));
      this.mark();
      if (focused) this.tablist.querySelector("[aria-selected=true]")?.focus();
    }
    if (!this.tab) this.select(this.wanted ?? (job.hasReport && ["Failed", "TimedOut", "Died"].includes(job.state) ? "report" : "overview"));
  }

  go(id) { location.hash = `#/jobs/${encodeURIComponent(this.namespace)}/${encodeURIComponent(this.name)}/${id}`; }

  select(id) {
    this.wanted = id;
    if (!this.tablist.children.length) return;
    const known = TABS.find(([one]) => one === id && this.ids.split(",").includes(one)) ?? TABS[0];
    if (this.tab?.id === known[0]) return;
    this.tab?.close?.();
    this.tab = new known[2](this);
    this.tab.id = this.element.dataset.tab = known[0];
    document.getElementById("main").classList.toggle("wide", known[0] === "logs");
    this.mark();
    this.panel.replaceChildren(this.tab.element);
    this.tab.update?.(this.data);
  }

  mark() {
    for (const tab of this.tablist.children) {
      const selected = tab.id === `tab-${this.tab?.id}`;
      setAttribute(tab, "aria-selected", String(selected));
      tab.tabIndex = selected ? 0 : -1;
    }
    if (this.tab) setAttribute(this.panel, "aria-labelledby", `tab-${this.tab.id}`);
  }

  arrow(event) {
    const tabs = [...this.tablist.children], at = tabs.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined || at < 0) return;
    event.preventDefault();
    const next = tabs[(to + tabs.length) % tabs.length];
    next.focus();
    next.click();
  }

  search() { this.tab?.search?.(); }
}
