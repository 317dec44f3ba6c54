// Stalls: where a device stood idle within the step, what it waited for in words, and an arrow from
// the cause to what it held up.

import { ellipsis, font, textWidth } from "./core.mjs";
import { roundRect } from "./shapes.mjs";
import { curve } from "./timeline_arrows.mjs";

const SEEN_PX = 3;
const ARROW_PX = 24; // shorter ones have no arrow
const MOST_ARROWS = 8; // the longest that are seen
const LABEL_PX = 64;

/** A sentence of the catalogue with its values. */
export const fill = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");

/** Returns those that were drawn, for `labelStalls`, once nothing more can lie under the words. */
export function drawStalls(ctx, scene, placed) {
  const seen = seenStalls(scene, placed);
  for (const stall of seen) drawIdle(ctx, scene.theme, stall, scene.area.w);
  const held = seen.filter(({ x0, x1, cause }) => cause && x1 - x0 >= ARROW_PX);
  for (const stall of held.slice(0, MOST_ARROWS)) drawCause(ctx, scene.theme, stall);
  return seen;
}

export function labelStalls(ctx, scene, seen) {
  for (const stall of seen) label(ctx, scene, stall);
}

function seenStalls({ stalls, from, scale, area }, placed) {
  const seen = [];
  for (const stall of stalls ?? []) {
    const row = placed.get(stall.row);
    const [x0, x1] = [(stall.start - from) * scale, (stall.end - from) * scale];
    if (!row || x1 - x0 < SEEN_PX || x1 < 0 || x0 > area.w) continue;
    const source = stall.cause && placed.get(stall.cause.row);
    const cause = source && source.id !== row.id
      ? { row: source, x: (stall.cause.at - from) * scale } : null;
    seen.push({ ...stall, row, x0, x1, cause });
  }
  return seen;
}

/** A line along the row, with an end where the device stopped and where it went on. */
function drawIdle(ctx, theme, { row, x0, x1 }, width) {
  const middle = Math.round(row.y + row.h / 2);
  const tall = Math.min(9, row.h);
  ctx.fillStyle = theme.ink3;
  const left = Math.max(x0, -SEEN_PX);
  ctx.fillRect(left, middle - 0.5, Math.min(x1, width + SEEN_PX) - left, 1);
  for (const x of [x0 + 0.5, x1 - 1.5]) ctx.fillRect(x, middle - tall / 2, 1, tall);
}

/** Dashed, so that nobody takes it for a link; a dot where it begins. */
function drawCause(ctx, theme, { row, x1, cause }) {
  ctx.strokeStyle = ctx.fillStyle = theme.ink;
  ctx.lineWidth = 1.4;
  ctx.setLineDash([2, 3]);
  const isDown = row.y > cause.row.y;
  const y = isDown ? cause.row.y + cause.row.h : cause.row.y;
  curve(ctx, cause.x, cause.row, x1, row);
  ctx.beginPath();
  ctx.arc(cause.x, y, 2.6, 0, 7);
  ctx.fill();
}

/** Before the dots of its op, which was ready and queued. */
function label(ctx, { theme, words, area, from, scale }, { row, x0, ready, key, values }) {
  const left = Math.max(x0, 0);
  const room = Math.min((ready - from) * scale, area.w) - left - 16;
  if (room < LABEL_PX || row.h < 14) return;
  const style = font(row.h >= 20 ? 11.5 : 10.5, 400);
  const measure = (text) => textWidth(ctx, text, style);
  const text = ellipsis(fill(words.stalled[key], values), measure, room);
  if (!text) return;
  const wide = measure(text);
  const x = left + (room + 16 - wide) / 2;
  const middle = row.y + row.h / 2;
  roundRect(ctx, x - 4, middle - 8, wide + 8, 16, 3);
  ctx.fillStyle = theme.panel;
  ctx.fill();
  ctx.font = style;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  ctx.fillStyle = theme.ink2;
  ctx.fillText(text, x, middle + 0.5);
}

/** The stall of a row under an instant; null for none. */
export const stallAt = (stalls, row, at, scale) => stalls?.find((stall) => stall.row === row
  && stall.start <= at && at <= stall.end && (stall.end - stall.start) * scale >= SEEN_PX) ?? null;
