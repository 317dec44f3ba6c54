// A run in one file: what the server would answer is in the document, and one small store stands in
// for the dashboard's. Views, canvases and addresses are the dashboard's own.

import { formatBytes, formatNs } from "./core.mjs";
import { FileSource } from "./file_source.mjs";
import { show as showGraph } from "./graph.mjs";
import { show as showRendezvous } from "./rendezvous.mjs";
import { show as showReplay } from "./replay.mjs";
import { formatSelection, parse, parseSelection, visit } from "./selection.mjs";
import { answerFrom } from "./sources.mjs";
import { decodeTile } from "./timeline_data.mjs";
import { show as showTimeline } from "./timeline.mjs";
import { lineOf } from "./timeline_table.mjs";

const root = document.documentElement;
const THEMES = ["light", "dark", "projector"];

// ---- what the file says ----

const byId = (id) => document.getElementById(id);
let source = null;
let usual = null;

async function inflated(id) {
  const bytes = Uint8Array.from(atob(byId(id).textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

const words = () => JSON.parse(byId("strip").dataset.words);

function made(tag, text = "", kind = "") {
  const element = document.createElement(tag);
  element.textContent = text;
  if (kind) element.className = kind;
  return element;
}

/** Hands the address to all views, and says what is selected. */
async function apply() {
  const { sel, step, stage } = parse(location.search);
  showGraph(usual, stage, "", sel);
  showReplay(usual, sel);
  showTimeline(step, sel, usual);
  const lit = sel && await source.lit(sel, null);
  showRendezvous(source.own.calls[root.lang], source.keysOf(sel, lit));
  byId("strip").replaceChildren(...saidOf(sel, lit));
  fillSpan(lit);
  fillNode(sel);
}

const canvasWords = () => JSON.parse(byId("timeline-canvas")?.dataset.words ?? "{}");

function saidOf(sel, lit) {
  const say = words();
  if (!sel) return [made("span", say.nothing, "hint")];
  const name = lit.selected ? lit.names[lit.name[0]] : sel.id;
  const facts = lit.selected ? lineOf(canvasWords(), lit, 0) : say.absent;
  return [made("span", name, "selected"), made("span", facts, "facts")];
}

/** Names and values as a list; what is not known is left out. */
function listOf(facts, kind = "") {
  const list = made("dl", "", kind);
  for (const [name, value] of facts) {
    if (!value) continue;
    const line = made("div");
    line.append(made("dt", name), made("dd", value));
    list.append(line);
  }
  return list;
}

/** The card of the first selected span. */
function fillSpan(lit) {
  const place = byId("timeline-span");
  if (!place) return;
  const { table } = canvasWords();
  place.list ??= place.querySelector(".stands-out"); // comes back when nothing is selected
  if (!lit?.selected) {
    place.replaceChildren(...[place.list, made("h2", words().nothing)].filter(Boolean));
    return;
  }
  const { task, label } = source.rowOf(lit, 0);
  place.replaceChildren(made("h2", lit.names[lit.name[0]]), listOf([
    [table.op, lit.ops[lit.op[0]]], [table.task, task], [table.lane, label],
    [table.start, formatNs(lit.start[0])], [table.duration, formatNs(lit.duration[0])],
    [table.wait, lit.wait[0] && formatNs(lit.wait[0])],
    [table.bytes, lit.bytes[0] && formatBytes(lit.bytes[0])],
  ], "span-facts"));
}

/** The aside of the graph: what its payload knows of the selected node. */
function fillNode(sel) {
  const place = byId("graph-facts");
  if (!place) return;
  const say = words();
  const node = sel && source.nodeOf(sel, parse(location.search).stage);
  if (!node) {
    place.replaceChildren(made("p", say.choose_node, "hint"));
    return;
  }
  place.replaceChildren(made("h2", node.op), made("p", node.id, "key"), listOf([
    [say.device, [node.box, node.device].filter(Boolean).join(" ")], [say.reason, node.reason],
    [say.shape, node.shape], [say.time, node.time && formatNs(node.time)],
    [say.wait, node.wait && formatNs(node.wait)],
    [say.bytes, node.bytes && formatBytes(node.bytes)],
  ]));
}

// ---- where one is ----

const PAGES = ["summary", "graph", "timeline", "replay", "rendezvous"];
const pageNow = () => PAGES.find((page) => location.hash === `#${page}`) ?? PAGES[0];

function turn() {
  const now = pageNow();
  for (const page of document.querySelectorAll("[data-page]")) {
    page.hidden = page.dataset.page !== now;
  }
  for (const link of document.querySelectorAll(":is(.rail, .tabs) [data-go]")) {
    if (link.dataset.go.endsWith(`/${now}`)) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  dispatchEvent(new Event("resize"));
}

/** A link of the dashboard, `/t/RUN/PAGE?step=…`: the same page of this file; of one that it does
 *  not hold, the Timeline, where the same is lit. */
function follow(path) {
  const [where, query = ""] = path.split("?");
  const asked = Object.fromEntries(new URLSearchParams(query));
  const page = where.split("/").at(-1);
  const shown = PAGES.includes(page) ? page : "timeline";
  history.pushState({}, "", `${location.pathname}${location.search}#${shown}`);
  if (query) visit({ ...asked, t0: null, t1: null, window: null }, { replace: true });
  turn();
  apply();
}

function keep(name, value) {
  try { localStorage.setItem(`vizdist.${name}`, value); } catch { /* storage is switched off */ }
  visit({ [name]: value }, { replace: true });
}

const ACTIONS = {
  theme() {
    root.dataset.theme = THEMES[(THEMES.indexOf(root.dataset.theme) + 1) % THEMES.length];
    keep("theme", root.dataset.theme);
  },
  lang() {
    root.lang = root.lang === "zh" ? "en" : "zh";
    keep("lang", root.lang);
    fill();
  },
};

/** Puts the document's text in the viewer's language; the canvases mount themselves. */
function fill() {
  const { content } = document.querySelector(`template[lang=${root.lang}]`);
  byId("react-entry-point").replaceChildren(content.cloneNode(true));
  foldEdges([]);
  turn();
  apply();
}

/** Iterations stand below the row of their edge; those of `opened` edges are shown. */
function foldEdges(opened) {
  let isOpen = true;
  for (const row of document.querySelectorAll(".mail-rows > li > .mail-row")) {
    const { edge } = row.dataset;
    if (edge !== undefined) {
      isOpen = opened.includes(edge);
      row.setAttribute("aria-expanded", String(isOpen));
    }
    row.parentElement.hidden = row.matches(".inner") && !isOpen;
  }
}

function onClick(event) {
  const target = event.target.closest?.("[data-go], [data-do], [data-sel]");
  if (!target) return;
  event.preventDefault();
  const { do: action, go, sel } = target.dataset;
  if (action) ACTIONS[action]?.();
  else if (go) follow(go);
  else choose(parseSelection(sel));
}

/** What is chosen becomes the address, and the address is shown. */
function choose(sel) {
  visit({ sel: formatSelection(sel) });
  apply();
}

async function start() {
  const [held, tile, replayed] = await Promise.all(["held", "tile", "replayed"].map(inflated));
  const data = JSON.parse(new TextDecoder().decode(held));
  source = new FileSource(data, decodeTile(tile), replayed);
  usual = data.step;
  answerFrom(source);
  document.addEventListener("click", onClick);
  addEventListener("popstate", () => {
    turn();
    apply();
  });
  fill();
}

/** The one way out of a canvas: its choice becomes the address, and the address is shown. */
const STORES = {
  sel: (data) => ({ sel: formatSelection(data) }),
  step: (step) => ({ step }),
  stage: (stage) => ({ stage }),
};

if (typeof document !== "undefined") {
  globalThis.dash_clientside = {
    set_props(name, { data }) {
      if (name === "rendezvous-look") foldEdges(data.opened ?? []);
      if (!STORES[name]) return;
      visit(STORES[name](data));
      apply();
    },
  };
  start();
}
