// Paints the wires of a laid-out graph: two-coloured, with a tag at each end and their names.
// A `scene` is what graph_draw.mjs says.

import { font, formatBytes, formatNs, haloText, textWidth } from "./core.mjs";
import { ROUND, TILE, isChosen, targetsOf, wireWidth } from "./graph_model.mjs";
import { drawTag, polygon, roundRect, roundedPath } from "./shapes.mjs";

const DIMMED = 0.28;
const TAG_ROOM = 24; // layout pixels from one tag to the next, but for the air between them
const NAME_AIR = 8; // after a name, so that the next one is not read as its end
const ROW = 70; // layout pixels from row to row
const NAME = 17; // of them a name takes, on screen

/** Layout → screen for one scene. */
export const place = ({ x: left, y: top, zoom, zoomY = zoom }) => (
  (x, y) => [(x - left) * zoom, (y - top) * zoomY]
);

/** Half the side of a tile on screen; where rows are pressed together names keep their room. */
export const halfTile = ({ zoom, zoomY = zoom }) => {
  const side = zoomY < zoom ? Math.min(TILE * zoom, ROW * zoomY - NAME) : TILE * zoom;
  return Math.max(3, side / 2);
};

export function tilePath(ctx, kind, x, y, half, zoom) {
  if (ROUND.has(kind)) {
    ctx.beginPath();
    ctx.arc(x, y, half, 0, 7);
  } else roundRect(ctx, x - half, y - half, 2 * half, 2 * half, 6 * Math.min(1.4, zoom));
}

/** How strongly a thing is drawn: full if lit or nothing is selected. */
export const dimOf = (scene, isLit) => (!scene.lit || isLit ? 1 : DIMMED);

export function arrowHead(ctx, from, [x, y]) {
  const angle = Math.atan2(y - from[1], x - from[0]);
  ctx.save();
  ctx.translate(x, y);
  ctx.rotate(angle);
  polygon(ctx, [[0, 0], [-6, -2.8], [-6, 2.8]]);
  ctx.fill();
  ctx.restore();
}

export function drawWire(ctx, scene, wire, level) {
  const { theme, zoom } = scene;
  const points = wire.points.map(([x, y]) => place(scene)(x, y));
  const isLit = scene.lit?.wires.has(wire.id) ?? false;
  const isRinged = isChosen(scene.found, "wire", wire.id);
  const isLifted = scene.hover?.id === wire.id;
  const width = (wire.isPair && !wire.control ? wireWidth(wire.bytes) : 1.3)
    * Math.min(1, Math.max(0.5, zoom)) + (isLifted ? 1 : 0);
  ctx.globalAlpha = dimOf(scene, isLit) * (wire.shown ?? 1);
  roundedPath(ctx, points, 9 * Math.min(1, zoom));
  if (isRinged) {
    stroke(ctx, theme.outline, width + 9);
    stroke(ctx, theme.mark, width + 6);
  }
  if (!wire.isPair) {
    stroke(ctx, isLit || isLifted ? theme.ink : theme.ink2, width, wire.control ? [3, 3] : []);
    if (level.glyph) {
      ctx.fillStyle = ctx.strokeStyle;
      arrowHead(ctx, points.at(-2), points.at(-1));
    }
  } else if (wire.control) {
    stroke(ctx, theme.line2, 2.2, [2.2, 2.6]);
  } else if (scene.dead?.has(wire.id)) {
    stroke(ctx, theme.line2, Math.min(width, 2.2), [6, 4]);
  } else {
    stroke(ctx, theme.ink2, width + 1.6);
    stroke(ctx, twoColours(ctx, theme, points), width);
  }
  if (wire.isPair) drawWireTags(ctx, scene, wire, points, level, isRinged);
  ctx.globalAlpha = 1;
}

export function stroke(ctx, style, width, dash = []) {
  ctx.setLineDash(dash);
  ctx.lineWidth = width;
  ctx.strokeStyle = style;
  ctx.stroke();
  ctx.setLineDash([]);
}

/** Orange at the sender, sky at the receiver. */
export function twoColours(ctx, theme, points) {
  const [[x0, y0], [x1, y1]] = [points[0], points.at(-1)];
  const isFlat = Math.abs(x1 - x0) + Math.abs(y1 - y0) < 1;
  const paint = ctx.createLinearGradient(x0, y0, isFlat ? x1 + 1 : x1, y1);
  paint.addColorStop(0.12, theme.send);
  paint.addColorStop(0.88, theme.recv);
  return paint;
}

function drawWireTags(ctx, scene, wire, points, level, isRinged) {
  const { theme, zoom } = scene;
  const most = Math.min(level.tag, TAG_ROOM * zoom);
  const whole = wire.control ? Math.max(Math.min(8, most), most - 2) : most;
  const size = whole * (wire.grown ?? 1);
  if (size < 1) return;
  for (const [kind, [x, y], way] of [
    ["send", points[0], wire.ways[0]], ["recv", points.at(-1), wire.ways[1]],
  ]) {
    if (!wire.parts[0][kind]) {
      openEnd(ctx, theme, x, y); // the other end is in no graph of this trace
      continue;
    }
    if (isRinged) {
      ctx.beginPath();
      ctx.arc(x, y, size * 0.8, 0, 7);
      ctx.fillStyle = theme.mark;
      ctx.fill();
      stroke(ctx, theme.outline, 2);
    }
    drawTag(ctx, theme, kind, x, y, size, way, wire.control || scene.dead?.has(wire.id));
  }
}

function openEnd(ctx, theme, x, y) {
  ctx.beginPath();
  ctx.arc(x, y, 5, 0, 7);
  ctx.fillStyle = theme.panel;
  ctx.fill();
  stroke(ctx, theme["error-s"], 1.4, [2, 2]);
}

export function drawWireLabels(ctx, scene, level, labels, width, height) {
  const { payload, theme, words } = scene;
  const total = payload.wires.reduce((sum, wire) => sum + wire.bytes, 0);
  const importance = (wire) => (isChosen(scene.found, "wire", wire.id) ? Infinity : wire.bytes);
  const wanted = payload.wires
    .filter((wire) => wire.isPair)
    .filter((wire) => level.pairLabels === "all" || wire.bytes >= total / 100)
    .sort((a, b) => importance(b) - importance(a));
  const obstacles = payload.wires.flatMap((wire) => segmentsOf(scene, wire));
  for (const wire of wanted) {
    const points = wire.points.map(([x, y]) => place(scene)(x, y));
    const [x, y] = points[Math.floor(points.length / 2)];
    if (x < -100 || x > width + 100 || y < -50 || y > height + 50) continue;
    const name = wire.label || words.control;
    const short = wireAmount(scene, wire);
    const targets = targetsOf(scene.model, wire).length;
    const consumers = targets > 1
      ? words[wire.parts.length > 1 ? "scopes" : "consumers"].replace("{count}", targets) : "";
    const long = [short, consumers].filter(Boolean).join(" · ");
    const spot = [[long, 1], [short, 1], [long, -1], [short, -1]].map(([second, side]) => ({
      second, at: freeSpot(ctx, points, [name, second], side, labels, obstacles, wire.id),
    })).find((option) => option.at)
      ?? { second: "", at: tagSpot(ctx, points, name, labels, obstacles) };
    if (!spot.at) continue;
    const isLit = scene.lit?.wires.has(wire.id) ?? false;
    ctx.globalAlpha = scene.alpha * dimOf(scene, isLit);
    ctx.textAlign = "left";
    ctx.textBaseline = "alphabetic";
    ctx.font = font(12, 600);
    haloText(ctx, name, spot.at.x, spot.at.y + 11, theme.ink, theme.bg);
    ctx.font = font(11);
    haloText(ctx, spot.second, spot.at.x, spot.at.y + 24, theme.ink2, theme.bg);
    labels.push(spot.at);
  }
  ctx.globalAlpha = 1;
}

/** Bytes of a wire where they are known, its pairs if there are several, and in the heat of waiting
 *  how long it was waited for. */
export function wireAmount({ heat, words }, wire) {
  const pairs = wire.parts.length > 1
    ? [words.bundle.replace("{count}", wire.parts.length)] : [];
  const wait = heat === "wait" && wire.wait > 0
    ? [words.waited.replace("{time}", formatNs(wire.wait))] : [];
  const bytes = wire.bytes === null ? [] : [formatBytes(wire.bytes)];
  return [...pairs, ...bytes, ...wait].join(" · ");
}

/** Beside the stub of every wire of the box that is shown alone: where it goes, how much. */
export function drawStubLabels(ctx, scene, labels) {
  const { theme, words } = scene;
  const box = scene.boxes.find((one) => one.id === scene.only);
  const wires = scene.payload.wires.filter((w) => w.from === scene.only || w.to === scene.only);
  for (const wire of wires.sort((a, b) => b.bytes - a.bytes)) {
    const isOut = wire.from === scene.only;
    const [x, y] = place(scene)(...(isOut ? wire.points[0] : wire.points.at(-1)));
    const isAbove = y < place(scene)(0, box.y + box.h / 2)[1];
    const where = isOut
      ? words.to.replace("{box}", wire.to) : words.from.replace("{box}", wire.from);
    const lines = [wire.label || words.control, where, wireAmount(scene, wire)];
    const w = Math.max(...lines.map((line) => textWidth(ctx, line, font(11)))) + 4;
    const far = wire.points.length === 4 ? Math.max(...wire.points.map((point) => point[0])) : 0;
    const right = Math.max(x, place(scene)(far, 0)[0]);
    const spot = { x: right + 9, y: isAbove ? y - 52 : y + 14, w, h: 38 };
    if (labels.some((label) => touch(spot, label))) continue;
    labels.push(spot);
    ctx.fillStyle = theme.bg;
    ctx.fillRect(spot.x - 3, spot.y, spot.w + 3, spot.h);
    ctx.textAlign = "left";
    ctx.textBaseline = "alphabetic";
    lines.forEach((line, i) => {
      ctx.font = font(i ? 10.5 : 11.5, i ? 400 : 600);
      haloText(ctx, line, spot.x, spot.y + 11 + 12.5 * i, i ? theme.ink2 : theme.ink, theme.bg);
    });
  }
}

function segmentsOf(scene, wire) {
  const points = wire.points.map(([x, y]) => place(scene)(x, y));
  const tags = wire.isPair ? [points[0], points.at(-1)] : [];
  const lines = points.slice(1).map(([bx, by], i) => {
    const [ax, ay] = points[i];
    return {
      id: wire.id, x: Math.min(ax, bx) - 5, y: Math.min(ay, by) - 5,
      w: Math.abs(ax - bx) + 10, h: Math.abs(ay - by) + 10,
    };
  });
  return [...lines, ...tags.map(([x, y]) => ({ id: "", x: x - 10, y: y - 10, w: 20, h: 20 }))];
}

export const touch = (a, b) =>
  a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;

/** Room for the name alone beside one of a wire's tags, within the box that it is on. */
function tagSpot(ctx, points, name, labels, obstacles) {
  const [w, h] = [textWidth(ctx, name, font(12, 600)) + NAME_AIR, 14];
  for (const [[x, y], next] of [[points[0], points[1]], [points.at(-1), points.at(-2)]]) {
    const inward = Math.sign(y - next[1]);
    for (const left of inward ? [x + 6, x - 6 - w] : []) {
      const spot = { x: left, y: y + inward * 19 - h / 2, w, h };
      if ([...labels, ...obstacles].every((other) => !touch(spot, other))) return spot;
    }
  }
  return null;
}

/** Room for two lines right (side 1) or left (−1) of a wire's vertical part, clear of all else. */
function freeSpot(ctx, points, lines, side, labels, obstacles, ownId) {
  const [first, second] = lines;
  const widths = [textWidth(ctx, first, font(12, 600)), textWidth(ctx, second, font(11))];
  const [w, h] = [Math.max(...widths) + NAME_AIR, 28];
  const xs = [points[0][0], points.at(-1)[0]].sort((a, b) => (b - a) * side);
  const ends = [points[0][1], points.at(-1)[1]].sort((a, b) => a - b);
  const isShort = ends[1] - ends[0] < 200; // one channel; else it goes through a gutter
  const middle = isShort ? (ends[0] + ends[1]) / 2 : points[1][1];
  const slack = isShort ? Math.max(0, (ends[1] - ends[0]) / 2 - h / 2 - 10) : 0;
  for (const dy of [0, slack / 2, -slack / 2, slack, -slack]) {
    for (const x of xs) {
      const spot = { x: side > 0 ? x + 9 : x - 9 - w, y: middle - h / 2 + dy, w, h };
      const own = { ...spot, x: spot.x + 4, w: w - 8 };
      const isFree = labels.every((label) => !touch(spot, label))
        && obstacles.every((o) => !touch(o.id === ownId ? own : spot, o));
      if (isFree) return spot;
    }
  }
  return null;
}
