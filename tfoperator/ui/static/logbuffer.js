// The lines of one replica, and the lines that a search finds. It is independent of elements.

import { plain } from "./text.js";

export const MARK = "\u0000"; // begins a line of the page itself
const SLICE = 20_000; // lines that are searched before other work has its turn

export class LogBuffer {
  constructor(most) {
    this.most = most;
    this.clear();
  }

  clear() {
    this.lines = [];
    this.dropped = 0; // lines from the beginning that are not kept any more
    this.hits = []; // numbers of the found lines, ascending, among the lines that were searched
    this.looked = 0;
  }

  add(lines) {
    for (const line of lines) this.lines.push(line);
    if (this.lines.length > this.most * 1.1) {
      const gone = this.lines.length - this.most;
      this.lines = this.lines.slice(gone);
      this.dropped += gone;
      this.looked = Math.max(0, this.looked - gone);
      this.hits = this.hits.map((one) => one - gone).filter((one) => one >= 0);
    }
  }

  /** Search for text (in lower case; "" for no search) from the first line on. */
  search(text) {
    this.text = text;
    this.hits = [];
    this.looked = 0;
  }

  /** Search some more lines; return whether there are still others. */
  look() {
    const end = Math.min(this.lines.length, this.looked + SLICE);
    if (this.text) {
      for (let i = this.looked; i < end; i++) {
        const line = this.lines[i];
        if (!line.startsWith(MARK) && plain(line).toLowerCase().includes(this.text)) this.hits.push(i);
      }
    }
    this.looked = end;
    return end < this.lines.length;
  }
}
