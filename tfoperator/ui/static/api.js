// The session, and requests to the server. An answer is either a single JSON value or a stream of JSON lines.

const KEY = "tfoperator-key";
const QUIET = 25_000; // milliseconds without a line after which a stream counts as broken (the server sends a line every 10 s)
const RETRY = [500, 1000, 2000, 5000, 10_000]; // milliseconds before each new attempt to open a stream

export class Unauthorized extends Error {}

const headers = () => ({ "X-Tfoperator-Key": localStorage.getItem(KEY) ?? "" });

let token = ""; // the token of a link, until the server has accepted or rejected the token

/** Exchange a link's token for a session, and remove the token from the address bar.
 *
 * Throws if there was no answer, or the server failed. The link may still be valid then, so the next call sends the token again. */
export async function signIn() {
  const found = /^#token=([\w-]+)$/.exec(location.hash)?.[1];
  if (found) {
    token = found;
    history.replaceState(null, "", "#/");
  }
  if (!token) return;
  const asked = token;
  const answer = await fetch("/api/session", { method: "POST", body: JSON.stringify({ token: asked }) });
  if (answer.status >= 500) throw new Error(answer.statusText);
  if (token === asked) token = "";
  if (answer.ok) localStorage.setItem(KEY, (await answer.json()).key);
}

/** Send a request, and return the JSON value of the answer. Throws Unauthorized, or an Error with the server's message. */
export async function get(path, query = {}) {
  const answer = await fetch(`${path}?${new URLSearchParams(query)}`, { headers: headers() });
  if (answer.status === 401) throw new Unauthorized();
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.problem ?? answer.statusText);
  return body;
}

/** A stream of messages. When the connection breaks, the stream connects again, until `close()` is called.
 *
 * After each connect, the stream calls `opened()` before the first message. If the page is hidden for half a minute, the
 * stream disconnects. When the page is visible again, the stream connects again. The reason: a browser opens at most six
 * connections to a server, for all its tabs together. */
export class Stream {
  constructor(path, query, { opened = () => {}, message, state = () => {} }) {
    Object.assign(this, { path, query, opened, message, state, failures: 0, closed: false, fresh: true });
    this.seen = () => this.visibility();
    document.addEventListener("visibilitychange", this.seen);
    this.run();
  }

  close() {
    this.closed = true;
    document.removeEventListener("visibilitychange", this.seen);
    clearTimeout(this.hidden);
    clearTimeout(this.retry);
    this.abort?.abort();
  }

  visibility() {
    clearTimeout(this.hidden);
    if (document.hidden) {
      this.hidden = setTimeout(() => { this.asleep = true; this.abort?.abort(); clearTimeout(this.retry); }, 30_000);
    } else if (this.asleep) {
      this.asleep = false;
      this.run();
    }
  }

  async run() {
    const abort = (this.abort = new AbortController());
    let watchdog = 0;
    try {
      const answer = await fetch(`${this.path}?${new URLSearchParams(this.query)}`, { headers: headers(), signal: abort.signal });
      if (answer.status === 401) throw new Unauthorized();
      if (!answer.ok) throw new Error((await answer.json()).problem);
      this.fresh = true;
      await lines(answer.body, (line) => {
        clearTimeout(watchdog);
        watchdog = setTimeout(() => abort.abort(), QUIET);
        if (this.closed) return;
        if (this.fresh) { this.fresh = false; this.failures = 0; this.opened(); this.state("live"); }
        const said = JSON.parse(line);
        if (said.ended) this.state("ended");
        this.message(said);
      });
      throw new Error("the server has ended");
    } catch (error) {
      if (this.closed || this.asleep || this.abort !== abort) return; // the page is visible again, and another attempt runs
      this.state(error instanceof Unauthorized ? "unauthorized" : "broken");
      if (error instanceof Unauthorized) return;
      this.retry = setTimeout(() => this.run(), RETRY[Math.min(this.failures++, RETRY.length - 1)]);
    } finally {
      clearTimeout(watchdog);
    }
  }
}

async function lines(body, take) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = [];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    let from = 0;
    for (let at = value.indexOf("\n"); at >= 0; at = value.indexOf("\n", from)) {
      rest.push(value.slice(from, at));
      take(rest.join(""));
      rest = [];
      from = at + 1;
    }
    if (from < value.length) rest.push(value.slice(from));
  }
}
