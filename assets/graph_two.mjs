// Two stages over one another: the earlier one above, dotted lines from each node to itself, and
// numbers on the edges that the cut between them goes through.

import { ellipsis, fill, font, grouped, textWidth } from "./core.mjs";
import { drawGraph } from "./graph_draw.mjs";
import { isChosen } from "./graph_model.mjs";
import { place, stroke } from "./graph_wires.mjs";
import { pointAt } from "./shapes.mjs";

const NARROW = 700; // below it both pictures are whole, and what is said of them takes lines
const BETWEEN = 72; // layout pixels between the two pictures
const ABOVE = 40; // screen pixels above the upper one
const SIDE = 10;
const FOOT = 12;
const TITLE = 20; // height of a title on a narrow canvas, and of a line below it
const LINE = 16;
const MOST_LINES = 3;
const LEAST = 0.1;
const SQUEEZE = 0.45; // rows are pressed together to this, not more: a tile and its name stay
const MOST_NUMBERS = 60;
const RADIUS = 10.5; // of a number
const ALONG = [0.5, 0.36, 0.64, 0.2, 0.8, 0.05, 0.95]; // where on its edge it may stand

const ofTitle = TITLE + MOST_LINES * LINE;

/** How two pictures stand over one another on a canvas: their scales, by how much the upper one
 *  lies higher (layout pixels), and what is left `above` it (screen pixels). */
export function layTwo({ width, height }, lower, upper, names) {
  const across = width - 2 * SIDE;
  if (width >= NARROW) {
    const rise = upper.height + BETWEEN;
    const size = { width: lower.width, height: lower.height + rise };
    const room = { width: across, height: height - ABOVE - FOOT };
    return { rise, above: ABOVE, scales: scalesOfTwo(room, size, names) };
  }
  const zoom = Math.max(LEAST, Math.min(1, across / Math.max(1, lower.width)));
  const room = height - 2 * ofTitle - FOOT;
  const down = Math.max(LEAST, Math.min(zoom, room / Math.max(1, lower.height + upper.height)));
  return { rise: upper.height + ofTitle / down, above: ofTitle, scales: [zoom, down] };
}

/** Scales of two pictures over one another: names fit beside each other, and both into the height
 *  of the canvas as far as rows can be pressed together. */
export function scalesOfTwo(room, size, names) {
  const across = Math.min(1, Math.max(names, room.width / Math.max(1, size.width)));
  return [across, Math.min(across, Math.max(SQUEEZE, room.height / Math.max(1, size.height)))];
}

/** Edges that became pairs between two stages, left to right: [{upper: points, lower: points}]. */
export function cutsBetween(upper, lower) {
  const edges = new Map();
  const home = new Map(upper.payload.nodes.map((node) => [node.id, node.tile]));
  const known = new Set(upper.payload.wires.filter((wire) => wire.isPair).map(({ id }) => id));
  for (const link of upper.payload.links) edges.set(`${link.src}→${link.dst}`, link.points);
  for (const wire of upper.payload.wires) {
    for (const { src, dsts } of wire.parts) {
      for (const dst of dsts) edges.set(`${home.get(src)}→${home.get(dst)}`, wire.points);
    }
  }
  return lower.payload.wires
    .filter((wire) => wire.isPair && !wire.control && !known.has(wire.id))
    .map((wire) => {
      const [{ src, dsts }] = wire.parts;
      return {
        lower: wire.points, wire: wire.id,
        upper: dsts.map((dst) => edges.get(`${home.get(src)}→${home.get(dst)}`)).find(Boolean),
      };
    })
    .sort((a, b) => a.lower[0][0] - b.lower[0][0]);
}

/** Sentences over both pictures: what there is, and what the step between them did. */
export function saidOf(words, upper, lower) {
  const counts = (model) => {
    const { payload } = model;
    const pairs = payload.wires.filter((wire) => wire.isPair);
    return {
      nodes: payload.nodeCount, pairs: pairs.reduce((sum, wire) => sum + wire.parts.length, 0),
      devices: payload.bands.length,
      gone: payload.nodes.filter((node) => node.going).length,
    };
  };
  const cut = cutsBetween(upper, lower).length;
  const [above, below] = [counts(upper), counts(lower)];
  const added = Math.max(0, below.nodes - (above.nodes - above.gone));
  const say = (text, values) => fill(text ?? "", Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, grouped(value)]),
  ));
  const isSame = lower.payload.isCut && !cut && !added;
  return [
    say(words.two[`upper.${upper.payload.stage}`], { ...above, cut }),
    say(words.two[isSame ? "lower.same" : `lower.${lower.payload.stage}`], { ...below, added }),
  ];
}

/** Both pictures with what joins them; `cuts` and `said` are from the functions above. */
export function drawTwo(ctx, upper, lower, { cuts, said }, width, height) {
  drawIdentity(ctx, upper, lower);
  drawGraph(ctx, upper, width, height);
  drawGraph(ctx, lower, width, height);
  drawNumbers(ctx, upper, lower, cuts);
  for (const [i, scene] of [upper, lower].entries()) {
    drawTitle(ctx, scene, scene.words.stages[scene.payload.stage], said[i], width);
  }
}

/** Lines from every node of the upper picture to itself in the lower one; boxes hide them. */
function drawIdentity(ctx, upper, lower) {
  const { theme, found } = lower;
  const there = new Map(lower.tiles.map((tile) => [tile.id, tile]));
  for (const tile of upper.tiles) {
    const same = there.get(tile.id);
    if (!same) continue;
    const isRinged = isChosen(found, "tile", tile.id);
    ctx.beginPath();
    ctx.moveTo(...place(upper)(tile.x, tile.y));
    ctx.lineTo(...place(lower)(same.x, same.y));
    stroke(ctx, isRinged ? theme.ink : theme.line2, isRinged ? 2 : 1, isRinged ? [] : [2, 3]);
  }
}

/** Ink on panel, as yellow would say that it is selected; each where no other one is. */
function drawNumbers(ctx, upper, lower, cuts) {
  if (lower.zoom < 0.5 || cuts.length > MOST_NUMBERS) return;
  const taken = [];
  cuts.forEach((cut, i) => {
    for (const [scene, points] of [[upper, cut.upper], [lower, cut.lower]]) {
      if (!points) continue;
      const spots = ALONG.map((share) => place(scene)(...pointAt(points, share)));
      const isFree = ([x, y]) => taken.every(([a, b]) => Math.hypot(x - a, y - b) > 2 * RADIUS);
      const spot = spots.find(isFree) ?? spots[0];
      taken.push(spot);
      drawNumber(ctx, scene.theme, String(i + 1), ...spot);
    }
  });
}

function drawNumber(ctx, theme, text, x, y) {
  ctx.beginPath();
  ctx.arc(x, y, RADIUS, 0, 7);
  ctx.fillStyle = theme.panel;
  ctx.fill();
  stroke(ctx, theme.ink, 1.6);
  ctx.font = font(12, 700);
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  ctx.fillStyle = theme.ink;
  ctx.fillText(text, x, y + 0.5);
  ctx.textBaseline = "alphabetic";
}

/** The stage's name and its sentence over a picture, on the ground that lines would cross. */
function drawTitle(ctx, scene, name, sentence, width) {
  const { theme } = scene;
  const [first] = scene.boxes;
  const x = Math.max(12, first ? place(scene)(first.x, 0)[0] : 12);
  const y = place(scene)(0, 0)[1];
  const isNarrow = width < NARROW;
  const title = name.charAt(0).toUpperCase() + name.slice(1);
  const [strong, plain] = [font(15, 680), font(13)];
  const wide = textWidth(ctx, title, strong);
  const left = isNarrow ? x : x + wide + 12;
  const measure = (text) => textWidth(ctx, text, plain);
  const most = isNarrow ? MOST_LINES : 1;
  const lines = linesOf(sentence, measure, width - left - 12, most);
  const right = Math.max(x + wide, ...lines.map((line) => left + measure(line)));
  const high = isNarrow ? TITLE + LINE * lines.length : 22;
  ctx.fillStyle = theme.bg;
  ctx.fillRect(x - 6, y - 7 - high, right - x + 12, high);
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  ctx.fillStyle = theme.ink;
  ctx.font = strong;
  ctx.fillText(title, x, isNarrow ? y - 13 - LINE * lines.length : y - 13);
  ctx.fillStyle = theme.ink2;
  ctx.font = plain;
  lines.forEach((line, i) => ctx.fillText(line, left, y - 13 - LINE * (lines.length - 1 - i)));
}

/** A text in lines that fit, broken between words, and between Chinese characters; what is too much
 *  for so many lines is cut. */
export function linesOf(text, measure, room, most) {
  const pieces = text.match(/[\u2e80-\uffef]|[^\s\u2e80-\uffef]+\s*|\s+/gu) ?? [];
  const lines = [""];
  for (const piece of pieces) {
    const longer = lines.at(-1) + piece;
    const isFull = lines.at(-1) && measure(longer.trimEnd()) > room;
    if (isFull && lines.length < most) lines.push(piece);
    else lines[lines.length - 1] = longer;
  }
  return lines.map((line) => ellipsis(line.trimEnd(), measure, room));
}
