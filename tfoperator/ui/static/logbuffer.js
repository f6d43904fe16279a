// The log lines of a replica, and the results of a search in these lines. This module does not use the elements of the page.

import { plain } from "./text.js";

export const MARK = "\u0000"; // the first character of each line that the page itself has added to the log
const SLICE = 20_000; // after a search of this many lines, the browser can do other work

export class LogBuffer {
  constructor(most) {
    this.most = most;
    this.clear();
  }

  clear() {
    this.lines = [];
    this.dropped = 0; // the number of lines that were dropped from the beginning of the log
    this.hits = []; // the numbers of the lines that the search has found so far, ascending
    this.looked = 0; // the number of lines that were searched so far
  }

  /** Add lines at the end. If there are too many lines, drop lines from the beginning. Return the numbers of dropped lines and hits. */
  add(lines) {
    for (const line of lines) this.lines.push(line);
    if (this.lines.length <= this.most * 1.1) return { lines: 0, hits: 0 };
    const gone = this.lines.length - this.most, before = this.hits.length;
    this.lines = this.lines.slice(gone);
    this.dropped += gone;
    this.looked = Math.max(0, this.looked - gone);
    this.hits = this.hits.map((one) => one - gone).filter((one) => one >= 0);
    return { lines: gone, hits: before - this.hits.length };
  }

  /** Begin a search for a text (in lower case) at the first line. The text "" means no search. */
  search(text) {
    this.text = text;
    this.hits = [];
    this.looked = 0;
  }

  /** Search the next lines. Return whether there are further lines to search. */
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
