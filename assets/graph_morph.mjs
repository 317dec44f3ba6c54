// One stage of a graph turning into another: what survives moves, what is pruned fades where it
// stood, what is added grows out of the edge or node that it belongs to. Pure: payloads in, at any
// share of the way boxes, bands, tiles, links and wires out.

import { pointAt } from "./shapes.mjs";

const mean = (a, b, share) => a + (b - a) * share;

/** How two payloads hang together; `at(share)` is the picture between them. */
export function planMorph(before, after) {
  const ways = waysOf(before, after);
  const routes = routesOf(before, after, ways);
  return { at: (share) => ({
    share,
    boxes: rectsAt(before.boxes, after.boxes, ways.box, share),
    bands: rectsAt(before.bands, after.bands, ways.band, share),
    tiles: tilesAt(before, after, ways, share),
    links: [
      ...routes.leavingLinks.map((one) => leave(one, share)),
      ...routes.links.map((one) => come(one, share)),
    ],
    wires: [
      ...routes.leavingWires.map((one) => leave(one, share)),
      ...routes.wires.map((one) => come(one, share)),
    ],
  }) };
}

// ---- tiles ----

const byId = (items) => new Map(items.map((item) => [item.id, item]));

function membersOf(payload) {
  const members = new Map(payload.tiles.map((tile) => [tile.id, []]));
  for (const node of payload.nodes) members.get(node.tile)?.push(node);
  return members;
}

/** Tile, band and box before and after, for every tile of either. */
function waysOf(before, after) {
  const [old, fresh] = [before, after].map((payload) => ({
    tiles: byId(payload.tiles), members: membersOf(payload),
    home: new Map(payload.nodes.map((node) => [node.id, node.tile])),
  }));
  const from = new Map(after.tiles.map((tile) => [tile.id, wayOf(tile, fresh, old)]));
  const to = new Map(before.tiles.map((tile) => [tile.id, wayOf(tile, old, fresh)]));
  const band = { from: new Map(), to: new Map() };
  const box = { from: new Map(), to: new Map() };
  const boxOf = (payload) => new Map(payload.bands.map((one) => [one.id, one.box]));
  const [oldBox, newBox] = [boxOf(before), boxOf(after)];
  for (const [id, way] of from) {
    if (!way.kept) continue;
    const [a, b] = [old.tiles.get(way.kept).band, fresh.tiles.get(id).band];
    if (!band.from.has(b)) band.from.set(b, a);
    if (!band.to.has(a)) band.to.set(a, b);
    if (!box.from.has(newBox.get(b))) box.from.set(newBox.get(b), oldBox.get(a));
    if (!box.to.has(oldBox.get(a))) box.to.set(oldBox.get(a), newBox.get(b));
  }
  return { from, to, band, box };
}

/** A tile's start in another stage, and how far that is from its place. */
function wayOf(tile, own, other) {
  const way = startOf(tile, own, other);
  return { ...way, shift: way.x === undefined ? [0, 0] : [way.x - tile.x, way.y - tile.y] };
}

/** Where a tile comes from in another stage: {x, y}, with `kept`, the tile there that holds one of
 *  its nodes; `out` where it grows out of another one's place; nothing where it stands alone. */
function startOf(tile, own, other, depth = 0) {
  const same = other.tiles.get(tile.id);
  if (same) return { x: same.x, y: same.y, kept: same.id, same: true };
  const nodes = own.members.get(tile.id) ?? [];
  const holder = nodes.map((node) => other.home.get(node.id)).find((id) => id !== undefined);
  if (holder !== undefined) {
    const { x, y } = other.tiles.get(holder);
    return { x, y, kept: holder };
  }
  const origin = nodes.find((node) => node.origin)?.origin;
  const there = other.tiles.get(other.home.get(origin));
  if (there) return { x: there.x, y: there.y, out: true };
  const near = own.tiles.get(own.home.get(origin));
  if (near && near.id !== tile.id && depth < 1) {
    const { x, y } = startOf(near, own, other, depth + 1);
    if (x !== undefined) return { x, y, out: true };
  }
  return {};
}

function tilesAt(before, after, { from, to }, share) {
  const leaving = before.tiles.filter((tile) => !to.get(tile.id).same).map((tile) => {
    const way = to.get(tile.id);
    const end = way.x === undefined ? tile : way;
    return {
      ...tile, x: mean(tile.x, end.x, share), y: mean(tile.y, end.y, share),
      shown: 1 - share, grown: way.out ? 1 - share : 1, leaving: true,
    };
  });
  const coming = after.tiles.map((tile) => {
    const way = from.get(tile.id);
    const start = way.x === undefined ? tile : way;
    return {
      ...tile, x: mean(start.x, tile.x, share), y: mean(start.y, tile.y, share),
      shown: way.same ? 1 : share, grown: way.out ? share : 1,
    };
  });
  return [...leaving, ...coming];
}

/** Boxes or bands: one that is new grows out of the one that held its nodes. */
function rectsAt(before, after, { from, to }, share) {
  const [old, fresh] = [byId(before), byId(after)];
  const between = (a, b) => Object.fromEntries(
    ["x", "y", "w", "h"].map((side) => [side, mean(a[side], b[side], share)]),
  );
  const coming = after.map((rect) => {
    const start = old.get(rect.id) ?? old.get(from.get(rect.id)) ?? rect;
    return { ...rect, ...between(start, rect), shown: old.has(rect.id) ? 1 : share };
  });
  const leaving = before.filter((rect) => !fresh.has(rect.id)).map((rect) => {
    const end = fresh.get(to.get(rect.id)) ?? rect;
    return { ...rect, ...between(rect, end), shown: 1 - share, leaving: true };
  });
  return [...leaving, ...coming];
}

// ---- links and wires ----

const EDGE = " ▸ ";
const isTag = (end) => /^[<>]/.test(end);

/** Every edge of the dataflow, whether it stays in its band or crosses: tiles → {points, wire}. */
function edgesOf(payload) {
  const home = new Map(payload.nodes.map((node) => [node.id, node.tile]));
  const edges = new Map();
  for (const link of payload.links) {
    if (isTag(link.src) || isTag(link.dst)) continue;
    edges.set(link.src + EDGE + link.dst, { points: link.points });
  }
  for (const wire of payload.wires) {
    for (const part of wire.parts) {
      for (const dst of part.dsts) {
        const ends = home.get(part.src) + EDGE + home.get(dst);
        edges.set(ends, { points: wire.points, wire: wire.id });
      }
    }
  }
  return edges;
}

/** What every link and wire starts as: {item, start: points or null, isNew}. */
function routesOf(before, after, ways) {
  const come = comingRoutes(before, after, ways.from);
  const back = comingRoutes(after, before, ways.to);
  const isGone = ({ isNew, edge, isOfTag }) => isNew && (isOfTag || !edge);
  return {
    ...come,
    leavingLinks: back.links.filter(isGone), leavingWires: back.wires.filter(isGone),
  };
}

function comingRoutes(before, after, from) {
  const edges = edgesOf(before);
  const home = new Map(after.nodes.map((node) => [node.id, node.tile]));
  const oldWires = byId(before.wires);
  const oldLinks = new Map(before.links.map((link) => [link.src + EDGE + link.dst, link]));
  const kept = (tile) => from.get(tile)?.kept;
  const shift = (tile) => from.get(tile)?.shift ?? [0, 0];
  const edgeOf = (src, dst) => edges.get(kept(src) + EDGE + kept(dst));
  const starts = new Map();
  const namesakes = new Map(); // wire → what stood for it before, if that was a wire as well
  const wires = after.wires.map((wire) => {
    const [{ src, dsts }] = wire.parts;
    const same = oldWires.get(wire.id);
    const found = same ? { points: same.points, wire: same.id }
      : edgeOf(home.get(src), home.get(dsts[0]));
    const edge = found?.points;
    if (found?.wire) namesakes.set(wire.id, found.wire);
    const start = edge ?? moved(wire.points, shift(home.get(src)), shift(home.get(dsts[0])));
    starts.set(wire.id, start);
    return { item: wire, start, edge, isNew: !same, tags: same?.isPair ? 1 : 0 };
  });
  const links = after.links.map((link) => {
    const tag = [link.src, link.dst].find(isTag);
    const before = (end) => (isTag(end) ? end[0] + (namesakes.get(end.slice(1)) ?? "") : end);
    const same = oldLinks.get(before(link.src) + EDGE + before(link.dst));
    const ends = tag && starts.get(tag.slice(1));
    const point = ends && (tag.startsWith(">") ? ends[0] : ends.at(-1));
    const edge = same?.points ?? (tag ? point && [point] : edgeOf(link.src, link.dst)?.points);
    const start = edge ?? moved(link.points, shift(link.src), shift(link.dst));
    return { item: link, start, edge, isNew: !same, isOfTag: Boolean(tag) };
  });
  return { links, wires };
}

/** Points of a line whose two ends were elsewhere. */
function moved(points, [ax, ay], [bx, by]) {
  const along = shares(points);
  return points.map(([x, y], i) => [
    x + mean(ax, bx, along[i]), y + mean(ay, by, along[i]),
  ]);
}

/** How far along its line each point is, 0 … 1. */
function shares(points) {
  const far = [0];
  for (let i = 1; i < points.length; i += 1) {
    const [[ax, ay], [bx, by]] = [points[i - 1], points[i]];
    far.push(far[i - 1] + Math.hypot(bx - ax, by - ay));
  }
  const whole = far.at(-1) || 1;
  return far.map((length) => length / whole);
}

function between(start, points, share) {
  if (start.length === points.length) {
    return points.map(([x, y], i) => [mean(start[i][0], x, share), mean(start[i][1], y, share)]);
  }
  const along = shares(points);
  return points.map(([x, y], i) => {
    const [a, b] = pointAt(start, along[i]);
    return [mean(a, x, share), mean(b, y, share)];
  });
}

const come = ({ item, start, edge, isNew, tags = 1 }, share) => ({
  ...item, points: between(start, item.points, share),
  shown: isNew && !edge ? share : 1, grown: mean(tags, 1, share),
});

const leave = ({ item, start }, share) => ({
  ...item, points: between(start, item.points, 1 - share), shown: 1 - share, grown: 1 - share,
  leaving: true,
});
