// The critical path: a line under every bar on it. It is told apart from tiles, so that no bar that
// shares a pixel with another can hide it. What only leads to a bar, before it began, is thin.

const TALL = 3.5;
const THIN = 1;
const LEAST_PX = 3;

/** Returns how many lines were drawn. */
export function drawPath(ctx, { path, theme, from, scale, area }, placed) {
  if (!path) return 0;
  const reached = new Map(); // by row: where its last line ends
  let drawn = 0;
  ctx.fillStyle = theme.ink;
  for (let i = 0; i < path.row.length; i += 1) {
    const row = placed.get(path.row[i]);
    const left = Math.max((path.start[i] - from) * scale, -LEAST_PX);
    const right = Math.min((path.end[i] - from) * scale, area.w + LEAST_PX);
    if (!row || right < 0 || left > area.w) continue;
    const last = reached.get(row.id) ?? -Infinity;
    if (right <= last) continue;
    const begin = Math.max(left, last);
    const end = Math.max(right, left + LEAST_PX);
    ctx.fillRect(begin, row.y + row.h - 0.5, end - begin, path.lead?.[i] ? THIN : TALL);
    reached.set(row.id, end);
    drawn += 1;
  }
  return drawn;
}
