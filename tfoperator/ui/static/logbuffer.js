// The lines of one replica, and which of them a search finds. Knows nothing of elements.

import { plain } from "./text.js";

export const MARK = "\u0000"; // begins a line of our own
const SLICE = 20_000; // lines that are searched before something else has its turn

export class LogBuffer {
  constructor(most) {
    this.most = most;
    this.clear();
  }

  clear() {
    this.lines = [];
    this.dropped = 0; // lines from the beginning that are not kept any more
    this.hits = []; // numbers of lines, ascending, that the search finds among those looked at
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

  /** Look for text (in lower case; "" for nothing) from the first line on. */
  search(text) {
    this.text = text;
    this.hits = [];
    this.looked = 0;
  }

  /** Look at some more lines; whether there are still others. */
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
