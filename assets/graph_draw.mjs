// Paints a laid-out graph: boxes, bands, edges, wires with their tags, tiles, names.
// A `scene` is {payload, model, theme, words, zoom, x, y, boxes, bands, tiles, links, wires, heat,
// found, lit, hover, focus, alpha, only, isTwo, path, dead}; graph.mjs makes it. While a stage
// turns into another, things in it are `shown` in part, `grown` in part, or `leaving`.

import {
  CODE_FONT, ellipsis, font, haloText, heat, inkOn, mix, textWidth,
} from "./core.mjs";
import { drawGlyph } from "./graph_glyphs.mjs";
import {
  drawBadge, drawFailed, drawMarks, drawPathNumbers, drawPathTiles, drawPathWires,
} from "./graph_marks.mjs";
import {
  HOLLOW, TAGS, hueOf, isChosen, isValueShown, levelOf, linkWidth, nodeHeat, tileHeat,
  titleOf,
} from "./graph_model.mjs";
import {
  arrowHead, dimOf, drawStubLabels, drawWire, drawWireLabels, halfTile, place, stroke, tilePath,
  touch,
} from "./graph_wires.mjs";
import { countOf, turnsOf, valueText } from "./graph_words.mjs";
import { drawTag, roundRect, roundedPath } from "./shapes.mjs";

const GOING = 0.42; // how strongly what the next stage does without is drawn
const ROOMY = 0.72; // from here on a row has room for names, though its columns are near
const NAME_AIR = 5; // between two names beside each other
export const STUB = 64; // how far beyond a box its wires are followed when it is shown alone

export const bandFill = (theme) =>
  theme.isDark ? theme.sunk : mix(theme.panel, theme.sunk, 0.28);

export function drawGraph(ctx, scene, width, height) {
  const level = levelIn(scene);
  const labels = []; // rectangles that hold words
  ctx.save();
  if (scene.only) clipToBox(ctx, scene, width);
  else if (!scene.isTwo) drawBrackets(ctx, scene);
  drawBoxes(ctx, scene);
  drawLinks(ctx, scene, level, width, height);
  drawPathWires(ctx, scene);
  for (const wire of scene.wires) {
    if (isWireSeen(scene, wire)) drawWire(ctx, scene, wire, level);
  }
  drawPathTiles(ctx, scene);
  for (const tile of scene.tiles) {
    if (isSeen(scene, tile, width, height)) drawTile(ctx, scene, tile, level);
  }
  drawNames(ctx, scene, level, labels, width, height);
  if (scene.only) drawStubLabels(ctx, scene, labels);
  else if (level.pairLabels) drawWireLabels(ctx, scene, level, labels, width, height);
  drawPathNumbers(ctx, scene);
  drawMarks(ctx, scene, level);
  ctx.restore();
}

/** Two stages leave less room between boxes: small tags. Where rows stand far apart there is room
 *  for the names that need no cut. */
function levelIn({ zoom, zoomY = zoom, isTwo }) {
  const level = levelOf(zoom);
  if (isTwo) return { ...level, tag: Math.min(level.tag, 12) };
  return !level.names && level.glyph && zoomY >= ROOMY ? { ...level, wholeNames: true } : level;
}

/** One box with stubs of its wires: what a phone shows. */
function clipToBox(ctx, scene, width) {
  const box = scene.boxes.find((one) => one.id === scene.only);
  if (!box) return;
  const [, top] = place(scene)(0, box.y - STUB);
  ctx.beginPath();
  ctx.rect(0, top, width, (box.h + 2 * STUB) * (scene.zoomY ?? scene.zoom));
  ctx.clip();
}

const isWireSeen = (scene, wire) =>
  !scene.only || wire.from === scene.only || wire.to === scene.only;

function isSeen(scene, item, width, height) {
  const [x, y] = place(scene)(item.x, item.y);
  const reach = 90 * scene.zoom + 60;
  return x > -reach && x < width + reach && y > -reach && y < height + reach;
}

// ---- boxes ----

function drawBoxes(ctx, scene) {
  const { theme, zoom, zoomY = zoom } = scene;
  const to = place(scene);
  for (const box of scene.boxes) {
    const [x, y] = to(box.x, box.y);
    ctx.globalAlpha = box.shown ?? 1;
    roundRect(ctx, x, y, box.w * zoom, box.h * zoomY, 12);
    ctx.fillStyle = theme.panel;
    ctx.fill();
    ctx.lineWidth = 1.4;
    ctx.strokeStyle = theme.line2;
    ctx.setLineDash(scene.payload.isCut ? [] : [6, 4]);
    ctx.stroke();
    ctx.setLineDash([]);
  }
  const drawn = new Set(scene.boxes.map((box) => box.id));
  for (const band of scene.bands) {
    if (!drawn.has(band.box)) continue;
    const [x, y] = to(band.x, band.y);
    ctx.globalAlpha = band.shown ?? 1;
    roundRect(ctx, x, y, band.w * zoom, band.h * zoomY, 7);
    ctx.fillStyle = bandFill(theme);
    ctx.fill();
  }
  for (const box of scene.boxes) {
    ctx.globalAlpha = box.shown ?? 1;
    if (!box.leaving) drawTitle(ctx, scene, box);
  }
  ctx.globalAlpha = 1;
}

/** A box's name and facts in its left column; upright where that is narrow; on a chip at the edge
 *  of the canvas once it has left the picture. */
function drawTitle(ctx, scene, box) {
  const { theme, zoom, zoomY = zoom, words } = scene;
  const [x, y] = place(scene)(box.x, box.y);
  const name = box.id || words.unplaced;
  const column = 84 * zoom;
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  if (x + column < 8) {
    const bottom = y + box.h * zoomY - 24;
    if (bottom > 4) drawChip(ctx, theme, name, 8, Math.min(Math.max(8, y + 8), bottom));
  } else if (column < 66) drawUprightTitle(ctx, scene, name, x + column / 2, y, box.h * zoomY);
  else drawFullTitle(ctx, scene, box, name, x - 4 * (column < 76), y, column - 8);
}

function drawUprightTitle(ctx, { theme }, name, x, y, height) {
  const style = font(11.5, 700);
  ctx.save();
  ctx.translate(x + 4, y + height / 2);
  ctx.rotate(-Math.PI / 2);
  ctx.textAlign = "center";
  ctx.font = style;
  ctx.fillStyle = theme.ink;
  ctx.fillText(ellipsis(name, (t) => textWidth(ctx, t, style), height - 8), 0, 0);
  ctx.restore();
}

function drawFullTitle(ctx, scene, box, name, x, y, room) {
  const { theme, zoomY = scene.zoom, words } = scene;
  const h = box.h * zoomY;
  const write = (text, dy, style, colour) => {
    ctx.font = style;
    ctx.fillStyle = colour;
    const measure = (t) => textWidth(ctx, t, style);
    ctx.fillText(ellipsis(text, measure, room, { least: 3 }), x + 12, y + dy);
  };
  const sizes = [14, 12.5, 11].map((size) => font(size, 700));
  write(name, 28, sizes.find((one) => textWidth(ctx, name, one) <= room) ?? sizes[2], theme.ink);
  const bands = scene.bands.filter((band) => band.box === box.id && band.name && !band.leaving);
  const mono = font(11, 400, CODE_FONT);
  if (bands.length === 1) write(bands[0].name, 44, mono, theme.ink2);
  else {
    for (const band of bands) {
      const dy = (band.y - box.y) * zoomY + (band === bands[0] ? 36 : 18);
      if (band.h * zoomY > 50) write(band.name, dy, mono, theme.ink2);
    }
  }
  const chipAt = bands.length > 1 ? 50 : 52;
  if (box.isMaster && h > 96) drawChip(ctx, theme, words.master, x + 12, y + chipAt);
  if (h < 84) return;
  const lines = [countOf(words, box.nodes)];
  if (box.busy !== null && box.busy !== undefined) {
    const share = (100 * box.busy).toFixed(box.busy < 0.0995 ? 1 : 0);
    const said = words.busy.replace("{share}", share);
    const [word, ...rest] = said.split(" ");
    const isNarrow = textWidth(ctx, said, font(11)) > room && h > 112;
    lines.push(...(isNarrow ? [word, rest.join(" ")] : [said])); // one under the other
  }
  lines.forEach((line, i) => {
    write(line, h - 10 - 16 * (lines.length - 1 - i), font(11), theme.ink2);
  });
}

function drawChip(ctx, theme, text, x, y) {
  const style = font(10.5, 550);
  const w = textWidth(ctx, text, style) + 12;
  roundRect(ctx, x, y, w, 17, 4);
  ctx.fillStyle = theme.sunk;
  ctx.fill();
  ctx.font = style;
  ctx.textBaseline = "middle";
  ctx.fillStyle = theme.ink;
  ctx.fillText(text, x + 6, y + 9);
  ctx.textBaseline = "alphabetic";
}

function drawBrackets(ctx, scene) {
  const { theme, payload, words } = scene;
  const top = scene.boxes[0];
  if (!top) return;
  ctx.textAlign = "center";
  ctx.textBaseline = "alphabetic";
  const style = font(11.5, 550);
  for (const { phase, x0, x1 } of payload.phases) {
    const [left, y] = place(scene)(x0, top.y);
    const [right] = place(scene)(x1, top.y);
    const text = ellipsis(words[phase], (t) => textWidth(ctx, t, style), right - left + 30);
    ctx.globalAlpha = scene.alpha;
    ctx.font = style;
    ctx.fillStyle = theme.ink2;
    ctx.fillText(text, (left + right) / 2, y - 15);
    ctx.fillStyle = theme.line2;
    ctx.fillRect(left, y - 9, right - left, 1);
    ctx.globalAlpha = 1;
  }
}

// ---- edges ----

function isLinkLit(scene, link) {
  if (!scene.found) return false;
  const pair = link.src.startsWith("<") ? link.src : link.dst;
  const wire = /^[<>]/.test(pair) ? pair.slice(1) : null;
  if (wire !== null && scene.model.wires.has(wire)) return scene.lit.wires.has(wire);
  return [link.src, link.dst].some((id) => isChosen(scene.found, "tile", id));
}

/** From a variable to what writes it: no value flows, so the line is faint. */
function isReference(scene, link) {
  return scene.model.tiles.get(link.src)?.kind === "variable"
    && scene.model.tiles.get(link.dst)?.kind === "update";
}

function drawLinks(ctx, scene, level, width, height) {
  const to = place(scene);
  const shrink = Math.min(1, Math.max(0.6, scene.zoom));
  for (const [index, link] of scene.links.entries()) {
    const points = link.points.map(([x, y]) => to(x, y));
    const xs = points.map((p) => p[0]);
    if (Math.max(...xs) < 0 || Math.min(...xs) > width) continue;
    if (Math.max(...points.map((p) => p[1])) < 0) continue;
    if (Math.min(...points.map((p) => p[1])) > height) continue;
    const isLit = isLinkLit(scene, link);
    const { hover } = scene;
    const isLifted = hover && (hover.type === "link" ? hover.id === index
      : link.src === hover.id || link.dst === hover.id);
    const isOnPath = scene.path?.links.has(`${link.src}→${link.dst}`);
    const ends = [link.src, link.dst].map((end) => scene.model.tiles.get(end));
    const fades = ends.some((end) => end?.going) && !isLit ? GOING : 1;
    ctx.globalAlpha = Math.min(fades, dimOf(scene, isLit)) * (link.shown ?? 1);
    const isStrong = isLit || isLifted || isOnPath;
    const rest = isReference(scene, link) ? scene.theme.line2 : scene.theme.ink3;
    ctx.strokeStyle = ctx.fillStyle = isStrong ? scene.theme.ink : rest;
    const thin = linkWidth(link.count) * shrink;
    const usual = rest === scene.theme.line2 ? 0.6 * thin : thin;
    ctx.lineWidth = isOnPath ? 3.4 : isStrong ? thin + 0.7 : usual;
    ctx.setLineDash(link.control ? [3, 3] : []);
    roundedPath(ctx, points, 9 * Math.min(1, scene.zoom));
    ctx.stroke();
    ctx.setLineDash([]);
    if (level.glyph && !link.dst.startsWith(">")) arrowHead(ctx, points.at(-2), points.at(-1));
  }
  ctx.globalAlpha = 1;
}

// ---- tiles ----

/** Fill of a tile: its hue, as strong as its heat. */
export function tileFill(scene, tile) {
  const { heat: choice, model } = scene;
  return fillOf(scene, tile.kind, tileHeat(model, model.tiles.get(tile.id) ?? tile, choice));
}

/** The same for a node that is drawn on its own. */
export const nodeFill = (scene, node) =>
  fillOf(scene, node.kind, nodeHeat(scene.model, node, scene.heat));

function fillOf({ theme, heat: choice }, kind, share) {
  if (HOLLOW.has(kind) && !share) return theme.panel;
  if (share === null) return heat(theme, hueOf(kind), 0.16);
  return heat(theme, { bytes: "send", wait: "ink" }[choice] ?? hueOf(kind), share);
}

function drawTile(ctx, scene, tile, level) {
  const { theme, zoom } = scene;
  const [x, y] = place(scene)(tile.x, tile.y);
  const half = halfTile(scene) * (tile.grown ?? 1);
  ctx.globalAlpha = shownOf(scene, tile);
  if (TAGS.has(tile.kind)) {
    const kind = tile.kind === "feed" ? "recv" : "send";
    drawTag(ctx, theme, kind, x, y, Math.max(6, 18 * Math.min(1, zoom)), "right", true);
    ctx.globalAlpha = 1;
    return;
  }
  const { going: goes, coming, failed } = scene.model.tiles.get(tile.id) ?? tile;
  const fill = goes ? theme.sunk : failed ? theme.error : tileFill(scene, tile);
  const usual = goes || HOLLOW.has(tile.kind) ? theme.line2 : edgeOf(scene, tile);
  const hue = failed ? theme["error-s"] : usual;
  const isHovered = scene.hover?.id === tile.id;
  for (const shift of tile.count > 1 ? [5, 2.5, 0] : [0]) {
    const d = shift * zoom;
    tilePath(ctx, tile.count > 1 ? "stack" : tile.kind, x + d, y - d, half, zoom);
    ctx.fillStyle = fill;
    ctx.fill();
    const isDashed = goes || failed || (HOLLOW.has(tile.kind) && tile.count === 1);
    stroke(ctx, hue, isHovered ? 2.2 : 1.2, isDashed ? [3, 2.5] : []);
  }
  if (level.glyph) drawGlyph(ctx, tile.glyph, x, y, 2 * half, inkOn(fill, theme));
  if (failed) drawFailed(ctx, scene, x, y, half);
  else if (coming && level.glyph) drawBadge(ctx, scene, coming, x, y, half);
  ctx.globalAlpha = 1;
}

export { halfTile };

/** How strongly a tile is drawn: less if something else is lit, if it goes with the next stage, and
 *  while it comes or leaves. */
function shownOf(scene, tile) {
  const dim = dimOf(scene, scene.lit?.tiles.has(tile.id));
  const isGoing = scene.model.tiles.get(tile.id)?.going;
  const fades = isGoing && !isChosen(scene.found, "tile", tile.id);
  return (fades ? Math.min(dim, GOING) : dim) * (tile.shown ?? 1);
}

/** Outline of a tile: that of its hue, or of what its heat shows. */
const edgeOf = ({ theme, heat: choice }, tile) =>
  theme[{ bytes: "send-s", wait: "line2" }[choice] ?? `${hueOf(tile.kind)}-s`];

/** Lines of words under a tile, most important first. */
function linesOf(scene, tile, level) {
  const { model, heat: choice } = scene;
  const full = model.tiles.get(tile.id);
  if (!full) return [];
  const shown = choice === "plain" ? "time" : choice;
  const turns = full.iterations ? [turnsOf(scene.words, full.iterations)] : [];
  const lines = isValueShown(model, full, shown) || (level.cards && full[shown] > 0)
    ? [...turns, valueText(full, shown)] : turns;
  if (!level.cards || full.count > 1) return lines;
  const [node] = full.nodes;
  const where = [node.device, node.reason].filter(Boolean).join(" · ");
  return [...lines, node.shape, where].filter(Boolean);
}

function drawNames(ctx, scene, level, labels, width, height) {
  const chosen = (tile) => isChosen(scene.found, "tile", tile.id);
  const order = scene.tiles
    .filter((tile) => level.names || level.wholeNames || tile.count > 1)
    .filter((tile) => isSeen(scene, tile, width, height))
    .sort((a, b) => chosen(b) - chosen(a) || valueOf(scene, b) - valueOf(scene, a));
  if (!level.names) labels.push(...tileSpots(scene, width, height));
  const names = order.map((tile) => placeName(ctx, scene, tile, level, labels)).filter(Boolean);
  for (const name of names) widen(ctx, name, labels);
  ctx.textAlign = "center";
  ctx.textBaseline = "alphabetic";
  for (const name of names) writeName(ctx, scene, name);
  ctx.globalAlpha = 1;
}

/** Where tiles are small the rows are near: no name is worth a tile. */
function tileSpots(scene, width, height) {
  const half = halfTile(scene);
  return scene.tiles.filter((tile) => isSeen(scene, tile, width, height)).map((tile) => {
    const [x, y] = place(scene)(tile.x, tile.y);
    return { x: x - half, y: y - half, w: 2 * half, h: 2 * half };
  });
}

const valueOf = (scene, tile) =>
  scene.model.tiles.get(tile.id)?.[scene.heat === "plain" ? "time" : scene.heat] ?? 0;

/** Where a tile's name and value stand, if there is room: in the room of its column at first. */
function placeName(ctx, scene, tile, level, labels) {
  const { zoom, zoomY = zoom, words } = scene;
  const [x, y] = place(scene)(tile.x, tile.y);
  const isTag = TAGS.has(tile.kind);
  const isRinged = isChosen(scene.found, "tile", tile.id);
  const top = y + (isTag ? 9 : halfTile(scene)) + 13;
  const style = font(11, isRinged ? 700 : 550);
  const room = tile.room * Math.max(zoom, 1);
  const text = isTag ? words[tile.kind].replace("{name}", tile.label) : titleOf(tile, words);
  const lines = level.names && zoomY >= zoom ? linesOf(scene, tile, level) : [];
  const spotOf = ([most, shown]) => {
    const name = ellipsis(text, (t) => textWidth(ctx, t, style), most);
    const widest = Math.max(textWidth(ctx, name, style),
      ...shown.map((line) => Math.min(most + 14, textWidth(ctx, line, font(10.5)))));
    const w = widest + NAME_AIR;
    return name && { name, shown, x: x - w / 2, y: top - 10, w, h: 12 + 12 * shown.length };
  };
  const isFree = (spot) => spot && labels.every((label) => !touch(spot, label));
  const fit = room * Math.min(1, zoom); // what neighbours leave is given later
  const tries = isRinged || !level.names ? [[Infinity, lines]]
    : [[fit, lines], [fit, []], [room, []]];
  const spot = tries.map(spotOf).find((one) => isRinged || isFree(one));
  if (!spot) return null;
  labels.push(spot);
  return { tile, x, top, text, style, room, spot };
}

/** Gives a name that was cut what its neighbours left over. */
function widen(ctx, name, labels) {
  const { spot, text, style, x } = name;
  const w = textWidth(ctx, text, style);
  if (spot.name === text || w > 1.8 * name.room) return;
  const wide = { ...spot, name: text, x: x - (w + NAME_AIR) / 2, w: w + NAME_AIR };
  if (labels.every((label) => label === spot || !touch(wide, label))) Object.assign(spot, wide);
}

function writeName(ctx, scene, { tile, x, top, style, room, spot }) {
  const { theme } = scene;
  const under = bandFill(theme);
  ctx.globalAlpha = shownOf(scene, tile);
  ctx.font = style;
  haloText(ctx, spot.name, x, top, theme.ink, under);
  ctx.font = font(10.5);
  spot.shown.forEach((line, i) => {
    const short = ellipsis(line, (t) => textWidth(ctx, t, font(10.5)), room + 14);
    if (short) haloText(ctx, short, x, top + 12 * (i + 1), theme.ink2, under);
  });
}
