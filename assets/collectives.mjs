// The Collectives page: arrivals to scale, chunks hop by hop, and the hops as bars. What is drawn
// comes from the server as numbers; `node --test` can ask the pure parts.

import { bar, drawLanes, fill, rowsIn } from "./lanes.mjs";
import { clickByKey, element, said } from "./svg.mjs";
import { equal, formatSelection, visit } from "./selection.mjs";

const PICTURES = ["arrival", "ring", "hops"];
const PACE = 900; // ms a hop is looked at while the hops play

const state = { picture: null, at: 0, sel: "", timer: 0, host: null };

const keep = () => window.dash_clientside.no_update;
const part = (name) => document.getElementById(`collectives-${name}`);
const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

// places

/** The more ranks stand in the circle, the narrower they are. */
export function boxOf(count, chunks) {
  const wide = Math.max(74, chunks * 24 + 14);
  return { width: Math.max(50, Math.min(150, wide, 700 / Math.max(count, 1))), height: 66 };
}

/** Where the ranks stand round a circle, the first at the top, clockwise: [x, y]. */
export function roundAbout(count, width, height, box) {
  const angles = Array.from({ length: count }, (_, at) => (at / count) * 2 * Math.PI);
  const across = spread(angles.map(Math.sin), width, box.width / 2 + 4);
  const down = spread(angles.map((angle) => -Math.cos(angle)), height, box.height / 2 + 12);
  return angles.map((_, at) => [across[at], down[at]]);
}

/** Places along a side, the outermost `rim` from its ends: three ranks reach as far as four. */
function spread(places, side, rim) {
  const [least, most] = [Math.min(...places), Math.max(...places)];
  if (most - least < 1e-6) return places.map(() => side / 2);
  return places.map((one) => rim + ((one - least) / (most - least)) * (side - 2 * rim));
}

// chunks

function drawRing() {
  const [host, { picture, at }] = [part("ring"), state];
  const { clientWidth: width, clientHeight: height } = host;
  if (!width) return;
  if (!picture.rounds.length) {
    host.replaceChildren(Object.assign(document.createElement("p"),
      { className: "hint", textContent: picture.words.no_hops }));
    return;
  }
  const chunks = picture.cells[0][0].length;
  const box = boxOf(picture.ranks.length, chunks);
  const places = roundAbout(picture.ranks.length, width, height, box);
  const moving = at ? picture.rounds[at - 1].hops : [];
  const index = new Map(picture.ranks.map(({ number }, place) => [number, place]));
  const shapes = [
    ...moving.map((hop) => hopArrow(hop, index, places, [width / 2, height / 2], box)),
    ...picture.ranks.map((rank, place) => rankBox(rank, place, places[place], box, moving)),
    ...inTheMiddle(width / 2, height / 2),
  ];
  fill(host, shapes);
}

/** From box to box, bent outwards when they stand round a circle, with the chunk's name on it. */
function hopArrow([sender, receiver, chunk], index, places, [cx, cy], box) {
  const [from, to] = [places[index.get(sender)], places[index.get(receiver)]];
  if (!from || !to) return element("g", {});
  const [mx, my] = halfway(from, to);
  const out = places.length === 2 ? [cx + (from[1] < to[1] ? 1.16 : -1.16) * cx, my]
    : [mx + (mx - cx) * 0.3, my + (my - cy) * 0.3];
  const [start, end] = [edgeOf(from, out, box), edgeOf(to, out, box)];
  const label = halfway(halfway(start, end), out);
  const angle = Math.atan2(end[1] - out[1], end[0] - out[0]) * 180 / Math.PI;
  const head = { class: "hop-head", d: "M0 0L-12 -6L-12 6Z",
    transform: `translate(${end[0]} ${end[1]}) rotate(${angle})` };
  const [x, y] = [label[0] - 16, label[1] - 13];
  const tag = { class: "hop-tag", x, y, width: 32, height: 26, rx: 5 };
  const name = { class: "hop-text", x: label[0], y: label[1] + 4.5, "text-anchor": "middle" };
  return element("g", { class: "hop" }, [
    element("path", { class: "hop-line", d: `M${start}Q${out} ${end}` }),
    element("path", head), element("rect", tag),
    said("text", name, `c${chunk}`),
  ]);
}

const halfway = ([ax, ay], [bx, by]) => [(ax + bx) / 2, (ay + by) / 2];

/** Where the way from the middle of a box towards a point leaves the box. */
export function edgeOf([x, y], [px, py], box) {
  const [dx, dy] = [px - x, py - y];
  const share = Math.min((box.width / 2 + 5) / Math.max(Math.abs(dx), 1e-6),
    (box.height / 2 + 5) / Math.max(Math.abs(dy), 1e-6), 1);
  return [x + dx * share, y + dy * share];
}

function rankBox(rank, place, [x, y], box, moving) {
  const [left, top] = [x - box.width / 2, y - box.height / 2];
  const cells = state.picture.cells[state.at][place];
  const wide = Math.min(24, (box.width - 14) / cells.length);
  const got = moving.filter(([, receiver]) => receiver === rank.number).map(([, , chunk]) => chunk);
  const count = state.picture.ranks.length;
  const size = { x: left, y: top, width: box.width, height: box.height, rx: 7 };
  const button = { class: "rank-box", role: "button", tabindex: 0, "data-sel": rank.sel,
    "aria-label": `${rank.title}: ${cells.join(", ")}`, "aria-current": rank.sel === state.sel };
  const at = (chunk) => left + 7 + chunk * wide;
  const rects = cells.flatMap((held, chunk) => (
    cell(held, count, got.includes(chunk), at(chunk), top + 25, wide)));
  const words = [said("text", { class: "rank-name", x: left + 8, y: top + 17 }, rank.title),
    ...cells.map((held, chunk) => counted(held, at(chunk), top + 25, wide))];
  return element("g", {}, [
    element("g", button, [element("rect", { class: "box", ...size }), ...rects]),
    element("g", { class: "words", "aria-hidden": true }, words.filter(Boolean)),
  ]);
}

function cell(held, count, isNew, x, y, wide) {
  const full = 34 * held / Math.max(count, 1);
  const size = { x: x + 1, width: Math.max(2, wide - 3) };
  return [
    element("rect", { class: "cell-ground", ...size, y, height: 34, rx: 3 }),
    element("rect", { class: "cell-fill", ...size, y: y + 34 - full, height: full, rx: 3 }),
    element("rect", { class: `cell-rim${isNew ? " new" : ""}`, ...size, y, height: 34, rx: 3 }),
  ];
}

/** How many ranks' values are in a cell, where it is wide enough to say so. */
function counted(held, x, y, wide) {
  const place = { class: "cell-text", x: x + wide / 2 - 0.5, y: y + 22, "text-anchor": "middle" };
  return wide >= 16 ? said("text", place, String(held)) : null;
}

function inTheMiddle(x, y) {
  const { rounds, words } = state.picture;
  const hop = rounds[state.at - 1];
  const lines = hop ? [hop.at, hop.phase, hop.bytes] : [words.before];
  return lines.map((text, line) => said("text", { class: line ? "middle-note" : "middle-head",
    x, y: y - 6 + 18 * line, "text-anchor": "middle" }, text));
}

// hops

function drawHops() {
  const [host, { picture, at }] = [part("hops"), state];
  const { clientWidth: width, clientHeight: height } = host;
  if (!width) return;
  const end = Math.max(1, ...picture.hops.flat().map((hop) => hop.end));
  const x = (ns) => 62 + (Math.max(0, ns) / end) * (width - 66);
  const rows = rowsIn(picture.ranks.length, 2, height - 2);
  const shapes = picture.hops.flatMap((hops, place) => [
    said("text", { class: "rank-name", x: 0, y: rows[place][0] + rows[place][1] / 2 + 4 },
      picture.ranks[place].title),
    ...hops.map((hop, number) => hopBar(hop, number, place, rows[place], x, at)),
  ]);
  fill(host, shapes);
}

function hopBar(hop, number, place, [y, height], x, at) {
  const round = state.picture.rounds.length === state.picture.hops[place].length ? number + 1 : 0;
  const button = { class: `hop-bar ${hop.phase}${round && round === at ? " now" : ""}`,
    role: "button", tabindex: -1, "data-sel": hop.sel, "aria-label": `c${hop.chunk} ${hop.phase}`,
    "aria-current": [hop.sel, hop.key].includes(state.sel) };
  return element("g", button, [
    bar("wait", x(hop.start), x(hop.came), y, height),
    bar("collective", x(hop.came), x(hop.end), y, height),
  ]);
}

// the page

function draw() {
  if (!part("page")) return;
  if (!state.picture) {
    clear();
    return;
  }
  drawLanes(part("arrival"), state.picture.arrival, state.sel);
  drawRing();
  drawHops();
  sayNow();
}

/** A step without a collective: what an earlier one drew would lie. */
function clear() {
  stop();
  for (const name of PICTURES) part(name).replaceChildren();
  for (const name of ["now", "at"]) part(name).textContent = "";
  for (const one of document.querySelectorAll("#collectives-page [data-hop]")) one.disabled = true;
}

function sayNow() {
  const { picture: { rounds, words }, at } = state;
  part("now").textContent = rounds[at - 1]?.says ?? (rounds.length ? words.before : "");
  part("at").textContent = rounds.length ? `${at} / ${rounds.length}` : "";
  const sign = document.querySelector('#collectives-page [data-hop="play"] .icon');
  sign.className = `icon icon-${state.timer ? "pause" : "play"}`;
  for (const one of document.querySelectorAll("#collectives-page [data-hop]")) {
    one.disabled = !rounds.length;
  }
}

/** The hop that follows, within those there are; the first one after the last. */
export const hopAfter = (at, way, count) => (at + way + count + 1) % (count + 1);

function go(way) {
  state.at = hopAfter(state.at, way, state.picture.rounds.length);
  draw();
}

function stop() {
  clearInterval(state.timer);
  state.timer = 0;
}

function play() {
  if (state.timer) stop();
  else {
    go(1);
    if (!still()) state.timer = setInterval(() => (part("page") ? go(1) : stop()), PACE);
  }
  sayNow();
}

function click({ target }) {
  if (!part("page")?.contains(target)) return;
  const hop = target.closest("[data-hop]")?.dataset.hop;
  const step = target.closest("[data-step]")?.dataset.step;
  if (step) visit({ step });
  if (!state.picture) return;
  if (hop === "play") play();
  else if (hop) {
    stop();
    go(hop === "back" ? -1 : 1);
  }
}

const press = (event) => clickByKey(event, "#collectives-page svg [role=button]");

function change({ target }) {
  if (target.id !== "collectives-select") return;
  window.dash_clientside.set_props("collectives-which", { data: target.value });
}

function watch() {
  const here = part("page");
  if (here === state.host) return;
  stop();
  Object.assign(state, { host: here, at: 0, picture: null });
  if (!here) return;
  const sizes = new ResizeObserver(draw);
  for (const name of PICTURES) sizes.observe(part(name));
}

let started = false;

function start() {
  if (started) return;
  started = true;
  document.addEventListener("click", click);
  document.addEventListener("keydown", press);
  document.addEventListener("change", change);
}

/** Callback: the collective to draw, and what is selected. */
export function show(picture, sel) {
  start();
  watch();
  if (!equal(picture, state.picture)) state.at = Math.min(1, picture?.rounds.length ?? 0);
  state.picture = picture;
  state.sel = formatSelection(sel) ?? "";
  draw();
  return keep();
}
