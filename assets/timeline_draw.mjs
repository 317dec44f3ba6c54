// The body of the timeline: boxes, lanes, grid, arrows, bars, what is lit, names at the left.

import { ellipsis, font, textWidth } from "./core.mjs";
import { focusRing, roundRect } from "./shapes.mjs";
import { drawArrows, nameStub } from "./timeline_arrows.mjs";
import { BarPainter } from "./timeline_bars.mjs";
import { isFolded, laneTitle, walkMarks } from "./timeline_model.mjs";
import { drawPath } from "./timeline_path.mjs";
import { paintBars } from "./timeline_pieces.mjs";
import { drawStalls, labelStalls } from "./timeline_stalls.mjs";

const EDGE = 8; // from the canvas to the boxes

/** Paints the body into the area {x, y, w, h} of bars; names stand left of it. Returns what
 *  was drawn: {boxes, arrows, stalls, path}. */
export function drawBody(ctx, scene) {
  const { area, layout, theme } = scene;
  const placed = new Map(layout.rows.map((row) => [row.id, row]));
  const seen = layout.rows.filter((row) => isSeen(scene, row));
  const counts = { boxes: 0 };
  ctx.save();
  clip(ctx, 0, area.y, scene.width, area.h);
  for (const box of layout.boxes) drawBox(ctx, scene, box);
  ctx.save();
  clip(ctx, area.x, area.y, area.w, area.h);
  drawGrid(ctx, scene);
  ctx.translate(area.x, area.y - scene.scroll);
  const stalls = drawStalls(ctx, scene, placed);
  counts.stalls = stalls.length;
  counts.arrows = drawArrows(ctx, scene, placed);
  labelStalls(ctx, scene, stalls);
  if (scene.tile) {
    counts.boxes = scene.pieces ? scene.pieces.draw(ctx, scene)
      : paintBars(ctx, { ...scene, rows: seen, width: area.w });
    drawMarks(ctx, scene, seen);
  }
  counts.path = drawPath(ctx, scene, placed);
  for (const stub of scene.stubs ?? []) nameStub(ctx, scene, stub);
  if (scene.lit) drawLit(ctx, scene, placed);
  if (scene.focus) drawFocus(ctx, scene, placed);
  ctx.restore();
  drawNames(ctx, scene);
  if (layout.height > area.h) drawThumb(ctx, scene, theme);
  ctx.restore();
  return counts;
}

function clip(ctx, x, y, w, h) {
  ctx.beginPath();
  ctx.rect(x, y, w, h);
  ctx.clip();
}

const isSeen = ({ scroll, area }, { y, h }) => y + h >= scroll && y <= scroll + area.h;

function drawBox(ctx, scene, box) {
  const { theme, area, scroll, width } = scene;
  roundRect(ctx, EDGE + 0.5, area.y - scroll + box.y + 0.5, width - 2 * EDGE - 1, box.h - 1, 9);
  ctx.fillStyle = theme.panel;
  ctx.fill();
  ctx.strokeStyle = theme.line;
  ctx.lineWidth = 1;
  ctx.stroke();
}

function drawGrid(ctx, { ticks, area, layout, scroll, from, scale, theme }) {
  ctx.fillStyle = theme.line;
  const tall = Math.min(area.h, layout.height - scroll);
  for (const { at } of ticks.ticks) {
    ctx.fillRect(Math.round(area.x + (at - from) * scale), area.y, 1, tall);
  }
}

/** What is said over the bars, which changes with every move: names stay where they are seen. */
function drawMarks(ctx, scene, seen) {
  const { tile, from, to, scale } = scene;
  const painter = new BarPainter(ctx, tile, { ...scene, width: scene.area.w });
  for (const row of seen) {
    const order = tile.orders.get(row.id);
    if (!order) continue;
    painter.row(row.y, row.h);
    painter.reached = Infinity; // no queue over what runs
    walkMarks(tile, order, from, to, scale, painter);
  }
  painter.writeLabels();
}

// ---- what is lit ----

/** Where a box is on screen; of a recv the part in which something happened. */
export function extent(tile, i, { from, scale }) {
  const isRecv = tile.hues[tile.hue[i]] === "recv";
  const quiet = isRecv ? Math.max(0, tile.wait[i] - tile.stood[i]) : 0;
  const x = (tile.start[i] + quiet - from) * scale;
  return [x, Math.max(3, (tile.duration[i] - quiet) * scale)];
}

/** Selected spans on yellow with an ink outline, those linked to them on yellow; all bars again. */
function drawLit(ctx, scene, placed) {
  const { lit, theme, area } = scene;
  const painter = new BarPainter(ctx, lit, { ...scene, width: area.w });
  for (let i = lit.count - 1; i >= 0; i -= 1) {
    const row = placed.get(lit.row[i]);
    const [x, w] = extent(lit, i, scene);
    if (!row || x + w < -6 || x > area.w + 6) continue;
    const left = Math.max(x, -20);
    const right = Math.min(x + w, area.w + 20);
    roundRect(ctx, left - 4, row.y - 3, right - left + 8, row.h + 6, 5);
    ctx.fillStyle = theme.mark;
    ctx.fill();
    if (i < lit.selected) {
      ctx.strokeStyle = theme.isDark ? theme.bg : theme.ink;
      ctx.lineWidth = 2;
      ctx.stroke();
    }
    painter.row(row.y, row.h);
    painter.reached = Infinity; // its queue is drawn already
    painter.whole(i, (lit.start[i] - scene.from) * scene.scale, lit.duration[i] * scene.scale);
  }
  painter.writeLabels();
}

function drawFocus(ctx, scene, placed) {
  const { tile, i } = scene.focus;
  const row = placed.get(tile.row[i]);
  if (!row) return;
  const [x, w] = extent(tile, i, scene);
  const left = Math.max(x, 3);
  const right = Math.min(x + w, scene.area.w - 3);
  if (right > 0) focusRing(ctx, scene.theme, left - 4, row.y - 4, right - left + 8, row.h + 8, 6);
}

// ---- names ----

function drawNames(ctx, scene) {
  const { theme, area, layout, scroll } = scene;
  const top = area.y - scroll;
  const right = area.x - 10;
  ctx.textBaseline = "middle";
  for (const lane of layout.lanes) {
    if (lane.lane === "client") continue; // the title stands there
    const isThin = isFolded(lane.lane, lane.count, scene.unfolded, lane.task);
    const title = laneTitle(lane.label, scene.words);
    const words = isThin ? `${title} ×${lane.count} ›` : title;
    const room = right - EDGE - 10;
    const sizes = [...(lane.h >= 17 ? [12] : []), 11, 10.5].map((size) => font(size, 400));
    const style = sizes.find((one) => textWidth(ctx, words, one) <= room) ?? sizes.at(-1);
    const text = ellipsis(words, (part) => textWidth(ctx, part, style), room,
      { cut: "start", least: 3 });
    ctx.font = style;
    ctx.fillStyle = theme.ink2;
    ctx.textAlign = "right";
    // in the middle of what is seen of the lane, so that a tall one keeps its name
    const from = Math.max(lane.y, scroll);
    const to = Math.max(from + 12, Math.min(lane.y + lane.h, scroll + area.h));
    ctx.fillText(text, right, top + Math.min((from + to) / 2, lane.y + lane.h - 6) + 0.5);
  }
  ctx.textAlign = "left";
  for (const box of layout.boxes) drawTitle(ctx, scene, box, top);
}

function drawTitle(ctx, { theme, devices, area, isNarrow }, box, top) {
  const room = area.x - EDGE - 18;
  const strong = font(14, 700);
  const measure = (words) => textWidth(ctx, words, strong);
  ctx.font = strong;
  ctx.fillStyle = theme.ink;
  ctx.fillText(ellipsis(box.task, measure, room, { least: 2 }), EDGE + 10, top + box.y + 17);
  const device = devices.get(box.task);
  if (!device || isNarrow) return; // the lanes' names need the line
  ctx.font = font(11.5, 400, '"JetBrains Mono", "SF Mono", Consolas, monospace');
  ctx.fillStyle = theme.ink2;
  ctx.fillText(device, EDGE + 10, top + box.y + 33);
}

function drawThumb(ctx, { area, layout, scroll, width }, theme) {
  const share = area.h / layout.height;
  ctx.fillStyle = theme.line2;
  roundRect(ctx, width - 6, area.y + scroll * share + 2, 4, Math.max(20, area.h * share - 4), 2);
  ctx.fill();
}
