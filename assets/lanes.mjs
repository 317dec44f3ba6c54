// Lanes of bars over one time axis, as SVG: vizdist/figures/lanes.py says what is in them.

import { keepFocus } from "./focus.mjs";
import { element, hatch, said } from "./svg.mjs";

const LEFT = 118; // px of the names
const TOP = 24; // px of the ticks
const FOOT = 22; // px of a mark's words

/** A row a lane between `top` and `bottom`: [y, height]. */
export function rowsIn(count, top, bottom) {
  const pitch = Math.min(140, (bottom - top) / Math.max(count, 1));
  const height = Math.max(4, Math.min(64, pitch - 8));
  const first = top + (pitch - height) / 2;
  return Array.from({ length: count }, (_, at) => [first + at * pitch, height]);
}

/** As many of the ticks as have room for their words: all, or every second, third … of them. */
export function apart(ticks, x, room = 62) {
  const gap = ticks.length > 1 ? x(ticks[1][0]) - x(ticks[0][0]) : 1;
  const every = Math.max(1, Math.ceil(room / Math.max(gap, 1)));
  return ticks.filter((_, at) => at % every === 0);
}

/** Bars in buttons: those that lie side by side and select the same are one. */
export function buttonsOf(bars) {
  const groups = [];
  for (const one of bars) {
    const last = groups.at(-1);
    if (one.sel && last?.sel === one.sel) last.bars.push(one);
    else groups.push({ sel: one.sel, says: one.says, bars: [one] });
  }
  return groups;
}

/** Replaces what `host` shows; `sel` is what is selected. */
export function drawLanes(host, picture, sel) {
  const { clientWidth: width, clientHeight: height } = host;
  if (!width || !height) return;
  const left = Math.min(LEFT, width / 3);
  const x = (ns) => left + (Math.max(0, ns) / Math.max(picture.total, 1)) * (width - left - 8);
  const rows = rowsIn(picture.lanes.length, TOP, height - FOOT);
  const bottom = rows.length ? rows.at(-1)[0] + rows.at(-1)[1] + 6 : TOP;
  fill(host, [
    ...apart(picture.ticks, x).flatMap(([ns, text]) => tick(x(ns), text, bottom, width)),
    ...(picture.batons ?? []).map((baton) => batonLine(baton, rows, x)),
    ...picture.lanes.map((lane, at) => laneParts(lane, rows[at], x, sel)),
    ...(picture.marks ?? []).flatMap((mark) => markParts(mark, x, bottom, width)),
  ]);
}

/** An svg as large as its host, with its hatch; what has the focus keeps it. */
export function fill(host, shapes) {
  const { clientWidth: width, clientHeight: height } = host;
  const size = { width, height, viewBox: `0 0 ${width} ${height}`, class: "lanes" };
  const draw = () => host.replaceChildren(element("svg", size, [hatch("wait-hatch"), ...shapes]));
  keepFocus(host, ["data-sel"], draw, "[role=button]");
}

function tick(x, text, bottom, width) {
  const words = { class: "tick-text", x: Math.min(x, width - 24), y: 14, "text-anchor": "middle" };
  return [element("line", { class: "tick", x1: x, x2: x, y1: TOP - 4, y2: bottom }),
    said("text", words, text)];
}

function laneParts(lane, [y, height], x, sel) {
  const line = y + height / 2;
  const isTall = height > 24 && lane.where;
  return element("g", {}, [
    said("text", { class: "rank-name", x: 0, y: line + (isTall ? -2 : 4) }, lane.title),
    ...(isTall ? [said("text", { class: "rank-where", x: 0, y: line + 13 }, lane.where)] : []),
    ...buttonsOf(lane.bars).flatMap((group) => buttonParts(group, lane, [y, height], x, sel)),
  ]);
}

function buttonParts(group, lane, [y, height], x, sel) {
  const bars = group.bars.map((one) => bar(one.hue, x(one.start), x(one.end), y, height));
  const words = group.bars.flatMap((one) => wordsOn(one, x, y, height));
  if (!group.sel) return [...bars, ...words];
  const [from, to] = [x(group.bars[0].start), x(group.bars.at(-1).end)];
  const whole = { class: "under", x: from, y: y - 3, width: Math.max(6, to - from),
    height: height + 6, rx: 4 };
  const button = { class: `rank${lane.is_torn ? " torn" : ""}`, role: "button", tabindex: 0,
    "data-sel": group.sel, "aria-label": `${lane.title}. ${group.says}`,
    "aria-current": group.sel === sel };
  return [
    element("g", button, [said("title", {}, group.says), element("rect", whole), ...bars]),
    ...words,
  ];
}

/** The words of a bar lie over its button: what a button is called has more to it than they say. */
function wordsOn({ start, end, hue, text }, x, y, height) {
  const [from, to] = [x(start), x(end)];
  if (!text || text.length * 7 + 14 >= to - from || height < 14) return [];
  const words = said("text", { class: `on-bar on-${hue}`, x: (from + to) / 2, y: y + height / 2 + 4,
    "text-anchor": "middle" }, text);
  return hue === "wait" ? [ground(text, from, to, y, height), words] : [words];
}

export function bar(hue, from, to, y, height) {
  const width = Math.max(hue === "wait" ? 0 : 1, to - from);
  return element("rect", { class: `bar ${hue}`, x: from, y, width, height, rx: 2 });
}

/** Words on a texture stand on a ground of their own. */
function ground(text, from, to, y, height) {
  const wide = text.length * 7 + 10;
  return element("rect", { class: "chip-ground", x: (from + to - wide) / 2, y: y + height / 2 - 9,
    width: wide, height: 18, rx: 3 });
}

function markParts({ at, text }, ofTime, bottom, width) {
  const x = ofTime(at);
  const isLeft = x > width / 2;
  const words = { class: "met-text", x: x + (isLeft ? 4 : -4), y: bottom + 15,
    "text-anchor": isLeft ? "end" : "start" };
  return [element("line", { class: "met", x1: x, x2: x, y1: TOP - 8, y2: bottom + 3 }),
    said("text", words, text)];
}

/** From the end of one turn to the begin of the next: who hands the baton to whom. */
function batonLine([from, ended, to, began], rows, x) {
  const [y0, y1] = [rows[from], rows[to]].map(([y, height]) => y + height / 2);
  return element("path", { class: "baton", d: `M${x(ended)} ${y0}L${x(began)} ${y1}` });
}
