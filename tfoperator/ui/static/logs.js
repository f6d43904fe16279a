// The tab with the logs of several replicas side by side: live or from the log archive, with search and pause.

import { get } from "./api.js";
import { h, setAttribute } from "./dom.js";
import { bytes, clock, count } from "./format.js";
import { LogPane } from "./logpane.js";
import { visible } from "./text.js";

const AT_FIRST = 4, MOST = 16; // the number of replicas whose logs are shown when the tab is opened, and the largest number
const LINES = 500_000; // the page keeps at most this many lines of live logs
const TAIL = 10_000, WHOLE = 500_000;
const CHIPS = 24;

export class LogsTab {
  constructor(view) {
    this.view = view;
    this.panes = new Map();
    this.names = [];
    this.chosen = null;
    this.tail = TAIL;
    this.archived = new Map();
    this.build();
    if (view.about.archive) this.findArchived();
  }

  close() {
    for (const pane of this.panes.values()) pane.close();
    this.view.connect();
  }

  build() {
    this.box = h("input", { class: "field", type: "search", placeholder: "Search the logs  (key: /)", "aria-label": "Search the logs",
      oninput: () => this.find(), onkeydown: (event) => { if (event.key === "Enter") { event.preventDefault(); this.jump(event.shiftKey ? -1 : 1); } } });
    this.only = toggle("Only matching lines", () => this.find());
    this.pauseButton = toggle("Pause", (on) => { for (const pane of this.panes.values()) pane.pause(on); });
    this.whole = h("button", { class: "button", type: "button", title: `Load the last ${count(WHOLE)} lines of each log. At the moment, only the last ${count(TAIL)} lines are loaded.`,
      onclick: () => { this.tail = WHOLE; this.whole.disabled = true; this.connect(); } }, "Load more lines");
    this.select = h("select", { class: "button", "aria-label": "Logs in the archive", hidden: true, onchange: () => this.openArchived() });
    this.chips = h("div", { class: "chips", role: "group", "aria-label": "Replicas whose logs are shown" });
    this.other = h("input", { class: "field", list: "replica-names", placeholder: "Add another replica, e.g. worker-42", "aria-label": "Show the log of another replica", hidden: true,
      onchange: () => { if (this.names.includes(this.other.value)) { this.toggle(this.other.value, true); this.other.value = ""; } } });
    this.options = h("datalist", { id: "replica-names" });
    this.grid = h("div", { class: "panes" });
    this.element = h("div", {}, h("div", { class: "tools" }, this.box, button("Previous", () => this.jump(-1)), button("Next", () => this.jump(1)), this.only, this.pauseButton, this.whole, this.select),
      h("div", { class: "tools" }, this.chips, this.other, this.options), this.grid);
  }

  update({ replicas }) {
    const names = replicas.filter((one) => one.pod && one.state !== "Gone").map((one) => one.name);
    const first = this.chosen === null && names.length > 0;
    if (names.join() === this.names.join() && !first) return;
    this.names = names;
    if (first) {
      this.chosen = new Set(names.slice(0, AT_FIRST));
      this.connect();
    } else if (this.view.about.archive) this.findArchived(); // a pod that is gone may have left its log in the archive
    this.drawChips();
  }

  drawChips() {
    const shown = [...new Set([...this.names.slice(0, CHIPS), ...(this.chosen ?? [])])];
    const focused = document.activeElement?.dataset?.replica;
    this.chips.replaceChildren(...shown.map((name) => h("button", { type: "button", class: "chip", "data-replica": name,
      "aria-pressed": String(this.chosen?.has(name) ?? false), onclick: () => this.toggle(name) }, visible(name))));
    if (focused && this.chips.contains(document.activeElement) === false) this.chips.querySelector(`[data-replica="${CSS.escape(focused)}"]`)?.focus();
    this.other.hidden = this.names.length <= CHIPS;
    if (!this.other.hidden) this.options.replaceChildren(...this.names.slice(0, 2000).map((name) => h("option", { value: name })));
  }

  toggle(name, on = !this.chosen.has(name)) {
    if (on && this.chosen.size >= MOST) return;
    if (on) this.chosen.add(name);
    else this.chosen.delete(name);
    this.drawChips();
    this.connect();
  }

  connect() {
    // A replica has no pod for a moment when it starts again. Its log stays on the page.
    const names = [...this.names.filter((name) => this.chosen.has(name)), ...[...this.chosen].filter((name) => !this.names.includes(name))];
    for (const [name, pane] of this.panes) if (!names.includes(name) && !pane.archived) { pane.close(); this.panes.delete(name); }
    for (const name of names) if (!this.panes.has(name)) this.panes.set(name, this.pane(name, names.length));
    this.lay();
    this.view.connect(names.length ? { logs: names.join(","), tail: this.tail } : {});
  }

  pane(name, number) {
    const pane = new LogPane(name, Math.floor(LINES / Math.max(1, number)));
    pane.search(this.box.value.toLowerCase(), this.only.on);
    pane.pause(this.pauseButton.on);
    return pane;
  }

  lay() {
    const number = this.panes.size;
    this.grid.style.setProperty("--panes", number > 4 ? 3 : number > 2 || number === 2 ? 2 : 1);
    this.grid.classList.toggle("many", number > 2);
    this.grid.replaceChildren(...[...this.panes.values()].map((pane) => pane.element));
    if (!number) this.grid.replaceChildren(h("div", { class: "panel empty" }, h("h2", {}, "No logs"), h("p", {}, this.names.length ? "To show a log, select a replica above." : "There are no pods at the moment.")));
  }

  /** Remove all lines of live logs, because a new stream begins, which sends all lines again. */
  restart() { for (const pane of this.panes.values()) if (!pane.archived) pane.clear(); }

  log(batch) { this.panes.get(batch.replica)?.take(batch); }

  find() {
    const text = this.box.value.toLowerCase();
    for (const pane of this.panes.values()) pane.search(text, this.only.on);
  }

  jump(step) {
    const panes = [...this.panes.values()];
    const active = panes.find((pane) => pane.element.contains(document.activeElement)) ?? this.last ?? panes[0];
    const order = [active, ...panes.filter((pane) => pane !== active)];
    this.last = order.find((pane) => pane?.jump(step));
  }

  search() { this.box.focus(); this.box.select(); }

  async findArchived() {
    const { namespace, name, data } = this.view;
    try {
      const found = await get("/api/archive", { namespace, name, ...(data.job ? { uid: data.job.uid } : {}) });
      if (!found.length) return;
      this.archived = new Map(found.map((run) => [`${run.podUid}/${run.log}`, run]));
      this.select.hidden = false;
      const { value } = this.select;
      this.select.replaceChildren(h("option", { value: "" }, `Archive: select one of ${count(found.length)} logs`), ...[...this.archived].map(([id, run]) => h("option", { value: id },
        visible(`${run.replica}, run ${run.restarts + 1}${run.exitCode === null ? "" : `, exit code ${run.exitCode}`}${run.finished ? `, ${clock(run.finished)}` : ""}${run.size ? `, ${bytes(run.size)}` : ""}`))));
      if (this.archived.has(value)) this.select.value = value;
    } catch (error) {
      this.select.hidden = false;
      this.select.replaceChildren(h("option", { value: "" }, visible(`Archive: ${error.message}`)));
    }
  }

  async openArchived() {
    const run = this.archived.get(this.select.value);
    if (!run) return;
    const { namespace, name, data } = this.view;
    const title = `${run.replica}, run ${run.restarts + 1} (archive)`;
    const pane = new LogPane(title, LINES);
    pane.archived = true;
    pane.following = false;
    this.panes.get(title)?.close();
    this.panes.set(title, pane);
    this.lay();
    pane.element.querySelector("header").append(button("Close", () => { pane.close(); this.panes.delete(title); this.lay(); }));
    try {
      const { text } = await get("/api/archive/log", { namespace, name, pod: run.podUid, log: run.log, ...(data.job ? { uid: data.job.uid } : {}) });
      const lines = (text ?? "").split("\n");
      if (lines.at(-1) === "") lines.pop();
      pane.take({ pod: run.pod, restarts: run.restarts, lines, problem: text === null ? "This log is not in the archive any more." : run.dropped ? `The archive does not contain the first ${bytes(run.dropped)} of this log.` : run.problem });
    } catch (error) {
      pane.take({ pod: run.pod, restarts: run.restarts, problem: error.message });
    }
    pane.search(this.box.value.toLowerCase(), this.only.on);
  }
}

function button(label, onclick) { return h("button", { class: "button", type: "button", onclick }, label); }

function toggle(label, change) {
  const element = button(label, () => {
    element.on = !element.on;
    setAttribute(element, "aria-pressed", String(element.on));
    change(element.on);
  });
  element.on = false;
  setAttribute(element, "aria-pressed", "false");
  return element;
}
