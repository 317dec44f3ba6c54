// Arrows between rows of the timeline: recorded links, those of the critical path, stubs where the
// other end is in a row that is not shown.

import { font, textWidth } from "./core.mjs";

const PX_PER_ARROW = 7; // denser arrows are a tangle
const LEAST_PATH_PX = 60;

/** Arrows of recorded links. Too many at once: only those that touch what is lit, and those of the
 *  critical path, however many there are. */
export function drawArrows(ctx, scene, placed) {
  const { arrows, area, path } = scene;
  scene.stubs = [];
  const shown = arrows ? placedArrows(scene, arrows, placed) : [];
  const isCrowded = shown.length > area.w / PX_PER_ARROW;
  const usual = isCrowded ? shown.filter((arrow) => arrow.isLit) : shown;
  const onPath = path && isWide(path, scene) ? placedArrows(scene, path.arrows, placed) : [];
  const known = new Set(onPath.map(keyOf));
  const drawn = [...usual.filter((arrow) => !known.has(keyOf(arrow))),
    ...onPath.map((arrow) => ({ ...arrow, isStrong: true }))];
  drawn.sort((a, b) => a.isStrong - b.isStrong);
  for (const arrow of drawn) drawArrow(ctx, scene, arrow);
  return drawn.length;
}

/** A path that is a stroke on the screen has lines only. */
const isWide = ({ start, end }, { scale }) => (end.at(-1) - start[0]) * scale >= LEAST_PATH_PX;

const keyOf = ({ arrows, k }) => arrows.source[k] + arrows.target[k];

function placedArrows(scene, arrows, placed) {
  const shown = [];
  for (let k = 0; k < arrows.source.length; k += 1) {
    const arrow = placeArrow(scene, arrows, placed, k);
    if (arrow) shown.push(arrow);
  }
  return shown;
}

function placeArrow({ from, scale, area, litIds }, arrows, placed, k) {
  const source = placed.get(arrows.source_row[k]);
  const target = placed.get(arrows.target_row[k]);
  const x0 = (arrows.source_at[k] - from) * scale;
  const x1 = (arrows.target_at[k] - from) * scale;
  const isAside = Math.max(x0, x1) < 0 || Math.min(x0, x1) > area.w;
  if (isAside || (!source && !target) || source === target) return null;
  const isLit = litIds.has(arrows.source[k]) || litIds.has(arrows.target[k]);
  return { source, target, x0, x1, isLit, isStrong: isLit, isBackwards: x1 < x0 - 1, arrows, k };
}

function drawArrow(ctx, scene, { source, target, x0, x1, isStrong, isBackwards, arrows, k }) {
  const { theme } = scene;
  const isCall = arrows.relation[k] === "rpc"; // what carries values stands out from what asks
  const usual = isCall ? theme.line2 : theme.ink3;
  ctx.strokeStyle = ctx.fillStyle = isBackwards ? theme["error-s"] : isStrong ? theme.ink : usual;
  ctx.lineWidth = isStrong ? 2 : isCall ? 1 : 1.2;
  ctx.setLineDash(isBackwards ? [5, 4] : []);
  if (source && target) curve(ctx, x0, source, x1, target);
  else drawStub(ctx, scene, source ?? target, source ? x0 : x1, arrows, k, Boolean(source));
}

/** From one row to another, with a head. */
export function curve(ctx, x0, source, x1, target) {
  const isDown = target.y > source.y;
  const y0 = isDown ? source.y + source.h : source.y;
  const y1 = isDown ? target.y : target.y + target.h;
  const middle = (y0 + y1) / 2;
  const tip = y1 - (isDown ? 6 : -6);
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.bezierCurveTo(x0, middle, x1, middle, x1, tip);
  ctx.stroke();
  ctx.setLineDash([]);
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  ctx.lineTo(x1 - 3.5, tip);
  ctx.lineTo(x1 + 3.5, tip);
  ctx.fill();
}

/** One end is in a row that is not shown: a short line, and over the bars the other task's name,
 *  once a lane where many are near each other. */
function drawStub(ctx, scene, row, x, arrows, k, isSource) {
  const { rowsById, stubs } = scene;
  const other = rowsById.get(isSource ? arrows.target_row[k] : arrows.source_row[k]);
  const isNear = (stub) => stub.row.task === row.task && stub.row.lane === row.lane
    && Math.abs(stub.x - x) < 46;
  const near = stubs.find(isNear);
  if (!other || near || arrows.relation[k] === "rpc") {
    if (near && row.y < near.row.y) near.row = row; // over the lane, where no bar lies
    ctx.setLineDash([]);
    return;
  }
  stubs.push({ row, x, isSource, name: other.task });
  const way = isSource ? 1 : -1;
  ctx.beginPath();
  ctx.moveTo(x, row.y + 2);
  ctx.lineTo(x + way * 7, row.y - 5);
  ctx.stroke();
  ctx.setLineDash([]);
}

export function nameStub(ctx, { theme, area }, { row, x, isSource, name }) {
  const w = textWidth(ctx, name, font(10.5));
  const left = Math.max(2, Math.min(isSource ? x + 9 : x - 9 - w, area.w - w - 2));
  ctx.fillStyle = theme.panel;
  ctx.fillRect(left - 2, row.y - 11, w + 4, 13);
  ctx.font = font(10.5);
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  ctx.fillStyle = theme.ink2;
  ctx.fillText(name, left, row.y - 1);
}
