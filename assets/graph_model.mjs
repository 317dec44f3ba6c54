// What the graph canvas knows of a payload: indexes, neighbours, heat, levels of detail, overview.
// Pure: no canvas and no page, so that `node --test` can ask it everything.

import { HitGrid, heatShare } from "./core.mjs";

export const TILE = 34;
export const ROUND = new Set(["variable", "read"]);
export const HOLLOW = new Set(["const", "control"]);
export const TAGS = new Set(["feed", "fetch"]);
const SEEN = 0.55; // of a canvas: a first tile beyond it leaves too little to see
const MEASURES = ["time", "wait", "bytes"];
const LABEL_TIME_NS = 100_000; // from here on a time is worth a line under the name
const LABEL_SHARE = 0.2; // of the highest value: from here on any value is

/** Level of detail by zoom (screen pixels per layout pixel). */
export function levelOf(zoom) {
  if (zoom < 0.25) return { name: "overview", tag: 0 };
  if (zoom < 0.5) return { name: "small", tag: 8 };
  if (zoom < 0.8) return { name: "glyphs", tag: 12, glyph: true, pairLabels: "large" };
  const full = { tag: 18, glyph: true, names: true, pairLabels: "all" };
  return zoom <= 1.4 ? { name: "names", ...full } : { name: "cards", ...full, cards: true };
}

/** What a tile is called; where another of its box has the same name, with what it is. */
export const titleOf = ({ label, role }, { families }) => (
  role ? `${label} · ${families[role] ?? role}` : label
);

/** Width of a wire in pixels: 1.8 for a few bytes, 7 for 784 KiB, never over 9. */
export const wireWidth = (bytes) => Math.min(9, 1.8 + 1.8 * Math.log10(1 + bytes / 1024));

/** Width of an edge in a band: a step wider each time what it holds doubles. */
export const linkWidth = (count) => Math.min(4.5, 1.3 + 0.5 * Math.log2(Math.max(1, count)));

/** The hue a tile has, whatever its heat. */
export function hueOf(kind) {
  return ["variable", "read", "update"].includes(kind) ? "update" : "compute";
}

/** Indexes over a payload of vizdist/figures/partitioned_graph.py. */
export function buildModel(payload) {
  const nodes = new Map(payload.nodes.map((node) => [node.id, node]));
  const tiles = new Map();
  for (const tile of payload.tiles) {
    tiles.set(tile.id, { ...tile, nodes: [], time: 0, wait: 0, queueing: 0, bytes: 0 });
  }
  for (const node of payload.nodes) {
    const tile = tiles.get(node.tile);
    tile.nodes.push(node);
    tile.time += node.time;
    tile.bytes += node.bytes;
    if (node.wait > tile.wait) { // several may wait at once: the longest counts
      [tile.wait, tile.queueing] = [node.wait, node.queueing];
    }
  }
  for (const tile of tiles.values()) Object.assign(tile, fateOf(tile.nodes));
  const wires = new Map(payload.wires.map((wire) => [wire.id, wire]));
  const model = { payload, nodes, tiles, wires, neighbours: new Map(), bySpan: new Map() };
  linkNeighbours(model);
  for (const node of payload.nodes) if (node.span) model.bySpan.set(node.span, node.id);
  for (const wire of payload.wires) {
    for (const part of wire.parts) {
      for (const span of part.spans) if (span) model.bySpan.set(span, wire.id);
    }
  }
  model.range = rangesOf([...tiles.values()]);
  model.nodeRange = rangesOf(payload.nodes);
  return model;
}

/** Of a tile's nodes together: how they came to be there ("" if the client built any of them
 *  and none was changed),
 *  whether the next stage does without them all, and whether one of them failed. */
function fateOf(nodes) {
  const [first] = nodes;
  const isAlike = nodes.every((node) => node.coming === first.coming);
  const isAdded = nodes.length > 0 && nodes.every((node) => node.coming);
  const isChanged = nodes.some((node) => node.changed);
  const coming = isAdded ? (isAlike ? first.coming : "pass") : isChanged ? "changed" : "";
  const failed = nodes.some((node) => node.failed);
  return { coming, failed, going: nodes.length > 0 && nodes.every((node) => node.going) };
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
  const ends = wire.parts.flatMap((part) => [part.src, ...part.dsts])
    .map((id) => model.nodes.get(id)?.tile);
  return [...new Set(ends.filter((id) => id !== undefined))];
}

/** Consumers of a wire: tiles. */
export const targetsOf = (model, wire) =>
  [...new Set(wire.parts.flatMap((part) => part.dsts).map((id) => model.nodes.get(id)?.tile))];

/** Least and most of every measure that is there at all. */
function rangesOf(things) {
  return Object.fromEntries(MEASURES.map((measure) => {
    const values = things.map((thing) => thing[measure]).filter((value) => value > 0);
    return [measure, values.reduce(
      ([low, high], value) => [Math.min(low, value), Math.max(high, value)],
      values.length ? [Infinity, 0] : [0, 0],
    )];
  }));
}

const heatIn = ([low, high], value) => (value > 0 && high > 0 ? heatShare(value, low, high) : 0);

/** 0 … 1: how hot a tile is under a heat choice; null where heat is not shown. */
export const tileHeat = (model, tile, choice) =>
  (choice === "plain" ? null : heatIn(model.range[choice], tile[choice]));

/** The same for one node, among nodes. */
export const nodeHeat = (model, node, choice) =>
  (choice === "plain" ? null : heatIn(model.nodeRange[choice], node[choice]));

/** Whether a tile's value is written under its name, so that heat is not colour alone. */
export function isValueShown(model, tile, choice) {
  const value = tile[choice];
  if (choice === "time" && value >= LABEL_TIME_NS) return true;
  return value > 0 && value >= LABEL_SHARE * model.range[choice][1];
}

/** A rendezvous key without its last part, the frame and iteration: all turns of a loop share an
 *  edge. */
export const edgeOf = (key) => key?.replace(/;\d+:\d+$/, "");

const BY_SPANS = new Set(["span", "rpc", "stall"]); // their ids are those of spans

/** What a selection of the page means here: {tile} or {wire}, and the node or pair if it is one;
 *  {tiles} of a scope that stands open; {bands} of a device or task, with {wires} of a link; {all}
 *  of a stall, what was awaited and what ran next. `names` are those of each of its spans: of the
 *  many turns of a loop the graph knows one by its id. */
export function resolve(model, selection, names = []) {
  if (!selection) return null;
  const { type, id } = selection;
  if (!BY_SPANS.has(type)) return resolveName(model, type, id);
  const found = new Map();
  id.split(",").forEach((span, at) => {
    const known = [model.bySpan.get(span) ?? "", ...names[at] ?? []];
    const own = known.map((name) => resolveName(model, "node", name)).find(Boolean);
    if (own) found.set(own.tile ?? own.wire ?? own.tiles[0], own);
  });
  const all = [...found.values()];
  return all.length > 1 ? { all } : all[0] ?? null;
}

function resolveName(model, type, name) {
  const node = model.nodes.get(name);
  if (node && type !== "edge" && type !== "key") return { tile: node.tile, node: node.id };
  if (type === "device") return bandsOf(model, name);
  if (type === "link") return wiresOf(model, name);
  if (model.tiles.has(name) && type === "node") return { tile: name, node: null };
  const inside = model.payload.tiles.filter((tile) => tile.within === name);
  if (name && inside.length) return { tiles: inside.map((tile) => tile.id) };
  const asked = type === "edge" ? name.split("→") : [edgeOf(name)];
  for (const wire of model.payload.wires) {
    if (name === wire.id) return { wire: wire.id };
    const part = wire.parts.find(
      ({ id, send, recv, carriers = [], key }) => [id, send, recv, ...carriers, edgeOf(key)]
        .some((known) => known && asked.includes(known)),
    );
    if (part) return wire.parts.length > 1 ? { wire: wire.id, part: part.id } : { wire: wire.id };
  }
  return null;
}

/** Whether this tile or wire is chosen itself, not only lit beside what is. */
export const isChosen = (found, kind, id) => found?.[kind] === id
  || (found?.all?.some((one) => one[kind] === id) ?? false);

/** "worker:0", or "worker:0 CPU:0" for one of its devices. */
function bandsOf(model, name) {
  const [task, device] = name.split(" ");
  const bands = model.payload.bands
    .filter((band) => band.box === task && (!device || band.name === device));
  return bands.length ? { bands: bands.map((band) => band.id) } : null;
}

/** "ps:0→worker:0": both ends, and what goes from the one to the other. */
function wiresOf(model, name) {
  const [from, to] = name.split("→").map((end) => bandsOf(model, end)?.bands ?? []);
  const bandOf = (node) => model.tiles.get(model.nodes.get(node)?.tile)?.band;
  const goes = ({ src, dsts }) => from.includes(bandOf(src))
    && dsts.some((dst) => to?.includes(bandOf(dst)));
  const wires = model.payload.wires.filter(({ parts }) => parts.some(goes)).map(({ id }) => id);
  return wires.length ? { bands: [...from, ...to], wires } : null;
}

/** Everything that stays lit beside a selection. */
export function litBy(model, found) {
  if (!found) return null;
  if (found.all) {
    const each = found.all.map((one) => litBy(model, one));
    const together = (kind) => new Set(each.flatMap((one) => [...one[kind]]));
    return { tiles: together("tiles"), wires: together("wires") };
  }
  if (found.wire) {
    const wire = model.wires.get(found.wire);
    return { tiles: new Set(endsOfWire(model, wire)), wires: new Set([wire.id]) };
  }
  if (found.wires) {
    const ends = found.wires.flatMap((id) => endsOfWire(model, model.wires.get(id)));
    return { tiles: new Set(ends), wires: new Set(found.wires) };
  }
  if (found.bands) {
    const inside = model.payload.tiles.filter((tile) => found.bands.includes(tile.band));
    return litTogether(model, inside.map((tile) => tile.id));
  }
  if (found.tiles) return litTogether(model, found.tiles);
  const near = model.neighbours.get(found.tile) ?? { tiles: new Set(), wires: new Set() };
  return { tiles: new Set([found.tile, ...near.tiles]), wires: near.wires };
}

function litTogether(model, ids) {
  const wires = ids.flatMap((id) => [...model.neighbours.get(id)?.wires ?? []]);
  return { tiles: new Set(ids), wires: new Set(wires) };
}

/** The selection a click publishes for a tile or a wire. */
export function selectionOf(model, hit) {
  if (!hit) return null;
  if (hit.type === "wire") {
    const wire = model.wires.get(hit.id);
    const [part] = wire.parts;
    if (wire.parts.length > 1) return { type: "edge", id: wire.id };
    if (part.key) return { type: "key", id: part.key };
    return { type: "edge", id: wire.isPair ? `${part.send}→${part.recv}` : wire.id };
  }
  if (hit.type === "link") return null;
  if (hit.node) return { type: "node", id: hit.node };
  if (hit.type === "frame") return { type: "node", id: hit.first };
  const tile = model.tiles.get(hit.id);
  return { type: "node", id: tile.nodes.length === 1 ? tile.nodes[0].id : tile.id };
}

/** Hit rectangles in layout coordinates; tiles lie over wires. */
export function hitGrid(payload) {
  const grid = new HitGrid(96);
  payload.links.forEach((link, id) => {
    if (link.count > 1) addSegments(grid, { type: "link", id }, link.points, 4);
  });
  for (const wire of payload.wires) {
    addSegments(grid, { type: "wire", id: wire.id }, wire.points, 5);
    for (const [x, y] of [wire.points[0], wire.points.at(-1)]) {
      grid.add({ type: "wire", id: wire.id }, x - 11, y - 11, 22, 22);
    }
  }
  for (const tile of payload.tiles) {
    grid.add({ type: "tile", id: tile.id }, tile.x - TILE / 2, tile.y - TILE / 2, TILE, TILE);
  }
  return grid;
}

function addSegments(grid, item, points, reach) {
  for (let i = 1; i < points.length; i += 1) {
    const [[ax, ay], [bx, by]] = [points[i - 1], points[i]];
    grid.add(item, Math.min(ax, bx) - reach, Math.min(ay, by) - reach,
      Math.abs(ax - bx) + 2 * reach, Math.abs(ay - by) + 2 * reach);
  }
}

/** Where a picture of one box begins, at `home` unless its first tile would hardly be seen. */
export function openingX({ bands, tiles }, box, home, wide) {
  const own = new Set(bands.filter((band) => band.box === box.id).map(({ id }) => id));
  const first = Math.min(...tiles.filter(({ band }) => own.has(band)).map(({ x }) => x));
  return Number.isFinite(first) && first > home + SEEN * wide ? first - 2 * TILE : home;
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

/** Frames of one box from left to right, with as many rows of squares as make the box lowest: up
 *  to `most` at first, more if they must. A frame that finds no room starts a new line. */
function packFrames(model, boxId, [x0, x1], y0, most) {
  const frames = framesOf(model, boxId);
  const rows = bestRows(frames, x1 - x0, most);
  const { widths, lines } = linesOf(frames, rows, x1 - x0);
  const { step } = FRAME;
  const h = rows * step + 2 * FRAME.pad - 2;
  const line = FRAME.head + h + FRAME.foot;
  const used = widths.reduce((sum, w) => sum + w + FRAME.apart, 0);
  const spare = lines > 1 ? 0 : Math.max(0, x1 - x0 - used) / Math.max(1, frames.length);
  const apart = FRAME.apart + Math.min(44, spare);
  let [x, y] = [x0, y0];
  frames.forEach((frame, at) => {
    const w = widths[at];
    if (x + w > x1 && x > x0) [x, y] = [x0, y + line + FRAME.apart];
    const columns = Math.ceil(frame.nodes.length / rows);
    frame.squares = frame.nodes.map((node, i) => ({
      node,
      x: x + FRAME.pad + (i % columns) * step,
      y: y + FRAME.head + FRAME.pad + Math.floor(i / columns) * step,
    }));
    Object.assign(frame, { x, y: y + FRAME.head, w, h, room: w + apart - 4 });
    x += w + apart;
  });
  return { placed: frames, height: y + line - y0 };
}

/** How wide frames are with so many rows of squares, and how many lines they take. */
function linesOf(frames, rows, width) {
  const widths = frames.map((frame) => Math.max(
    FRAME.least, Math.ceil(frame.nodes.length / rows) * FRAME.step + 2 * FRAME.pad - 2,
  ));
  let [x, lines] = [0, 1];
  for (const w of widths) {
    if (x + w > width && x > 0) [x, lines] = [0, lines + 1];
    x += w + FRAME.apart;
  }
  return { widths, lines };
}

function bestRows(frames, width, most) {
  const largest = Math.max(1, ...frames.map((frame) => frame.nodes.length));
  const heightOf = (rows) => linesOf(frames, rows, width).lines
    * (FRAME.head + rows * FRAME.step + 2 * FRAME.pad + FRAME.foot + FRAME.apart);
  let best = Math.min(most, Math.ceil(Math.sqrt(largest)));
  for (let rows = best + 1; rows <= Math.max(most, 24); rows += 1) {
    if (heightOf(rows) < heightOf(best)) best = rows;
  }
  return best;
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
    bundle.pairs += wire.parts.length;
    bundle.reads += wire.isRead ? wire.parts.length : 0;
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
