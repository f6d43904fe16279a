// Makes texts from clusters and programs (names, messages, logs) safe to show. Pure.

// Characters that reorder or hide the text around them, and all control characters except the tab.
const ODD = /[\u0000-\u0008\u000a-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;
const SEQUENCE = new RegExp([
  "\\u001b\\[[0-9;:]*m", // colours
  "\\u001b[\\]PX^_][^\\u0007\\u001b]*(?:\\u0007|\\u001b\\\\|$)", // window titles, links and other sequences with a text, up to their end
  "\\u001b\\[[0-?]*[ -/]*[@-~]", // movements of the cursor, changes of the screen
  "\\u001b[ -/]+[0-~]|\\u001b[0-OQ-WYZ\\\\`-~]", // character sets, reset
].join("|"), "g");
const COLOUR = /^\u001b\[([0-9;:]*)m$/;
export const LONGEST = 5000; // the page draws at most this many characters of a line

/** Return a text with one or more lines that is safe to show: a code such as ⟨202E⟩ replaces each character in ODD. */
export function visible(text) {
  return String(text ?? "").replace(ODD, (c) => (c === "\n" ? c : `\u27e8${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`));
}

/** The part of a line that a terminal would show: the text after the last carriage return. */
export function shown(line) {
  const trimmed = line.endsWith("\r") ? line.slice(0, -1) : line;
  const at = trimmed.lastIndexOf("\r");
  return at < 0 ? trimmed : trimmed.slice(at + 1);
}

/** The text of a line without terminal sequences, for a search. */
export function plain(line) {
  return line.includes("\u001b") ? shown(line).replace(SEQUENCE, "") : shown(line);
}

/** Split a line into pieces with different colours: [{text, classes}]. `classes` are the CSS classes of the piece. */
export function pieces(line) {
  let text = shown(line);
  if (text.length > LONGEST) text = `${text.slice(0, LONGEST)} \u2026 (${text.length - LONGEST} more characters)`;
  if (!text.includes("\u001b")) return [{ text: visible(text), classes: "" }];
  const found = [];
  let style = {}, from = 0;
  for (const match of text.matchAll(SEQUENCE)) {
    if (match.index > from) found.push({ text: visible(text.slice(from, match.index)), classes: classes(style) });
    from = match.index + match[0].length;
    const colour = COLOUR.exec(match[0]);
    if (colour) style = styled(style, colour[1]);
  }
  if (from < text.length) found.push({ text: visible(text.slice(from)), classes: classes(style) });
  return found;
}

function styled(before, codes) {
  let style = { ...before };
  const numbers = codes.split(/[;:]/).map(Number);
  for (let i = 0; i < numbers.length; i++) {
    const n = numbers[i];
    if (n === 0) style = {};
    else if (n === 1) style.b = true;
    else if (n === 2) style.d = true;
    else if (n === 3) style.i = true;
    else if (n === 4) style.u = true;
    else if (n === 9) style.s = true;
    else if (n === 22) style.b = style.d = false;
    else if (n === 23) style.i = false;
    else if (n === 24) style.u = false;
    else if (n === 29) style.s = false;
    else if (n >= 30 && n <= 37) style.f = n - 30;
    else if (n >= 90 && n <= 97) style.f = n - 90;
    else if (n === 39) delete style.f;
    else if (n >= 40 && n <= 47) style.g = n - 40;
    else if (n >= 100 && n <= 107) style.g = n - 100;
    else if (n === 49) delete style.g;
    else if (n === 38 || n === 48) {
      const [colour, used] = extended(numbers, i + 1);
      i += used;
      if (colour !== null) style[n === 38 ? "f" : "g"] = colour;
    }
  }
  return style;
}

// Replace a colour (one of 256 or of 16 million) by the nearest of the eight colours that the page defines for the light and the dark scheme.
function extended(numbers, at) {
  if (numbers[at] === 2) return [nearest(numbers[at + 1] ?? 0, numbers[at + 2] ?? 0, numbers[at + 3] ?? 0), 4];
  const n = numbers[at + 1] ?? 0;
  if (n < 16) return [n % 8, 2];
  if (n >= 232) return [n < 244 ? 0 : 7, 2];
  const cube = n - 16;
  return [nearest(Math.floor(cube / 36) * 51, (Math.floor(cube / 6) % 6) * 51, (cube % 6) * 51), 2];
}

function nearest(red, green, blue) {
  const strongest = Math.max(red, green, blue);
  if (strongest < 70) return 0;
  return (red > strongest / 2 ? 1 : 0) + (green > strongest / 2 ? 2 : 0) + (blue > strongest / 2 ? 4 : 0);
}

function classes(style) {
  const names = ["b", "d", "i", "u", "s"].filter((one) => style[one]).map((one) => `a-${one}`);
  if (style.f !== undefined) names.push(`f${style.f}`);
  if (style.g !== undefined) names.push(`g${style.g}`);
  return names.join(" ");
}
