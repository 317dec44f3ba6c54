// What the replay draws over the graph: nodes that run, wait or are dead, tokens on the wires.
// A `scene` is that of graph_draw.mjs with replay, now, tiles, wireOf, shares, textures, chosen.

import { ellipsis, font, haloText, inkOn, mix, textWidth } from "./core.mjs";
import { halfTile } from "./graph_draw.mjs";
import { drawGlyph } from "./graph_glyphs.mjs";
import { drawFailed } from "./graph_marks.mjs";
import { ROUND, TAGS, hueOf } from "./graph_model.mjs";
import { place, stroke, touch } from "./graph_wires.mjs";
import { FLAG, LOST, TAKEN, WAITING, endOf, isDeadAt, keyHas, openKeys } from "./replay_model.mjs";
import { tensorOf } from "./replay_words.mjs";
import { lengthsOf, pointAt, roundRect } from "./shapes.mjs";

const TOKEN = 13; // radius
const APART = 0.16; // of a wire: nearer ones stand side by side
const BEFORE = 19; // pixels of its wire between a Recv and the sign that it waits
const LOOP_OPS = new Set(["Enter", "Merge", "Switch", "NextIteration", "Exit", "LoopCond"]);

const ramps = new WeakMap();

/** Four steps from light to dark, in the dark theme from dark to light; an iteration has one. */
export function ramp(theme) {
  if (!ramps.has(theme)) {
    const { panel, compute, ink } = theme;
    const steps = theme.isDark
      ? [[panel, compute, 0.3], [panel, compute, 0.85], [compute, ink, 0.42], [compute, ink, 0.82]]
      : [[panel, compute, 0.14], [panel, compute, 0.46], [panel, compute, 0.86],
        [compute, ink, 0.5]];
    ramps.set(theme, steps.map(([from, to, share]) => mix(from, to, share)));
  }
  return ramps.get(theme);
}

export const colourOf = (theme, iteration) => ramp(theme)[Math.max(0, iteration) % 4];

const lengthOf = (points) => Math.max(1, lengthsOf(points).reduce((sum, one) => sum + one, 0));

export function drawReplay(ctx, scene) {
  for (const tile of scene.tiles) drawTileState(ctx, scene, tile);
  const spots = tokenSpots(scene);
  for (const spot of spots) if (spot.state === WAITING) drawAwaited(ctx, scene, spot);
  for (const spot of spots) if (spot.state !== WAITING) drawTokenAt(ctx, scene, spot);
  drawTokenNames(ctx, scene, spots);
  return spots;
}

// ---- nodes ----

function drawTileState(ctx, scene, tile) {
  const state = scene.tileStates.get(tile.id);
  if (!state || TAGS.has(tile.kind)) return;
  const { theme, zoom, textures, replay } = scene;
  const [x, y] = place(scene)(tile.x, tile.y);
  const half = halfTile(scene);
  const path = () => {
    if (ROUND.has(tile.kind) && tile.count === 1) {
      ctx.beginPath();
      ctx.arc(x, y, half, 0, 7);
    } else roundRect(ctx, x - half, y - half, 2 * half, 2 * half, 6 * Math.min(1.4, zoom));
  };
  const fill = fillOf(scene, tile, state);
  if (fill) {
    path();
    ctx.fillStyle = fill;
    ctx.fill();
    if (state.hasFailed) stroke(ctx, theme["error-s"], 1.4, [3, 2.5]);
    else if (state.isDead && !state.running) stroke(ctx, theme.line2, 1.4, [3, 2.5]);
    else stroke(ctx, theme[`${hueOf(tile.kind)}-s`], 1.4);
    const isTexture = fill === textures.hatch || fill === textures.dots;
    const ink = isTexture ? theme.ink : inkOn(fill, theme);
    if (zoom >= 0.5) drawSign(ctx, scene, tile, x, y, half, ink, isTexture);
  }
  if (state.hasFailed) drawFailed(ctx, scene, x, y, half);
  const iteration = replay.item.iteration[state.item];
  const isBadged = state.running || state.isLoopNode || tile.count > 1;
  if (iteration >= 0 && isBadged && zoom >= 0.5) {
    const r = zoom < 0.7 ? 7 : 8.5;
    drawToken(ctx, theme, x + half, y - half, r, iteration, state.isDead);
  }
}

/** The glyph; on a chip where a texture would cut it. */
function drawSign(ctx, { theme, zoom }, tile, x, y, half, ink, isTexture) {
  if (isTexture) {
    const r = 9 * Math.min(1.4, zoom);
    roundRect(ctx, x - r, y - r, 2 * r, 2 * r, 4);
    ctx.fillStyle = theme.panel;
    ctx.fill();
  }
  drawGlyph(ctx, tile.glyph, x, y, 2 * half, ink);
}

/** Full hue while it runs, dots while it is ready, hatch once it was passed by; a node of a loop
 *  keeps the colour of the iteration that it ran last. */
function fillOf({ theme, textures, replay }, tile, state) {
  if (state.running) return theme[hueOf(tile.kind)];
  if (state.hasFailed) return theme.error;
  if (state.isReady) return textures.dots;
  if (tile.count > 1) return null; // some of a scope may be dead, and of different iterations
  if (state.isDead) return textures.hatch;
  if (state.isLoopNode) return colourOf(theme, replay.item.iteration[state.item]);
  return null;
}

/** Tile → {running, isReady, item that began last, hasFailed, isDead, isLoopNode} of what began.
 *  `tileOf` holds for every item the place of its tile in `ids`, -1 for none. */
export function tileStates(replay, now, { tileOf, ids }) {
  const { item, ops } = replay;
  const last = new Int32Array(ids.length).fill(-1);
  for (let i = 0; i < now.begun; i += 1) if (tileOf[i] >= 0) last[tileOf[i]] = i;
  const found = new Map();
  const of = (i) => {
    const id = ids[tileOf[i]];
    if (id !== undefined && !found.has(id)) found.set(id, { running: 0, isReady: false, item: i });
    return found.get(id);
  };
  for (const i of last) if (i >= 0) of(i);
  for (const i of now.running) if (tileOf[i] >= 0) of(i).running += 1;
  for (const i of now.ready) if (tileOf[i] >= 0) of(i).isReady = true;
  for (const state of found.values()) {
    const hasRun = state.item < now.begun;
    state.hasFailed = hasRun && (item.flags[state.item] & FLAG.ERROR) !== 0
      && item.end[state.item] <= now.time;
    state.isDead = hasRun && (item.flags[state.item] & FLAG.DEAD) !== 0;
    state.isLoopNode = hasRun && item.iteration[state.item] >= 0
      && LOOP_OPS.has(ops[item.op[state.item]]);
  }
  return found;
}

/** The ring of the selection round a tile, as the graph draws it. */
export function drawRing(ctx, scene, tile) {
  const [x, y] = place(scene)(tile.x, tile.y);
  const half = halfTile(scene) + 3.5;
  roundRect(ctx, x - half, y - half, 2 * half, 2 * half, 8);
  stroke(ctx, scene.theme.outline, 6);
  stroke(ctx, scene.theme.mark, 3.4);
}

// ---- tokens ----

/** Where the tokens are: {row, state, x, y, r, wire}; two at one place stand side by side. */
function tokenSpots(scene) {
  const { replay, now, model, wireOf, shares, zoom, only } = scene;
  const used = new Map();
  const spots = [];
  for (const row of openKeys(replay, now)) {
    const wire = model.wires.get(wireOf[row]);
    if (!wire || now.states[row] === LOST) continue;
    if (only && wire.from !== only && wire.to !== only) continue;
    const isWaiting = now.states[row] === WAITING;
    const points = wire.points.map(([x, y]) => place(scene)(x, y));
    const moved = isWaiting ? 1 - Math.min(0.5, (BEFORE * zoom) / lengthOf(points))
      : 0.09 + 0.82 * (shares.get(row) ?? 0);
    const slot = `${wire.id} ${isWaiting ? "waits" : Math.round(moved / APART)}`;
    const turn = used.get(slot) ?? 0;
    used.set(slot, turn + 1);
    if (isWaiting && turn && scene.chosen?.row !== row) continue; // one sign for all that wait
    const isControl = keyHas(replay, row, FLAG.CONTROL);
    const r = Math.max(5, TOKEN * Math.min(1, zoom)) * (isControl || isWaiting ? 0.75 : 1);
    const [x, y] = pointAt(points, moved);
    const aside = isWaiting ? 0 : turn * (2 * r + 1);
    spots.push({ row, state: now.states[row], x: x - aside, y, r, wire });
  }
  return spots;
}

function drawTokenAt(ctx, scene, { row, x, y, r }) {
  const { theme, replay, now, chosen } = scene;
  const iteration = replay.item.iteration[endOf(replay, row)];
  if (chosen?.row === row) drawMark(ctx, theme, x, y, r);
  drawToken(ctx, theme, x, y, r, iteration, isDeadAt(replay, now, row));
}

/** The ring of what is chosen. */
function drawMark(ctx, theme, x, y, r) {
  ctx.beginPath();
  ctx.arc(x, y, r + 4.5, 0, 7);
  ctx.fillStyle = theme.mark;
  ctx.fill();
  stroke(ctx, theme.outline, 1.6);
}

/** A circle with its iteration, wider for a long number; hollow, dashed and struck if dead. */
export function drawToken(ctx, theme, x, y, r, iteration, isDead) {
  const fill = isDead ? theme.panel : colourOf(theme, iteration < 0 ? 1 : iteration);
  const style = font(Math.max(10.5, 0.95 * r), 680);
  const isSaid = iteration >= 0 && r >= 6.5;
  const half = isSaid ? Math.max(r, textWidth(ctx, String(iteration), style) / 2 + 4) : r;
  roundRect(ctx, x - half, y - r, 2 * half, 2 * r, r);
  ctx.fillStyle = fill;
  ctx.fill();
  stroke(ctx, isDead ? theme.ink2 : theme.ink, 1.6, isDead ? [3, 2.4] : []);
  if (isDead) {
    ctx.beginPath();
    ctx.moveTo(x - 0.7 * r, y + 0.7 * r);
    ctx.lineTo(x + 0.7 * r, y - 0.7 * r);
    stroke(ctx, theme.ink2, 1.6);
  }
  if (!isSaid) return;
  ctx.font = style;
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  if (isDead) haloText(ctx, String(iteration), x, y + 0.5, theme.ink2, theme.panel);
  else {
    ctx.fillStyle = inkOn(fill, theme);
    ctx.fillText(String(iteration), x, y + 0.5);
  }
  ctx.textBaseline = "alphabetic";
}

/** A receiver that waits: a place for a token in the texture of waiting, before its tag. */
function drawAwaited(ctx, { theme, textures, chosen }, { row, x, y, r }) {
  if (chosen?.row === row) drawMark(ctx, theme, x, y, r);
  ctx.beginPath();
  ctx.arc(x, y, r, 0, 7);
  ctx.fillStyle = textures.hatch;
  ctx.fill();
  stroke(ctx, theme["recv-s"], 1.4, [2.5, 2.5]);
}

/** The chosen token's tensor, and which are dead: what a circle cannot say. */
function drawTokenNames(ctx, scene, spots) {
  const { theme, words, replay, now, chosen, zoom } = scene;
  if (zoom < 0.5) return;
  ctx.textAlign = "right"; // the names of wires stand on the other side
  ctx.textBaseline = "middle";
  const style = font(11.5, 650);
  ctx.font = style;
  const taken = spots.map(({ x, y, r }) => ({ x: x - r, y: y - r, w: 2 * r, h: 2 * r }));
  for (const { row, state, x, y, r } of spots) {
    const isDead = state !== TAKEN && isDeadAt(replay, now, row);
    const isChosen = chosen?.row === row;
    if (!isDead && !isChosen) continue;
    const text = isChosen ? tensorOf(replay, row) : words.dead;
    const short = ellipsis(text, (t) => textWidth(ctx, t, style), 150);
    const w = textWidth(ctx, short, style);
    const spot = { x: x - r - 5 - w, y: y - 7, w, h: 14 };
    if (!isChosen && taken.some((other) => touch(spot, other))) continue;
    taken.push(spot);
    haloText(ctx, short, x - r - 5, y + 0.5, theme.ink, theme.bg);
  }
  ctx.textBaseline = "alphabetic";
}
