// The sequence of calls of a step: lifelines from left to right, time from top to bottom, to scale.
// `layOut` is pure, so that `node --test` can ask it; `drawSequence` puts what it says into SVG.

import { font, textWidth } from "./core.mjs";
import { element, hatch, said } from "./svg.mjs";
import { labelText, placeLabels } from "./sequence_labels.mjs";

const TOP = 46; // px of the lifelines' heads
const FOOT = 14;
const LEFT = 60; // px of the times
const LANE = 104; // px between lifelines at least
const NARROW = 84; // or so many, where all of them then fit
const BAR = 5; // px: half the width of what stands on a lifeline
const LOCAL = "local";

/** Where things lie: {lanes, ticks, units, width, height}. A unit is a call, or several as one.
 *  `opened` holds bundles whose calls are drawn one by one; calls that are lit always are. */
export function layOut(payload, { width, height, opened, isLit, measure }) {
  const { lifelines, total } = payload;
  const names = lifelines.map(({ id }) => id);
  const room = (width - LEFT) / Math.max(1, names.length);
  const lane = room >= NARROW ? Math.min(LANE, room) : LANE;
  const gap = Math.max(lane, (width - LEFT - lane) / Math.max(1, names.length - 1));
  const full = LEFT + lane + gap * (names.length - 1);
  const place = {
    x: (name) => LEFT + lane / 2 + gap * names.indexOf(name),
    y: (ns) => TOP + 10 + (Math.min(Math.max(ns, 0), total) / total) * (height - TOP - 10 - FOOT),
    knows: (name) => names.includes(name),
    total,
  };
  const units = unitsOf(payload, opened, isLit).map((unit) => placed(unit, place));
  const size = { width: Math.max(width, full), height };
  const lanes = lifelines.map((line) => ({ ...line, x: place.x(line.id) }));
  const foot = height - FOOT;
  placeLabels(units, { ...size, top: TOP - 6, foot, lanes: lanes.map(({ x }) => x) }, measure);
  return {
    ...size, units, foot, lanes, lane,
    ticks: payload.ticks.map(([ns, text]) => ({ text, y: place.y(ns) })),
  };
}

/** What is drawn on its own: bundles, what is left of those with a lit call, calls of open ones. */
function unitsOf({ bundles, lifelines, local, total }, opened, isLit) {
  const units = [];
  if (local) units.push(localRun(lifelines, local, total));
  for (const bundle of bundles) {
    const { calls } = bundle;
    const isOpen = opened.has(bundle.id);
    const lit = calls.filter(isLit);
    if (!calls.length) units.push({ ...bundle, isLit: isLit(bundle) });
    else units.push({ ...bundle, isOpen, isLit: false });
    for (const call of isOpen ? calls : lit) {
      units.push({ ...call, calls: [], isLit: lit.includes(call), isInner: true });
    }
  }
  const rank = { local: 0, run: 1, recv: 2, notice: 3 };
  return units.sort((a, b) => rank[a.kind] - rank[b.kind] || a.sent - b.sent);
}

/** A client inside its master's process asks it by no call. */
function localRun([client, master], label, total) {
  return {
    id: LOCAL, kind: LOCAL, source: client.id, target: master.id, sent: 0, served: 0, exists: 0,
    answered: total, done: total, bytes: 0, label, reply: "", held: "", note: "", says: label,
    calls: [], isLit: false,
  };
}

function placed(unit, place) {
  const parts = unit.isOpen ? headOnly(unit, place) : whole(unit, place);
  return { ...unit, ...parts };
}

/** An open bundle is its name alone; its calls stand for themselves. */
function headOnly(unit, place) {
  const line = requestLine(unit, place);
  return { lines: [], bars: [], labels: [label(unit.label, line, 1, "toggle")] };
}

function whole(unit, place) {
  const request = requestLine(unit, place);
  const lines = [request];
  const labels = [
    { ...label(unit.label, request, unit.kind === "recv" ? 4 : 1, "name"), brief: unit.brief },
  ];
  const bars = barsOf(unit, place);
  if (unit.note) labels.push(label(unit.note, request, 2, "note", 12));
  const back = replyLine(unit, place);
  if (back) {
    lines.push(back);
    const weight = unit.kind === "recv" ? 2 + 1 / (2 + unit.bytes) : 5;
    if (unit.reply) labels.push(label(unit.reply, back, weight, back.kind));
  }
  const held = bars.find((bar) => bar.kind === "held");
  if (held && unit.held && held.height > 11) {
    const side = { from: [held.x - 4, held.y + held.height / 2 + 9], anchor: "end" };
    labels.push({ text: unit.held, weight: 3, kind: "held", ...side });
  }
  return { lines, labels, bars };
}

const label = (text, line, weight, kind, below = 0) => ({ text, line, weight, kind, below });

/** From one lifeline to the other; where nobody is known to have taken it, it ends in a cross. */
function requestLine(unit, place) {
  const [x0, x1] = ends(unit.source, unit.target, place);
  const came = unit.served >= 0;
  const y1 = came ? place.y(unit.served) : place.y(unit.sent) + 10;
  const kind = { notice: "notice", local: "local" }[unit.kind] ?? "call";
  return { kind, from: [x0, place.y(unit.sent)], to: [x1, y1], arrow: came, isLost: !came };
}

function replyLine(unit, place) {
  if (unit.notice || unit.kind === "notice") return null;
  const [x1, x0] = ends(unit.source, unit.target, place);
  if (unit.unfinished) return null;
  const begun = unit.kind === "recv" ? unit.exists : unit.answered;
  if (begun < 0) return null;
  const kind = unit.failed ? "failed"
    : unit.kind === "recv" ? unit.dead ? "dead" : unit.bytes ? "value" : "control"
      : unit.kind === LOCAL ? LOCAL : "reply";
  return { kind, from: [x0, place.y(begun)], to: [x1, place.y(unit.done)], arrow: true };
}

function ends(source, target, place) {
  const x = place.x(source);
  const there = place.knows(target) ? place.x(target) : x + LANE / 2;
  const way = Math.sign(there - x) || 1;
  return [x + way * BAR, there - way * BAR];
}

/** What a call keeps busy at its server: the whole of it, or a hatched part without a value. */
function barsOf(unit, place) {
  if (!place.knows(unit.target) || unit.served < 0 || unit.kind === "notice") return [];
  const isRecv = unit.kind === "recv";
  const until = isRecv ? unit.exists : unit.unfinished ? place.total : unit.answered;
  const [y, end] = [place.y(unit.served), place.y(until)];
  if (isRecv && end - y < 2) return [];
  const kind = isRecv ? "held" : "busy";
  return [{ kind, x: place.x(unit.target) - BAR, y, width: 2 * BAR, height: Math.max(2, end - y) }];
}

// SVG

/** Replaces what `host` shows. */
export function drawSequence(host, drawn, words) {
  const { width, height } = drawn;
  const parts = [
    ...drawn.ticks.flatMap((tick) => tickParts(tick, width)),
    ...drawn.lanes.flatMap((lane) => laneParts(lane, drawn)),
    ...drawn.units.map((unit) => unitPart(unit, words)),
    element("g", { "aria-hidden": true }, drawn.units.flatMap(labelParts)),
  ];
  const size = { width, height, viewBox: `0 0 ${width} ${height}` };
  host.replaceChildren(element("svg", size, [hatch("held-hatch"), ...parts]));
}

function tickParts({ text, y }, width) {
  return [
    element("line", { class: "tick", x1: LEFT - 4, x2: width, y1: y, y2: y }),
    said("text", { class: "tick-text", x: LEFT - 10, y: y + 4, "text-anchor": "end" }, text),
  ];
}

function laneParts({ label: name, note, x }, { foot, lane }) {
  const wide = Math.min(lane - 8, 18 + 7.4 * name.length);
  return [
    element("line", { class: "lifeline", x1: x, x2: x, y1: 27, y2: foot }),
    element("rect", { class: "head", x: x - wide / 2, y: 3, width: wide, height: 24, rx: 4 }),
    said("text", { class: "head-text", x, y: 19, "text-anchor": "middle" }, name),
    ...(note ? [said("text", { class: "role", x: x + 8, y: 40 }, note)] : []),
  ];
}

function unitPart(unit, words) {
  const { bars, lines, calls, kind } = unit;
  const classes = `unit ${kind}${unit.isLit ? " lit" : ""}`;
  const parts = [
    said("title", {}, unit.says),
    ...bars.map(({ kind: name, ...box }) => element("rect", { class: name, ...box })),
    ...lines.flatMap(lineParts),
  ];
  if (kind === LOCAL) return element("g", { class: classes }, parts);
  const says = calls.length ? { "aria-expanded": unit.isOpen } : { "aria-current": unit.isLit };
  const name = calls.length ? `${unit.says}. ${words[unit.isOpen ? "fold" : "open"]}` : unit.says;
  const button = { class: classes, role: "button", tabindex: 0, "aria-label": name };
  return element("g", { ...button, ...says, ...actionOf(unit) }, parts);
}

const actionOf = ({ calls, id, sel }) => (
  calls.length ? { "data-bundle": id } : { "data-sel": sel }
);

/** Labels lie over all lines, and are a part of what they name to a pointer only. */
function labelParts(unit) {
  const action = unit.kind === LOCAL ? {} : actionOf(unit);
  return unit.labels.map((one) => said("text", {
    class: `label ${one.kind}${unit.isLit ? " lit" : ""}`, x: one.at.x, y: one.at.y,
    "text-anchor": one.at.anchor, ...action,
  }, labelText(one, unit)));
}

function lineParts({ kind, from: [x0, y0], to: [x1, y1], arrow, isLost }) {
  const [dx, dy] = [x1 - x0, y1 - y0];
  const length = Math.hypot(dx, dy) || 1;
  const [ux, uy] = [dx / length, dy / length];
  const long = kind === "value" ? 11 : 7;
  const [bx, by] = arrow ? [x1 - ux * long, y1 - uy * long] : [x1, y1];
  const ends = { x1: x0, y1: y0, x2: bx, y2: by };
  const parts = [
    element("line", { class: "under", ...ends, x2: x1, y2: y1 }),
    element("line", { class: `line ${kind}`, ...ends }),
  ];
  const half = long * 0.45;
  if (arrow) {
    const points = [[x1, y1], [bx - uy * half, by + ux * half], [bx + uy * half, by - ux * half]];
    parts.push(element("polygon", { class: `arrow ${kind}`, points: points.join(" ") }));
  }
  if (isLost) {
    const d = `M${x1 - 4} ${y1 - 4}l8 8M${x1 + 4} ${y1 - 4}l-8 8`;
    parts.push(element("path", { class: "cross", d }));
  }
  return parts;
}

/** Width of a label as it will be drawn. */
export function measurer() {
  const ctx = document.createElement("canvas").getContext("2d");
  return (text, isStrong) => textWidth(ctx, text, font(11.5, isStrong ? 700 : 550));
}
