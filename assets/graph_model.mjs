// What the graph canvas knows of a payload: indexes, neighbours, heat, levels of detail, overview.
// Pure: no canvas and no page, so that `node --test` can ask it everything.

import { HitGrid, heatShare } from "./core.mjs";

export const TILE = 34;
export const ROUND = new Set(["variable", "read"]);
export const HOLLOW = new Set(["const", "control"]);
export const TAGS = new Set(["feed", "fetch"]);
const LABEL_TIME_NS = 100_000; // shorter times are not worth a line under the name

/** Level of detail by zoom (screen pixels per layout pixel). */
export function levelOf(zoom) {
  if (zoom < 0.25) return { name: "overview", tag: 0 };
  if (zoom < 0.5) return { name: "small", tag: 8 };
  if (zoom < 0.8) return { name: "glyphs", tag: 12, glyph: true, pairLabels: "large" };
  const full = { tag: 18, glyph: true, names: true, pairLabels: "all" };
  return zoom <= 1.4 ? { name: "names", ...full } : { name: "cards", ...full, cards: true };
}

/** Width of a wire in pixels: 1.8 for a few bytes, 7 for 784 KiB, never over 9. */
export const wireWidth = (bytes) => Math.min(9, 1.8 + 1.8 * Math.log10(1 + bytes / 1024));

/** The hue a tile has, whatever its heat. */
export function hueOf(kind) {
  return ["variable", "read", "update"].includes(kind) ? "update" : "compute";
}

/** Indexes over a payload of vizdist/figures/partitioned_graph.py. */
export function buildModel(payload) {
  const nodes = new Map(payload.nodes.map((node) => [node.id, node]));
  const tiles = new Map();
  for (const tile of payload.tiles) {
    tiles.set(tile.id, { ...tile, nodes: [], time: 0, wait: 0, bytes: 0 });
  }
  for (const node of payload.nodes) {
    const tile = tiles.get(node.tile);
    tile.nodes.push(node);
    for (const measure of ["time", "wait", "bytes"]) tile[measure] += node[measure];
  }
  const wires = new Map(payload.wires.map((wire) => [wire.id, wire]));
  const model = { payload, nodes, tiles, wires, neighbours: new Map(), bySpan: new Map() };
  linkNeighbours(model);
  for (const node of payload.nodes) if (node.span) model.bySpan.set(node.span, node.id);
  for (const wire of payload.wires) {
    for (const span of wire.spans) if (span) model.bySpan.set(span, wire.id);
  }
  model.range = Object.fromEntries(
    ["time", "wait", "bytes"].map((measure) => [measure, rangeOf(model, measure)]),
  );
  return model;
}

/** neighbours: tile → {tiles, wires} that share an edge with it. */
function linkNeighbours(model) {
  const of = (id) => {
    if (!model.neighbours.has(id)) {
      model.neighbours.set(id, { tiles: new Set(), wires: new Set() });
    }
    return model.neighbours.get(id);
  };
  for (const link of model.payload.links) {
    if (!model.tiles.has(link.src) || !model.tiles.has(link.dst)) continue;
    of(link.src).tiles.add(link.dst);
    of(link.dst).tiles.add(link.src);
  }
  for (const wire of model.payload.wires) {
    for (const end of endsOfWire(model, wire)) {
      of(end).wires.add(wire.id);
      for (const other of endsOfWire(model, wire)) if (other !== end) of(end).tiles.add(other);
    }
  }
}

/** Tiles at both ends of a wire. */
export function endsOfWire(model, wire) {
  const ends = [wire.src, ...wire.dsts].map((id) => model.nodes.get(id)?.tile);
  return [...new Set(ends.filter((id) => id !== undefined))];
}

function rangeOf(model, measure) {
  const values = [...model.tiles.values()].map((tile) => tile[measure]).filter((v) => v > 0);
  return values.length ? [Math.min(...values), Math.max(...values)] : [0, 0];
}

/** 0 … 1: how hot a tile is under a heat choice; null where nothing was measured. */
export function tileHeat(model, tile, choice) {
  if (choice === "plain") return null;
  const [low, high] = model.range[choice];
  return tile[choice] > 0 && high > 0 ? heatShare(tile[choice], low, high) : 0;
}

/** The line under a name: the time of a tile, if it is worth it. */
export const isTimeShown = (tile) => tile.time >= LABEL_TIME_NS;

/** What a selection of the page means here: {tile} or {wire}, and the node if it is one. */
export function resolve(model, selection) {
  if (!selection) return null;
  const { type, id } = selection;
  const name = type === "span" ? model.bySpan.get(id) : id;
  const node = model.nodes.get(name);
  if (node && type !== "edge" && type !== "key") return { tile: node.tile, node: node.id };
  if (model.tiles.has(name) && type === "node") return { tile: name, node: null };
  const asked = type === "edge" ? name.split("→") : [name];
  for (const wire of model.payload.wires) {
    const known = [wire.id, wire.send, wire.recv, wire.key];
    if (asked.some((one) => one && known.includes(one))) return { wire: wire.id };
  }
  return null;
}

/** Everything that stays lit beside a selection. */
export function litBy(model, found) {
  if (!found) return null;
  if (found.wire) {
    const wire = model.wires.get(found.wire);
    return { tiles: new Set(endsOfWire(model, wire)), wires: new Set([wire.id]) };
  }
  const near = model.neighbours.get(found.tile) ?? { tiles: new Set(), wires: new Set() };
  return { tiles: new Set([found.tile, ...near.tiles]), wires: near.wires };
}

/** The selection a click publishes for a tile or a wire. */
export function selectionOf(model, hit) {
  if (!hit) return null;
  if (hit.type === "wire") {
    const wire = model.wires.get(hit.id);
    if (wire.key) return { type: "key", id: wire.key };
    return { type: "edge", id: wire.isPair ? `${wire.send}→${wire.recv}` : wire.id };
  }
  if (hit.type === "frame") return { type: "node", id: hit.first };
  const tile = model.tiles.get(hit.id);
  return { type: "node", id: tile.nodes.length === 1 ? tile.nodes[0].id : tile.id };
}

/** Hit rectangles in layout coordinates; tiles lie over wires. */
export function hitGrid(payload) {
  const grid = new HitGrid(96);
  for (const wire of payload.wires) {
    for (let i = 1; i < wire.points.length; i += 1) {
      const [[ax, ay], [bx, by]] = [wire.points[i - 1], wire.points[i]];
      grid.add({ type: "wire", id: wire.id },
        Math.min(ax, bx) - 5, Math.min(ay, by) - 5, Math.abs(ax - bx) + 10, Math.abs(ay - by) + 10);
    }
    for (const [x, y] of [wire.points[0], wire.points.at(-1)]) {
      grid.add({ type: "wire", id: wire.id }, x - 11, y - 11, 22, 22);
    }
  }
  for (const tile of payload.tiles) {
    grid.add({ type: "tile", id: tile.id }, tile.x - TILE / 2, tile.y - TILE / 2, TILE, TILE);
  }
  return grid;
}

/** Between two payloads: where each tile and box was, and how far it has come. */
export function interpolate(before, after, share) {
  const old = new Map(before.tiles.map((tile) => [tile.id, tile]));
  const oldBoxes = new Map(before.boxes.map((box) => [box.id, box]));
  const mean = (a, b) => a + (b - a) * share;
  const tiles = after.tiles.map((tile) => {
    const from = old.get(tile.id);
    return from ? { ...tile, x: mean(from.x, tile.x), y: mean(from.y, tile.y), shown: 1 }
      : { ...tile, shown: share };
  });
  const kept = new Set(after.tiles.map((tile) => tile.id));
  const leaving = before.tiles.filter((tile) => !kept.has(tile.id))
    .map((tile) => ({ ...tile, shown: 1 - share }));
  const boxes = after.boxes.map((box) => {
    const from = oldBoxes.get(box.id);
    if (!from) return { ...box, shown: share };
    const [x, y, w, h] = ["x", "y", "w", "h"].map((side) => mean(from[side], box[side]));
    return { ...box, x, y, w, h, shown: 1 };
  });
  return { tiles: [...leaving, ...tiles], boxes };
}

// ---- overview ----

const FRAME = { head: 18, foot: 16, pad: 5, apart: 6, title: 92, boxApart: 14, least: 26, step: 8 };

/** Below zoom 0.25: every node a square in the frame of its scope, boxes as wide as the canvas.
 *  Returns boxes, frames with squares, bundles in two gutters; all in screen pixels. */
export function overview(model, width, height, top = 12) {
  const bundles = bundlesOf(model.payload);
  const lanes = { left: 0, right: 0 };
  const order = new Map(model.payload.boxes.map((box, i) => [box.id, i]));
  const stretches = { left: [], right: [] };
  for (const bundle of bundles) {
    const ends = [order.get(bundle.from), order.get(bundle.to)].sort((a, b) => a - b);
    const taken = stretches[bundle.side];
    let lane = 0;
    while (taken.some((t) => t.lane === lane && t.low <= ends[1] && ends[0] <= t.high)) lane += 1;
    taken.push({ lane, low: ends[0], high: ends[1] });
    bundle.lane = lane;
    lanes[bundle.side] = Math.max(lanes[bundle.side], lane + 1);
  }
  const left = Math.max(20, 34 + 9 * lanes.left);
  const right = width - Math.max(20, 34 + 9 * lanes.right);
  const boxes = [];
  const frames = [];
  const share = (height - top) / Math.max(1, model.payload.boxes.length) - FRAME.boxApart - 16;
  const rows = Math.floor((share - FRAME.head - FRAME.foot - 2 * FRAME.pad) / FRAME.step);
  const across = [left + FRAME.title, right - 10];
  let y = top;
  for (const box of model.payload.boxes) {
    const { placed, height: used } = packFrames(model, box.id, across, y + 8, Math.max(1, rows));
    const ends = bundles.filter((b) => b.from === box.id || b.to === box.id).length;
    const h = Math.max(used + 16, 84, 18 + 16 * Math.ceil(ends / 2));
    boxes.push({ ...box, x: left, y, w: right - left, h });
    frames.push(...placed);
    y += h + FRAME.boxApart;
  }
  placeBundles(bundles, boxes);
  return { boxes, frames, bundles, height: y };
}

/** Frames of one box from left to right; as low as the width allows, up to `most` rows of squares
 *  at first, more if they must. A frame that still finds no room starts a new line. */
function packFrames(model, boxId, [x0, x1], y0, most) {
  const frames = framesOf(model, boxId);
  const { step } = FRAME;
  const largest = Math.max(1, ...frames.map((frame) => frame.nodes.length));
  let rows = Math.min(most, Math.ceil(Math.sqrt(largest)));
  const columnsOf = (frame) => Math.ceil(frame.nodes.length / rows);
  const widthOf = (frame) => Math.max(FRAME.least, columnsOf(frame) * step + 2 * FRAME.pad - 2);
  const needed = () => frames.reduce((sum, frame) => sum + widthOf(frame) + FRAME.apart, 0);
  while (needed() > x1 - x0 && rows < Math.max(most, 24)) rows += 1;
  const spare = Math.max(0, x1 - x0 - needed()) / Math.max(1, frames.length);
  const apart = FRAME.apart + Math.min(44, spare);
  const h = rows * step + 2 * FRAME.pad - 2;
  const line = FRAME.head + h + FRAME.foot;
  let [x, y] = [x0, y0];
  for (const frame of frames) {
    const w = widthOf(frame);
    if (x + w > x1 && x > x0) [x, y] = [x0, y + line + FRAME.apart];
    const columns = columnsOf(frame);
    frame.squares = frame.nodes.map((node, i) => ({
      node,
      x: x + FRAME.pad + (i % columns) * step,
      y: y + FRAME.head + FRAME.pad + Math.floor(i / columns) * step,
    }));
    Object.assign(frame, { x, y: y + FRAME.head, w, h, room: w + apart - 4 });
    x += w + apart;
  }
  return { placed: frames, height: y + line - y0 };
}

/** Frames of a box with their nodes, in the order of the dataflow. */
function framesOf(model, boxId) {
  const found = new Map();
  for (const node of model.payload.nodes) {
    const frame = model.payload.frames[node.frame];
    if (frame.box !== boxId) continue;
    if (!found.has(frame.id)) found.set(frame.id, { ...frame, nodes: [], sum: 0 });
    const entry = found.get(frame.id);
    entry.nodes.push(node);
    entry.sum += model.tiles.get(node.tile).x;
  }
  const mean = (frame) => frame.sum / frame.nodes.length;
  return [...found.values()].sort((a, b) => mean(a) - mean(b));
}

/** One bundle per pair of boxes and direction. */
export function bundlesOf(payload) {
  const bundles = new Map();
  for (const wire of payload.wires) {
    if (wire.from === wire.to) continue;
    const id = `${wire.from} → ${wire.to}`;
    if (!bundles.has(id)) {
      bundles.set(id, { id, from: wire.from, to: wire.to, bytes: 0, pairs: 0, reads: 0 });
    }
    const bundle = bundles.get(id);
    bundle.bytes += wire.bytes;
    bundle.pairs += 1;
    bundle.reads += wire.isRead ? 1 : 0;
  }
  for (const bundle of bundles.values()) {
    bundle.side = bundle.reads * 2 > bundle.pairs ? "left" : "right";
  }
  return [...bundles.values()];
}

/** Gives every bundle its points: out of a box's side, along its lane, into the other's side. */
function placeBundles(bundles, boxes) {
  const byId = new Map(boxes.map((box) => [box.id, box]));
  const ends = new Map();
  for (const bundle of bundles) {
    for (const id of [bundle.from, bundle.to]) {
      const key = `${id} ${bundle.side}`;
      if (!ends.has(key)) ends.set(key, []);
      ends.get(key).push(bundle);
    }
  }
  const yOf = (bundle, id) => {
    const list = ends.get(`${id} ${bundle.side}`);
    const box = byId.get(id);
    return box.y + (box.h * (list.indexOf(bundle) + 1)) / (list.length + 1);
  };
  for (const bundle of bundles) {
    const [a, b] = [byId.get(bundle.from), byId.get(bundle.to)];
    const isLeft = bundle.side === "left";
    const edge = isLeft ? a.x : a.x + a.w;
    const x = isLeft ? a.x - 22 - 9 * bundle.lane : a.x + a.w + 22 + 9 * bundle.lane;
    const [y0, y1] = [yOf(bundle, bundle.from), yOf(bundle, bundle.to)];
    bundle.points = [[edge, y0], [x, y0], [x, y1], [isLeft ? b.x : b.x + b.w, y1]];
  }
}
