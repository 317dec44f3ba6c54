// Marks over the graph: what the runtime added, the critical path, selection and keyboard focus.
// A `scene` is what graph_draw.mjs says.

import { font } from "./core.mjs";
import { TAGS, edgeOf, isChosen } from "./graph_model.mjs";
import { halfTile, place, stroke, tilePath } from "./graph_wires.mjs";
import { focusRing, polygon, roundRect, roundedPath, tagPoints } from "./shapes.mjs";

const BADGE = 6.5; // radius of the sign that a node was added
const NUMBER_ZOOM = 1.1; // from here on the critical path is numbered

/** A plus at the corner of what was added, a ring for a part of a control loop, a wave for what an
 *  optimization changed. */
export function drawBadge(ctx, { theme }, coming, x, y, half) {
  const [cx, cy] = [x + half, y - half];
  ctx.beginPath();
  ctx.arc(cx, cy, BADGE, 0, 7);
  ctx.fillStyle = theme.panel;
  ctx.fill();
  stroke(ctx, theme.ink2, 1);
  ctx.beginPath();
  if (coming === "loop") {
    ctx.arc(cx, cy, 3, -0.9, 4.2);
    ctx.moveTo(cx + 4.6, cy - 3.6);
    ctx.lineTo(cx + 1.9, cy - 2.3);
    ctx.lineTo(cx + 4.4, cy - 0.6);
  } else if (coming === "changed") {
    ctx.moveTo(cx - 3.4, cy + 0.6);
    ctx.bezierCurveTo(cx - 1.4, cy - 4, cx + 1.4, cy + 4, cx + 3.4, cy - 0.6);
  } else {
    ctx.moveTo(cx - 3, cy);
    ctx.lineTo(cx + 3, cy);
    ctx.moveTo(cx, cy - 3);
    ctx.lineTo(cx, cy + 3);
  }
  stroke(ctx, theme.ink, 1.3);
}

/** A cross at the corner of an op that ended with an error: its hue alone would not say so. */
export function drawFailed(ctx, { theme }, x, y, half) {
  const [cx, cy, arm] = [x + half, y - half, Math.min(3.4, half / 3)];
  ctx.beginPath();
  ctx.arc(cx, cy, 2 * arm, 0, 7);
  ctx.fillStyle = theme.panel;
  ctx.fill();
  stroke(ctx, theme["error-s"], 1.2);
  ctx.beginPath();
  for (const side of [-1, 1]) {
    ctx.moveTo(cx - arm, cy - side * arm);
    ctx.lineTo(cx + arm, cy + side * arm);
  }
  stroke(ctx, theme["error-s"], 1.8);
}

/** What stays lit where only what the runtime added is asked for; null if nothing is asked. */
export function addedIn(model) {
  const tiles = model.payload.tiles
    .filter(({ id }) => model.tiles.get(id).nodes.some((one) => one.coming || one.changed));
  const wires = model.payload.wires.filter((wire) => wire.isPair);
  return { tiles: new Set(tiles.map(({ id }) => id)), wires: new Set(wires.map(({ id }) => id)) };
}

// ---- critical path ----

const sideOf = (tile) => (tile.kind === "feed" ? "recv" : "send");

/** What of a graph is on a critical path: {tiles, wires: Map id → places, links, count}. Links are
 *  "from→to", as graph_draw.mjs asks for them. */
export function pathIn(model, { pieces }) {
  const wireOf = new Map();
  for (const wire of model.payload.wires) {
    for (const part of wire.parts) {
      for (const name of [part.send, part.recv, edgeOf(part.key)]) {
        if (name) wireOf.set(name, wire.id);
      }
    }
  }
  const found = { tiles: new Map(), wires: new Map(), links: new Set(), count: 0 };
  let last = null;
  for (const { name, key } of pieces) {
    const tile = model.nodes.get(name)?.tile;
    const wire = tile ? undefined : wireOf.get(name) ?? wireOf.get(edgeOf(key));
    const id = tile ?? wire;
    if (id === undefined || id === last?.id) continue;
    if (last) found.links.add(tile ? `${last.out}→${id}` : `${last.id}→>${id}`);
    last = { id, out: tile ? id : `<${id}` };
    found.count += 1;
    const list = tile ? found.tiles : found.wires;
    if (!list.has(id)) list.set(id, []);
    list.get(id).push(found.count);
  }
  return found;
}

/** Under the wires: an ink line along those on the path. */
export function drawPathWires(ctx, scene) {
  if (!scene.path) return;
  for (const wire of scene.wires) {
    if (!scene.path.wires.has(wire.id)) continue;
    const points = wire.points.map(([x, y]) => place(scene)(x, y));
    roundedPath(ctx, points, 9 * Math.min(1, scene.zoom));
    stroke(ctx, scene.theme.ink, 9 * Math.min(1, Math.max(0.6, scene.zoom)));
  }
}

/** Under the tiles: an ink ring around those on the path. */
export function drawPathTiles(ctx, scene) {
  if (!scene.path) return;
  for (const tile of scene.tiles) {
    if (!scene.path.tiles.has(tile.id)) continue;
    const [x, y] = place(scene)(tile.x, tile.y);
    const kind = tile.count > 1 ? "stack" : tile.kind;
    if (TAGS.has(tile.kind)) polygon(ctx, tagPoints(sideOf(tile), x, y, 22, "right"));
    else tilePath(ctx, kind, x, y, halfTile(scene) + 2, scene.zoom);
    stroke(ctx, scene.theme.ink, 3.4);
  }
}

/** Over everything, where there is room: the place that each has on the path. */
export function drawPathNumbers(ctx, scene) {
  const { theme, zoom, path } = scene;
  const half = halfTile(scene);
  if (!path || zoom < NUMBER_ZOOM) return;
  for (const tile of scene.tiles) {
    const numbers = path.tiles.get(tile.id);
    if (!numbers) continue;
    const [x, y] = place(scene)(tile.x, tile.y);
    drawNumber(ctx, theme, numbers, x - half, y - half);
  }
  for (const wire of scene.wires) {
    const numbers = path.wires.get(wire.id);
    if (!numbers) continue;
    const [[ax, ay], [bx, by]] = [wire.points[0], wire.points[1]];
    drawNumber(ctx, theme, numbers, ...place(scene)((ax + bx) / 2, (ay + by) / 2));
  }
}

function drawNumber(ctx, theme, numbers, x, y) {
  const text = numbers.length > 1 ? `${numbers[0]}…` : String(numbers[0]);
  const w = Math.max(16, 7 * text.length + 8);
  roundRect(ctx, x - w / 2, y - 8, w, 16, 8);
  ctx.fillStyle = theme.ink;
  ctx.fill();
  ctx.font = font(10.5, 650);
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  ctx.fillStyle = theme.bg;
  ctx.fillText(text, x, y + 0.5);
  ctx.textBaseline = "alphabetic";
}

// ---- selection and focus ----

/** Selection and keyboard focus, over everything. */
export function drawMarks(ctx, scene, level) {
  drawBandMarks(ctx, scene);
  for (const tile of scene.tiles) {
    if (isChosen(scene.found, "tile", tile.id) && !tile.leaving) drawRing(ctx, scene, tile);
  }
  drawFocus(ctx, scene, level);
}

function drawBandMarks(ctx, scene) {
  const { theme, zoom, zoomY = zoom } = scene;
  for (const id of scene.found?.bands ?? []) {
    const band = scene.bands.find((one) => one.id === id);
    if (!band) continue;
    const [x, y] = place(scene)(band.x, band.y);
    roundRect(ctx, x, y, band.w * zoom, band.h * zoomY, 7);
    stroke(ctx, theme.outline, 6.4);
    stroke(ctx, theme.mark, 3.4);
  }
}

function drawRing(ctx, scene, tile) {
  const { theme, zoom } = scene;
  const half = halfTile(scene);
  const [x, y] = place(scene)(tile.x, tile.y);
  const kind = tile.count > 1 ? "stack" : tile.kind;
  tilePath(ctx, kind, x, y, half + 4.5, zoom);
  stroke(ctx, theme.outline, 2);
  tilePath(ctx, kind, x, y, half + 2, zoom);
  stroke(ctx, theme.mark, 3.4);
  if (!TAGS.has(tile.kind)) return;
  polygon(ctx, tagPoints(sideOf(tile), x, y, 18, "right"));
  stroke(ctx, theme.ink, 1.4);
}

function drawFocus(ctx, scene, level) {
  const { theme, focus } = scene;
  const tile = focus?.type === "tile" && scene.tiles.find((one) => one.id === focus.id);
  if (tile) {
    const half = halfTile(scene);
    const [x, y] = place(scene)(tile.x, tile.y);
    focusRing(ctx, theme, x - half - 8, y - half - 8, 2 * half + 16, 2 * half + 16, 10);
  }
  const wire = focus?.type === "wire" && level.tag && scene.model.wires.get(focus.id);
  for (const [wx, wy] of wire ? [wire.points[0], wire.points.at(-1)] : []) {
    const [x, y] = place(scene)(wx, wy);
    focusRing(ctx, theme, x - 14, y - 14, 28, 28, 14);
  }
}
