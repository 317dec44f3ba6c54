// The Variables page: prints of copies, and the versions of one variable as a staircase.

import { apart, fill } from "./lanes.mjs";
import { formatSelection } from "./selection.mjs";
import { clickByKey, element, said } from "./svg.mjs";

const [LEFT, RIGHT, TOP, FOOT] = [46, 26, 26, 14]; // px round the staircase
const state = { picture: null, sel: "", page: null };

const part = (name) => document.getElementById(`variables-${name}`);

// prints

/** Eight rows of eight cells, the right half a mirror of the left: all 32 bits are in it. */
export function cellsOf(print) {
  const bits = Number.parseInt(print, 16) >>> 0;
  const cells = [];
  for (let at = 0; at < 32; at += 1) {
    if (!((bits >>> at) & 1)) continue;
    const [row, column] = [at >> 2, at & 3];
    cells.push([column, row], [7 - column, row]);
  }
  return cells;
}

function drawPrints() {
  for (const host of document.querySelectorAll("#variables-page [data-print]:empty")) {
    const d = cellsOf(host.dataset.print).map(([x, y]) => `M${x} ${y}h1v1h-1z`).join("");
    const size = { viewBox: "-1 -1 10 10", width: 34, height: 34, "aria-hidden": true };
    host.append(element("svg", size, [element("path", { d })]));
  }
}

// versions

/** The staircase as points: it rises where a version is made. */
export function stepsOf(marks, first, total) {
  const points = [[0, first]];
  for (const { at, version, kind } of marks) {
    if (kind !== "apply" || version <= points.at(-1)[1]) continue;
    points.push([at, points.at(-1)[1]], [at, version]);
  }
  return [...points, [total, points.at(-1)[1]]];
}

/** Versions that have a line: each, or every second, fifth, tenth … so that lines keep apart. */
export function levelsOf(first, last, room) {
  const most = Math.max(2, Math.floor(room / 24));
  const every = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].find((n) => (last - first) / n <= most);
  const levels = [];
  for (let level = first; level <= last; level += every ?? last - first) levels.push(level);
  return levels;
}

const FEW = 4; // clients that have a mark of their own; a pointer tells the others apart
const SHAPES = [
  (r) => `M${-r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`,
  (r) => `M${-r} ${-r}h${2 * r}v${2 * r}h${-2 * r}z`,
  (r) => `M0 ${-1.2 * r}L${1.1 * r} ${0.9 * r}H${-1.1 * r}z`,
  (r) => `M0 ${-1.3 * r}L${1.3 * r} 0L0 ${1.3 * r}L${-1.3 * r} 0z`,
];

function drawStairs() {
  const host = part("stairs");
  const { picture } = state;
  host.hidden = !picture;
  const { clientWidth: width, clientHeight: height } = host;
  if (!picture || !width) return;
  const { first, last, total, marks, links } = picture;
  const x = (ns) => LEFT + (ns / total) * (width - LEFT - RIGHT);
  const y = (version) => height - FOOT
    - ((version - first) / Math.max(last - first, 1)) * (height - FOOT - TOP);
  const end = legendStart(width) - 30;
  const d = stepsOf(marks, first, total).map(([at, v]) => `${x(at)} ${y(v)}`).join("L");
  fill(host, [
    ...levelsOf(first, last, height - FOOT - TOP).flatMap((level) => levelParts(level, y, width)),
    ...apart(picture.ticks, x, 70).filter(([ns]) => x(ns) < end).map(([ns, text]) => said("text",
      { class: "tick-text", x: x(ns), y: 12, "text-anchor": "middle" }, text)),
    element("path", { class: "stairs", d: `M${d}` }),
    ...links.map(([read, apply]) => linkPart(marks[read], marks[apply], x, y)),
    ...marks.map((mark) => markPart(mark, x(mark.at), y(mark.version))),
    ...picture.clients.slice(0, FEW).flatMap((client, at) => legendParts(client, at, width)),
  ]);
}

const LEGEND = 96; // px of a client's name
const legendStart = (width) => width - RIGHT - LEGEND * Math.min(FEW, state.picture.clients.length);

const levelParts = (level, y, width) => [
  element("line", { class: "tick", x1: LEFT - 6, x2: width - RIGHT, y1: y(level), y2: y(level) }),
  said("text", { class: "tick-text", x: LEFT - 12, y: y(level) + 4, "text-anchor": "end" },
    `v${level}`),
];

const linkPart = (read, apply, x, y) => element("line", { class: "met thin", x1: x(read.at),
  y1: y(read.version), x2: x(apply.at), y2: y(apply.version) });

function markPart(mark, x, y) {
  const d = SHAPES[mark.client % SHAPES.length](5.5);
  const button = { class: `mark ${mark.kind}`, role: "button", tabindex: 0, "data-sel": mark.sel,
    "aria-label": mark.says, "aria-current": mark.sel === state.sel,
    transform: `translate(${x} ${y})` };
  const missed = mark.kind === "apply" && mark.missed
    ? [said("text", { x: 8, y: 15 }, String(mark.missed))] : [];
  return element("g", button, [said("title", {}, mark.says), element("path", { d }), ...missed]);
}

function legendParts(client, at, width) {
  const x = legendStart(width) + LEGEND * at + 12;
  const place = { class: "mark read", transform: `translate(${x} 8)` };
  return [
    element("g", place, [element("path", { d: SHAPES[at % SHAPES.length](5.5) })]),
    said("text", { x: x + 11, y: 12 }, client),
  ];
}

// the page

function draw() {
  if (!part("page")) return;
  drawPrints();
  drawStairs();
}

function click({ target }) {
  const one = target.closest?.("#variables-page [data-variable]");
  if (one) window.dash_clientside.set_props("variables-which", { data: one.dataset.variable });
}

const press = (event) => clickByKey(event, "#variables-page svg [role=button]");

/** Callback: what to draw, and what is selected; `_copies` came anew, with prints to draw. */
export function show(picture, _copies, sel) {
  const page = part("page");
  if (page && page !== state.page) {
    if (!state.page) {
      document.addEventListener("click", click);
      document.addEventListener("keydown", press);
    }
    new ResizeObserver(draw).observe(part("stairs").parentElement);
    state.page = page;
  }
  Object.assign(state, { picture, sel: formatSelection(sel) ?? "" });
  requestAnimationFrame(draw);
  return window.dash_clientside.no_update;
}
