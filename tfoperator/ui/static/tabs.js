// The tabs YAML, TensorBoard and Failure report.

import { get } from "./api.js";
import { h } from "./dom.js";
import { pieces, visible } from "./text.js";

// A tab with a text. The page loads the text when the tab is opened, and again when the user clicks Reload.
class TextTab {
  constructor(view, { path, part, title, label, wrapped = false }) {
    this.wrapped = wrapped;
    this.text = h("pre", { tabindex: 0, "aria-label": label });
    this.element = h("section", { class: "panel" }, h("header", {}, h("h2", {}, title),
      h("button", { class: "button", type: "button", onclick: () => this.load(view, path, part) }, "Reload")), h("div", { class: wrapped ? "yaml report" : "yaml" }, this.text));
    this.load(view, path, part);
  }

  async load(view, path, part) {
    this.text.textContent = "Loading \u2026";
    try {
      const text = (await get(path, { namespace: view.namespace, name: view.name }))[part];
      if (this.wrapped) this.text.replaceChildren(...text.split("\n").map(hanging));
      else this.text.textContent = visible(text);
    } catch (error) {
      this.text.textContent = visible(error.message || "Your session has ended.");
    }
  }
}

// Return an element with a line of a text. If the browser wraps the line, its further parts are indented. The element contains the line
// end, so that a copy of the text has the same lines.
function hanging(line) {
  const element = h("span", { class: "line" }, pieces(line).map(({ text, classes }) => (classes ? h("span", { class: classes }, text) : text)), "\n");
  element.style.setProperty("--indent", Math.min(/^[ |]*/.exec(line)[0].length, 16));
  return element;
}

export class YamlTab extends TextTab {
  constructor(view) { super(view, { path: "/api/yaml", part: "yaml", title: "The job as YAML, from the API server", label: "The job as YAML" }); }
}

export class ReportTab extends TextTab {
  constructor(view) { super(view, { path: "/api/report", part: "report", title: "Failures of this job", label: "Failure report", wrapped: true }); }
}

export class TensorBoardTab {
  constructor(view) {
    this.view = view;
    this.element = h("div", { class: "stack" });
  }

  update({ job }) {
    const board = job?.tensorBoard;
    const said = JSON.stringify(board ?? null);
    if (!board || said === this.said) return;
    this.said = said;
    const { namespace } = this.view;
    if (board.framed && board.ready) {
      this.element.replaceChildren(h("p", {}, link(board.url, "Open in a new tab")),
        h("iframe", { src: board.url, title: "TensorBoard", sandbox: "allow-scripts allow-same-origin allow-forms allow-downloads", referrerpolicy: "no-referrer" }));
    } else if (board.framed) {
      this.element.replaceChildren(h("div", { class: "panel empty" }, h("h2", {}, "TensorBoard is starting"), h("p", {}, "This page shows TensorBoard as soon as TensorBoard answers.")));
    } else {
      this.element.replaceChildren(h("div", { class: "panel body" }, h("h2", {}, "TensorBoard runs in the cluster"),
        h("p", {}, board.ready ? "" : "TensorBoard does not answer yet. ", "The address of TensorBoard in the cluster is ", board.url ? link(board.url, board.url) : "not a URL that a browser can open", ". To reach TensorBoard from this machine, run:"),
        h("pre", { tabindex: 0 }, visible(`kubectl port-forward --namespace ${namespace} service/${board.service} 6006:80`)),
        h("p", {}, "and then open ", link("http://127.0.0.1:6006/", "http://127.0.0.1:6006/"), ".")));
    }
  }
}

const link = (url, text) => h("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, visible(text));
