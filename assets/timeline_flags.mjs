// What stands out in the run, as numbered flags in the strip of all steps.

import { font } from "./core.mjs";
import { polygon } from "./shapes.mjs";

const TALL = 15;
const WIDE = 17;
const APART = 3; // px between two flags

/** Where the flags stand: [{i, x, left, w, top, pole}], none over another. `rowOf(flag)` is the top
 *  and the foot of the rows that it is about. */
export function placeFlags(flags, xOf, rowOf, right) {
  const placed = [];
  const at = flags.map(({ start, end }) => Math.min(right - 1, xOf((start + end) / 2)));
  for (const i of [...flags.keys()].sort((a, b) => at[a] - at[b])) {
    const x = at[i];
    const [top, foot] = rowOf(flags[i]);
    const w = WIDE;
    let left = Math.min(x, right - w);
    for (const other of placed) {
      const isBeside = Math.abs(other.top - top) < TALL;
      if (isBeside && left < other.left + other.w + APART) left = other.left + other.w + APART;
    }
    if (left + w > right) continue; // it is in the list all the same
    placed.push({ i, x, left, w, top, foot });
  }
  return placed;
}

export function drawFlags(ctx, { theme }, placed, current) {
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  for (const { i, x, left, w, top, foot } of placed) {
    const isCurrent = i === current;
    ctx.fillStyle = theme.ink;
    ctx.fillRect(Math.round(x), top, 1.6, foot - top);
    if (left > x + 2) ctx.fillRect(x, top, left - x, 1.6);
    flagShape(ctx, left, top, w);
    ctx.fillStyle = isCurrent ? theme.mark : theme.ink;
    ctx.fill();
    ctx.strokeStyle = isCurrent ? theme.ink : theme.panel;
    ctx.lineWidth = 1;
    ctx.stroke();
    ctx.fillStyle = isCurrent ? theme["on-hue"] : theme.bg;
    ctx.font = font(11, 700);
    ctx.fillText(String(i + 1), left + w / 2 - 1, top + TALL / 2 + 0.5);
  }
}

function flagShape(ctx, x, y, w) {
  polygon(ctx, [[x, y], [x + w, y], [x + w - 4, y + TALL / 2], [x + w, y + TALL], [x, y + TALL]]);
}

/** The flag under a point; -1 for none. */
export function flagAt(placed, x, y) {
  return placed.find(({ left, w, top }) => x >= left - 2 && x <= left + w + 2
    && y >= top - 2 && y <= top + TALL + 2)?.i ?? -1;
}
