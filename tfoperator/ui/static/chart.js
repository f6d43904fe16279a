// Draws line charts as SVG: one or more series over time, with axes. The title shows the values at the mouse pointer.

import { h, s } from "./dom.js";
import { clock, number } from "./format.js";
import { visible } from "./text.js";

const W = 330, H = 170, LEFT = 46, BOTTOM = 20, TOP = 8, RIGHT = 8;
const FINEST = 400; // the chart draws about this many points of a series
const LARGEST = 1e300; // the chart draws larger values as this value, because the difference of two values must not be infinite

/** Return a chart as a figure, or null if there are no points. `series`: [{name, points: [[time, value], ...]}]; `format`
 *  formats values; `x` formats times. With `from0`, the axis of values begins at 0. With `binary`, the lines of the grid are
 *  at round numbers of bytes: 4 GiB, 8 GiB. */
export function chart({ title, series, format = number, x = clock, from0 = false, binary = false }) {
  const drawn = series.map((one, i) => ({ ...one, colour: `c${i % 8}`, points: thinned(one.points) })).filter((one) => one.points.length);
  const all = drawn.flatMap((one) => one.points);
  if (!all.length) return null;
  const bounds = limits(all, from0);
  const px = (time) => LEFT + ((time - bounds.x0) / (bounds.x1 - bounds.x0)) * (W - LEFT - RIGHT);
  const py = (value) => H - BOTTOM - ((within(value) - bounds.y0) / (bounds.y1 - bounds.y0)) * (H - BOTTOM - TOP);
  const grid = ticks(bounds.y0, bounds.y1, binary).map((value) => [
    s("line", { class: "grid", x1: LEFT, x2: W - RIGHT, y1: py(value), y2: py(value) }),
    s("text", { x: LEFT - 6, y: py(value) + 4, "text-anchor": "end" }, format(value))]);
  const curves = drawn.map((one) => one.points.length > 1
    ? s("path", { class: `curve ${one.colour}`, d: one.points.map(([t, v], k) => `${k ? "L" : "M"}${px(t).toFixed(1)} ${py(v).toFixed(1)}`).join("") })
    : s("circle", { class: `curve ${one.colour}`, cx: px(one.points[0][0]), cy: py(one.points[0][1]), r: 2.5 }));
  const cross = s("g");
  const image = s("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": spoken(title, drawn, format) },
    grid, s("text", { x: LEFT, y: H - 4 }, x(bounds.x0)), s("text", { x: W - RIGHT, y: H - 4, "text-anchor": "end" }, x(bounds.x1)), curves, cross);
  const said = h("span", { class: "muted num" }, drawn.length === 1 ? format(drawn[0].points.at(-1)[1]) : "");
  const last = said.textContent;
  image.addEventListener("pointermove", (event) => {
    const box = image.getBoundingClientRect();
    const time = bounds.x0 + ((((event.clientX - box.left) / box.width) * W - LEFT) / (W - LEFT - RIGHT)) * (bounds.x1 - bounds.x0);
    const at = nearest(drawn[0].points, time);
    cross.replaceChildren(s("line", { class: "cross", x1: px(at[0]), x2: px(at[0]), y1: TOP, y2: H - BOTTOM }));
    said.textContent = `${x(at[0])}  ${drawn.slice(0, 3).map((one) => format(nearest(one.points, at[0])[1])).join(", ")}`;
  });
  image.addEventListener("pointerleave", () => { cross.replaceChildren(); said.textContent = last; });
  const legend = series.length < 2 ? null : h("ul", { class: "legend" }, drawn.map((one) => h("li", {},
    s("svg", { viewBox: "0 0 12 12", "aria-hidden": "true" }, s("line", { class: one.colour, x1: 0, x2: 12, y1: 6, y2: 6, "stroke-width": 3 })), visible(one.name))));
  return h("figure", { class: "chart" }, h("figcaption", {}, visible(title), said), image, legend);
}

function limits(points, from0) {
  let x0 = Infinity, x1 = -Infinity, y0 = from0 ? 0 : Infinity, y1 = -Infinity;
  for (const [time, value] of points) {
    x0 = Math.min(x0, time); x1 = Math.max(x1, time); y0 = Math.min(y0, within(value)); y1 = Math.max(y1, within(value));
  }
  if (x1 === x0) { x0 -= 1; x1 += 1; }
  if (y1 === y0) { const pad = Math.abs(y1) / 10 || 1; y0 = from0 ? 0 : y0 - pad; y1 += pad; }
  return { x0, x1, y0, y1 };
}

const within = (value) => Math.max(-LARGEST, Math.min(LARGEST, value));

function ticks(low, high, binary) {
  const rough = (high - low) / 4, power = 10 ** Math.floor(Math.log10(rough));
  const step = binary ? 2 ** Math.ceil(Math.log2(rough)) : [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((one) => one >= rough);
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step / 1e6 && found.length < 8; value += step) found.push(Math.abs(value) < step / 1e6 ? 0 : value);
  return found;
}

// Reduce the number of points: of each short part of the series, keep the smallest and the largest value. So outliers stay visible.
function thinned(points) {
  if (points.length <= FINEST) return points;
  const size = (points.length / FINEST) * 2, found = [];
  for (let i = 0; i < FINEST / 2; i++) {
    const part = points.slice(Math.floor(i * size), Math.floor((i + 1) * size));
    const sorted = [...part].sort((a, b) => a[1] - b[1]);
    found.push(...[sorted[0], sorted.at(-1)].sort((a, b) => a[0] - b[0]));
  }
  return [...found, points.at(-1)];
}

const nearest = (points, time) => points.reduce((best, one) => (Math.abs(one[0] - time) < Math.abs(best[0] - time) ? one : best));

function spoken(title, series, format) {
  return `${visible(title)}: ` + series.slice(0, 8).map(({ name, points }) => {
    const values = points.map(([, value]) => value);
    return `${visible(name)} ${format(values.at(-1))}, from ${format(Math.min(...values))} to ${format(Math.max(...values))}`;
  }).join("; ");
}
