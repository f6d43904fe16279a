// The start of the page: selects the view that belongs to the address, and contains the parts that all views share.

import { get, signIn, Unauthorized } from "./api.js";
import { ArtifactView } from "./artifact.js";
import { ComparisonView } from "./compare.js";
import { h, setAttribute, setText } from "./dom.js";
import { JobView } from "./job.js";
import { JobsView } from "./jobs.js";
import { RunView } from "./run.js";
import { RunsView } from "./runs.js";
import { visible } from "./text.js";

const main = document.getElementById("main");
const live = document.getElementById("live");
const nav = document.getElementById("parts");
let view = null;
let about = null;
let starting = 0; // the timer for the next attempt to start

const STATE = { live: ["Live", "live on"], ended: ["This run has ended", "live"], broken: ["Connection lost. Connecting again \u2026", "live off"], unauthorized: ["Signed out", "live off"] };

function setState(state) {
  const [text, name] = STATE[state];
  setText(live, text);
  live.className = name;
  if (state === "unauthorized") signedOut();
}

function signedOut() {
  view?.close();
  view = null;
  main.replaceChildren(h("div", { class: "panel empty" }, h("h1", { tabindex: -1 }, "Open the link from the terminal"),
    h("p", {}, "This browser is not signed in, or its session has ended. Each link in the terminal works only once, in one browser."),
    h("p", {}, "If you have started the control plane with ", h("code", {}, "tfoperator local up"), ", the command ", h("code", {}, "tfoperator local status"), " prints a new link.")));
}

function route() {
  const hash = location.hash || "#/";
  if (hash === "#main") return;
  const [path, query = ""] = hash.slice(1).split("?");
  const parts = path.split("/").filter(Boolean).map((part) => { try { return decodeURIComponent(part); } catch { return part; } });
  const options = { setState, query: new URLSearchParams(query), about };
  mark(parts[0]);
  if (about.comparison) {
    show(new ComparisonView(about.comparison), "Comparison of two runs \u00b7 tfoperator");
  } else if (parts[0] === "runs" && parts.length >= 2) {
    const [, id, step] = parts;
    if (view instanceof RunView && view.id === id) { view.select(step); return; }
    show(new RunView({ id, step, setState }), "Run \u00b7 tfoperator");
  } else if (parts[0] === "artifacts" && parts.length === 2) {
    show(new ArtifactView({ id: parts[1], setState }), "Artifact \u00b7 tfoperator");
  } else if (parts[0] === "runs" && !about.pipelines) {
    show({ close() {}, element: h("div", { class: "panel empty" }, h("h1", { tabindex: -1 }, about.pipelinesProblem ? "The pipeline runs can't be read" : "No pipeline runs yet"),
      h("p", {}, visible(about.pipelinesProblem) || "The folder or database that this page reads has no pipeline runs. To run a pipeline: tfoperator pipeline run pipeline.py")) }, "Pipeline runs \u00b7 tfoperator");
  } else if (parts[0] === "runs" || !about.jobs) {
    show(new RunsView(options), "Pipeline runs \u00b7 tfoperator");
  } else if (parts[0] === "jobs" && parts.length >= 3) {
    const [, namespace, name, tab] = parts;
    if (view instanceof JobView && view.namespace === namespace && view.name === name) { view.select(tab ?? "overview"); return; }
    show(new JobView({ namespace, name, tab, setState, about }), `${visible(name)} \u00b7 tfoperator`);
  } else {
    show(new JobsView(options), "Jobs \u00b7 tfoperator");
  }
}

// Mark the link to the current part of the page: jobs or pipelines. If the page has only one of them, hide both links.
function mark(part) {
  const pipelines = part === "runs" || part === "artifacts";
  nav.hidden = !(about.jobs && about.pipelines);
  const [jobs, runs] = nav.children;
  setAttribute(jobs, "aria-current", pipelines ? null : "page");
  setAttribute(runs, "aria-current", pipelines ? "page" : null);
}

function show(next, title) {
  const first = view === null;
  view?.close();
  view = next;
  document.title = title;
  main.replaceChildren(view.element);
  scrollTo(0, 0);
  if (!first) main.querySelector("h1")?.focus({ preventScroll: true });
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName);
  if (event.key === "/" && !typing) { event.preventDefault(); view?.search?.(); }
  else if (event.key === "Escape" && typing) document.activeElement.blur();
  else if (event.key === "Escape" && view?.up) location.hash = view.up;
}

// Sign in even if the browser has stored a session: another server may use this address now, and reject the session.
async function start() {
  clearTimeout(starting);
  try {
    await signIn();
    about = await get("/api/about");
  } catch (error) {
    if (error instanceof Unauthorized) { setState("unauthorized"); return; }
    setState("broken");
    starting = setTimeout(start, 2000);
    return;
  }
  const where = about.namespaces.length ? `, namespace ${about.namespaces.join(", ")}` : "";
  setText(document.getElementById("source"), visible(about.source + where));
  route();
}

// If the page had no pipeline runs so far, ask the server whether there are any now.
async function lookForPipelines() {
  if (about.pipelines) return;
  try {
    const now = await get("/api/about");
    if (now.pipelines === about.pipelines && now.pipelinesProblem === about.pipelinesProblem) return;
    about = now;
    route();
  } catch { /* the next change of the address asks again */ }
}

addEventListener("hashchange", () => {
  if (location.hash.startsWith("#token=")) start();
  else if (about) { route(); lookForPipelines(); }
});
document.addEventListener("keydown", keys);
document.getElementById("skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
start();
