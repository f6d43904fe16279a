// Draws the graph of a run: a box for each step, at the position from the server. A step is on the right of the steps whose outputs it reads.

import { h, s } from "./dom.js";
import { capital, tone } from "./format.js";
import { addressOf } from "./runs.js";
import { visible } from "./text.js";

const NAME = 24, NOTE = 28; // the numbers of characters that fit into a box: of the step's name, and of the text below

/** Return the graph. Each box is a link to its step. `notes` contains, by the name of the step, its state and the text below the name. */
export function graph(run, notes, chosen) {
  const { width, height, boxes, lines, box_width: wide, box_height: high } = run.picture;
  const nodes = boxes.map(({ name, x, y }) => {
    const { state, note } = notes.get(name) ?? { state: "not run", note: "not run" };
    return s("a", { href: addressOf(run.key, name), class: `node ${tone(capital(state)) || "idle"}`, "aria-label": visible(`${name}: ${note}`), "aria-current": name === chosen ? "step" : null },
      s("title", {}, visible(name)), s("rect", { x, y, width: wide, height: high, rx: 8 }),
      s("text", { x: x + 12, y: y + 20, class: "node-name" }, visible(cut(name, NAME))), s("text", { x: x + 12, y: y + 37 }, visible(cut(note, NOTE))));
  });
  return h("div", { class: "scroll picture", role: "region", "aria-label": "Graph of the steps", tabindex: 0 },
    s("svg", { width, height, viewBox: `0 0 ${width} ${height}` }, lines.map((path) => s("path", { d: path, class: "edge" })), nodes));
}

const cut = (text, most) => ([...text].length <= most ? text : `${[...text].slice(0, most - 1).join("")}\u2026`);
