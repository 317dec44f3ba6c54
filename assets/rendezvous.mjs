// The Rendezvous page: what is selected is lit in every card, cards show one of their faces, rows
// are found and folded, and the sequence of calls is drawn. Everything else comes from the server.

import { keepFocus } from "./focus.mjs";
import { equal, taskIn, visit } from "./selection.mjs";
import { clickByKey } from "./svg.mjs";
import { drawSequence, layOut, measurer } from "./sequence.mjs";

const keep = () => window.dash_clientside.no_update;
const tell = (name, data) => window.dash_clientside.set_props(`rendezvous-${name}`, { data });
const page = () => document.getElementById("rendezvous-page");
const NONE = { keys: [], spans: [], links: [], tensors: [], task: "" };

const state = { lines: null, lit: NONE, opened: new Set(), look: {}, sought: "" };

// what is lit

/** A key without frame and iteration: that of a row which stands for all iterations. */
const edgeOf = (key) => key.slice(0, key.lastIndexOf(";"));

/** Whether a row, chip or cell, told by its data-*, is meant by a selection. */
export function isMeant({ key, edge, tensor, link }, lit) {
  if (lit.links.length) return Boolean(link) && lit.links.includes(link);
  if (lit.tensors.includes(tensor)) return true;
  if (edge) return lit.keys.some((one) => edgeOf(one) === edge);
  return Boolean(key) && lit.keys.includes(key);
}

function light() {
  for (const one of page()?.querySelectorAll("[data-key], [data-edge], [data-link]") ?? []) {
    const isLit = isMeant(one.dataset, state.lit);
    if (isLit !== (one.getAttribute("aria-current") === "true")) {
      one.setAttribute("aria-current", String(isLit));
    }
  }
  bringIntoView();
}

/** A key that alone is lit is seen; the page or fold that holds its row is asked for, once. */
function bringIntoView() {
  const [key, ...others] = state.lit.keys;
  if (!key || others.length || state.lit.links.length || state.sought === key) return;
  const rows = document.querySelector("#rendezvous-mail .mail-rows");
  if (!rows) return;
  state.sought = key;
  const row = page().querySelector(`#rendezvous-mail [data-key="${CSS.escape(key)}"]`);
  if (row) row.scrollIntoView({ block: "nearest" });
  else look({ shown: key, opened: [...new Set([...state.look.opened ?? [], edgeOf(key)])] });
}

const isLitCall = (call) => state.lit.keys.includes(call.key)
  || state.lit.spans.includes(call.span);

// the sequence

let measure = null;

function drawCalls() {
  const host = document.getElementById("rendezvous-sequence");
  if (!host || !state.lines) return;
  if (state.lines.none) {
    host.textContent = state.lines.none;
    return;
  }
  const { clientWidth: width, clientHeight: height } = host;
  if (!width || !height) return;
  measure ??= measurer();
  const looks = { width, height, opened: state.opened, isLit: isLitCall, measure };
  const draw = () => drawSequence(host, layOut(state.lines, looks), state.lines.words);
  keepFocus(host, ["data-bundle", "data-sel"], draw, "[role=button]");
}

function toggleBundle(id) {
  if (!state.opened.delete(id)) state.opened.add(id);
  drawCalls();
}

// what is asked for

function look(changes) {
  state.look = { ...state.look, shown: "", ...changes };
  tell("look", state.look);
}

function toggleEdge(edge) {
  const opened = new Set(state.look.opened ?? []);
  if (!opened.delete(edge)) opened.add(edge);
  look({ opened: [...opened] });
}

function showFace(button) {
  const group = button.closest("[data-faces]");
  for (const one of group.querySelectorAll("[role=radio]")) {
    one.setAttribute("aria-checked", String(one === button));
    one.tabIndex = one === button ? 0 : -1;
  }
  group.closest(".card").dataset.shown = button.dataset.value;
  drawCalls();
}

/** Arrow keys move in a group of choices, and from row to row. */
function walk(event) {
  const way = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
  const from = event.target.closest?.("[data-faces] [role=radio], .mail-row");
  if (!way || !from) return;
  const isChoice = from.matches("[role=radio]");
  const all = [...(isChoice ? from.closest("[data-faces]") : page())
    .querySelectorAll(isChoice ? "[role=radio]" : ".mail-row")];
  const at = all.indexOf(from) + way;
  const next = isChoice ? all[(at + all.length) % all.length] : all[at];
  if (!next) return;
  event.preventDefault();
  next.focus();
  if (isChoice) showFace(next);
}

function press(event) {
  if (!page()?.contains(event.target)) return;
  walk(event);
  clickByKey(event, "#rendezvous-sequence [role=button]");
}

const ACTIVE = "[data-bundle], [data-edge], [data-page], [data-faces] [role=radio]";

let pressed = null;

function pressDown({ target }) {
  pressed = page()?.contains(target) ? target.closest(`${ACTIVE}, [data-sel]`) : null;
}

/** A card that is filled anew between press and release has other buttons, and the browser tells of
 *  no click: the button that says the same as the one that was pressed is meant. */
function release({ target }) {
  const there = target.closest?.(`${ACTIVE}, [data-sel]`);
  const isSame = there && pressed && equal({ ...there.dataset }, { ...pressed.dataset });
  if (isSame && !pressed.isConnected) {
    there.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  }
  pressed = null;
}

function click({ target }) {
  if (!page()?.contains(target)) return;
  const one = target.closest(ACTIVE);
  if (!one) return;
  const { bundle, edge, page: number } = one.dataset;
  if (bundle !== undefined) toggleBundle(bundle);
  else if (edge !== undefined) toggleEdge(edge);
  else if (number !== undefined) look({ page: Number(number) });
  else showFace(one);
}

function change({ target }) {
  if (target.id === "rendezvous-order") look({ order: target.value, page: 0 });
  if (target.id === "rendezvous-client") visit({ task: target.value }, { replace: true });
}

let timer = 0;

function type({ target }) {
  if (target.id !== "rendezvous-words") return;
  clearTimeout(timer);
  timer = setTimeout(() => look({ words: target.value, page: 0 }), 120);
}

let watched = null;

/** Dash fills the cards anew whenever it likes: what is lit is lit again in what comes. */
function watch() {
  const here = page();
  if (here === watched) return;
  watched = here;
  Object.assign(state, { opened: new Set(), look: {}, sought: "", lit: NONE });
  if (!here) return;
  let frame = 0;
  const what = { attributeFilter: ["data-key", "data-edge", "data-link", "data-tensor"] };
  new MutationObserver(() => { frame ||= requestAnimationFrame(() => { frame = 0; light(); }); })
    .observe(here, { childList: true, subtree: true, ...what });
  const host = document.getElementById("rendezvous-sequence");
  if (host) new ResizeObserver(drawCalls).observe(host);
}

let started = false;

function start() {
  if (started) return;
  started = true;
  document.addEventListener("click", click);
  document.addEventListener("pointerdown", pressDown);
  document.addEventListener("pointerup", release);
  document.addEventListener("keydown", press);
  document.addEventListener("change", change);
  document.addEventListener("input", type);
}

/** The client to turn to for what is selected: its own, unless a link that opens says which. */
export const taskToShow = ({ task }, isOpening, search) =>
  (isOpening && taskIn(search) ? "" : task);

/** Callback: the client that the address names. */
export function readTask(_search, known) {
  const task = taskIn(location.search);
  return task === known ? keep() : task;
}

/** Callback: the calls of the step, and what is selected. */
export function show(lines, lit) {
  start();
  watch();
  if (lines !== state.lines) state.opened = new Set();
  state.lines = lines;
  if (lit && lit !== state.lit) {
    const task = taskToShow(lit, state.lit === NONE, location.search);
    state.lit = lit;
    state.sought = "";
    if (task && document.getElementById("rendezvous-client")) visit({ task }, { replace: true });
  }
  light();
  drawCalls();
  return keep();
}
