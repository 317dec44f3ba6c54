// Above the bars: all steps as a strip of how busy each task was, with the window as a frame in it,
// and the time axis with the cursor.

import { ellipsis, font, formatNs, textWidth } from "./core.mjs";
import { roundRect } from "./shapes.mjs";
import { strikeShape } from "./timeline_bars.mjs";
import { drawFlags } from "./timeline_flags.mjs";
import { MERGE_PX, awayFrom, instantText, stepLabels } from "./timeline_model.mjs";

export const STRIP_HEAD = 26; // the line of step numbers
const COLUMNS_A_HUE = 4;
const MOSTLY = 50; // of 100: a share that gives the ground its texture
const FULL_SHARES = [10, 25, 50, 100];
const GAP_FROM_PX = 10; // shorter steps run into one another
export const AXIS_PX = 34;

/** Heights of the strip for so many tasks: {rowH, pitch, height}. */
export function stripSize(tasks) {
  const pitch = tasks > 3 ? Math.max(8, Math.floor(81 / tasks)) : 27;
  const rowH = Math.max(5, Math.min(20, pitch - 4));
  return { pitch, rowH, height: STRIP_HEAD + tasks * pitch + 6 };
}

/** The busy share that fills a row, of 100: the least round one that nearly all columns stay below.
 *  Tasks that wait most of the time would else be a flat line. */
export function fullShare({ tasks }) {
  const busy = tasks.flatMap((task) => task.busy.filter(Boolean)).sort((a, b) => a - b);
  const usual = busy[Math.floor(0.98 * (busy.length - 1))] ?? 100;
  return FULL_SHARES.find((share) => share >= usual) ?? 100;
}

export function drawStrip(ctx, scene) {
  const { theme, width, strip, area } = scene;
  const { pitch, rowH, height } = stripSize(strip.tasks.length);
  ctx.fillStyle = theme.panel;
  ctx.fillRect(0, 0, width, height);
  ctx.fillStyle = theme.line;
  ctx.fillRect(0, height - 1, width, 1);
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  ctx.fillStyle = theme.ink;
  drawStripTitle(ctx, scene);
  if (scene.fullShare < 100) {
    ctx.textAlign = "right";
    ctx.fillStyle = theme.ink3;
    const said = scene.words.full.replace("{share}", scene.fullShare);
    write(ctx, said, area.x - 10, STRIP_HEAD / 2 + 1, font(11), area.x - 70);
  }
  strip.tasks.forEach((task, n) => {
    const y = STRIP_HEAD + n * pitch;
    drawTask(ctx, scene, task, y, rowH);
    for (const at of task.struck) strikeShape(ctx, theme, stripX(scene, at), y - 2, rowH + 2);
    const isShown = scene.task === null || scene.task === task.task;
    ctx.textAlign = "right";
    ctx.fillStyle = isShown ? theme.ink : theme.ink3;
    const style = font(12, isShown ? 650 : 400);
    if (pitch >= 15) write(ctx, task.task, area.x - 10, y + rowH / 2 + 1, style, area.x - 26);
  });
  drawSteps(ctx, scene, STRIP_HEAD, height);
  drawFrame(ctx, scene, STRIP_HEAD - 4, height - 3);
  drawFlags(ctx, scene, scene.flags, scene.flag);
}

/** Whose steps the numbers count, where it fits beside what fills a row. */
function drawStripTitle(ctx, { words, steps, stepsOf, area, fullShare: full }) {
  const style = font(12, 650);
  const whose = stepsOf ? words.steps_of.replace("{task}", stepsOf) : "";
  const isFree = full >= 100 && textWidth(ctx, whose, style) <= area.x - 26;
  const title = !steps.length ? words.run : whose && isFree ? whose : words.steps;
  write(ctx, title, 18, STRIP_HEAD / 2 + 1, style, area.x - 26);
}

function write(ctx, text, x, y, style, room) {
  ctx.font = style;
  ctx.fillText(ellipsis(text, (words) => textWidth(ctx, words, style), room, { least: 2 }), x, y);
}

export const stripX = ({ strip, area }, at) =>
  area.x + ((at - strip.from) / (strip.to - strip.from)) * area.w;

/** A ground that says what fills most of the time where nothing runs; on it how busy it was. */
function drawTask(ctx, scene, task, y, h) {
  const { theme, area, strip, fullShare: full } = scene;
  ctx.fillStyle = theme.sunk;
  ctx.fillRect(area.x, y, area.w, h);
  for (const { x, w, shares, hue, texture } of groupsOf(task, area.w, full)) {
    if (texture) {
      ctx.globalAlpha = 0.6;
      ctx.fillStyle = scene.patterns[texture];
      ctx.fillRect(area.x + x, y, w, h);
      ctx.globalAlpha = 1;
    }
    ctx.fillStyle = theme[strip.hues[hue]];
    shares.forEach((share, k) => {
      if (!share) return;
      const tall = Math.max(2, share * h);
      ctx.fillRect(area.x + x + k * MERGE_PX, y + h - tall, MERGE_PX, tall);
    });
  }
}

/** Columns by COLUMNS_A_HUE, which share a hue and a texture: [{x, w, shares, hue, texture}]. */
export function groupsOf({ busy, hue, stood, ready }, width, full) {
  const columns = Math.floor(width / MERGE_PX);
  const each = busy.length / columns;
  const groups = [];
  for (let group = 0; group < columns; group += COLUMNS_A_HUE) {
    const sums = new Map();
    const shares = [];
    const idle = { hatch: 0, dots: 0 };
    const last = Math.min(columns, group + COLUMNS_A_HUE);
    let count = 0;
    for (let c = group; c < last; c += 1) {
      const begin = Math.floor(c * each);
      const end = Math.max(begin + 1, Math.floor((c + 1) * each));
      let total = 0;
      for (let b = begin; b < end; b += 1) {
        total += busy[b];
        idle.hatch += stood[b];
        idle.dots += ready[b];
        sums.set(hue[b], (sums.get(hue[b]) ?? 0) + busy[b]);
      }
      count += end - begin;
      shares.push(Math.min(1, total / (end - begin) / full));
    }
    const texture = Object.keys(idle).find((name) => idle[name] > MOSTLY * count) ?? null;
    const larger = [...sums].reduce((a, b) => (b[1] > a[1] ? b : a))[0];
    const x = group * MERGE_PX;
    groups.push({ x, w: (last - group) * MERGE_PX, shares, hue: larger, texture });
  }
  return groups;
}

/** Numbers over the steps of the leading task, and a gap at each of their ends. */
function drawSteps(ctx, scene, top, bottom) {
  const { theme, steps, step, outstanding } = scene;
  const place = (s) => [stripX(scene, s.start), stripX(scene, s.end)];
  const style = (number) => font(12, number === step || number === outstanding ? 700 : 400);
  const widthOf = (text) => textWidth(ctx, text, font(12, 700));
  const isWide = (s) => place(s)[1] - place(s)[0] >= GAP_FROM_PX;
  const isGapped = steps.filter(isWide).length > steps.length / 2; // a gap here and there is noise
  ctx.fillStyle = theme.panel;
  for (const s of isGapped ? steps : []) {
    ctx.fillRect(Math.round(place(s)[1]) - 1, top, 2, bottom - top - 6);
  }
  ctx.textAlign = "center";
  for (const { number, middle } of stepLabels(steps, place, widthOf, step, outstanding)) {
    ctx.font = style(number);
    ctx.fillStyle = number === outstanding ? theme["error-s"]
      : number === step ? theme.ink : theme.ink2;
    ctx.fillText(String(number), middle, STRIP_HEAD / 2 + 1);
  }
}

/** The window in the strip, at least 8 px wide so that a hand can take it. */
export function frameOf(scene) {
  const { area, from, to } = scene;
  const [a, b] = [stripX(scene, from), stripX(scene, to)];
  const wide = Math.max(8, b - a);
  const middle = Math.min(area.x + area.w + 2, Math.max(area.x - 2, (a + b) / 2));
  const left = Math.max(area.x - 3, middle - wide / 2);
  return [left, Math.min(area.x + area.w + 3, middle + wide / 2)];
}

function drawFrame(ctx, scene, top, bottom) {
  const { strip, from, to, area } = scene;
  if (to < strip.from || from > strip.to) {
    drawBeside(ctx, scene.theme, to < strip.from ? [area.x - 4, -7] : [area.x + area.w + 4, 7],
      (top + bottom) / 2);
    return;
  }
  const [left, right] = frameOf(scene);
  roundRect(ctx, left, top, right - left, bottom - top, 4);
  ctx.strokeStyle = scene.theme.ink;
  ctx.lineWidth = 2.2;
  ctx.stroke();
}

/** The window lies before the first step or after the last: an arrow head says on which side. */
function drawBeside(ctx, theme, [x, long], y) {
  ctx.beginPath();
  ctx.moveTo(x, y - 8);
  ctx.lineTo(x + long, y);
  ctx.lineTo(x, y + 8);
  ctx.fillStyle = theme.ink;
  ctx.fill();
}

// ---- axis ----

export function drawAxis(ctx, scene, top) {
  const { theme, area, from, scale, ticks, width } = scene;
  const chip = scene.cursor === null ? null : cursorChip(ctx, scene);
  ctx.fillStyle = theme.bg;
  ctx.fillRect(0, top, width, AXIS_PX);
  ctx.textBaseline = "middle";
  ctx.textAlign = "center";
  ctx.font = font(12, 400);
  ctx.fillStyle = theme.ink2;
  let unit = ` ${ticks.unit}`; // on the first one that is seen
  for (const { at, text } of ticks.ticks) {
    const x = area.x + (at - from) * scale;
    const label = text + unit;
    const half = textWidth(ctx, label, font(12, 400)) / 2;
    const left = Math.max(area.x - 6, Math.min(x - half, width - 8 - 2 * half));
    const isHidden = chip && left < chip.x + chip.w + 6 && left + 2 * half > chip.x - 6;
    if (isHidden) continue;
    ctx.fillText(label, left + half, top + AXIS_PX / 2);
    unit = "";
  }
  drawAway(ctx, scene, top);
  if (chip) drawCursor(ctx, scene, chip, top);
}

/** The selection is not in this window: a mark at the edge says how far it is. */
function drawAway(ctx, { lit, from, to, area, theme, width }, top) {
  if (!lit?.selected) return;
  const away = awayFrom(lit.start[0], lit.start[0] + lit.duration[0], from, to);
  if (!away) return;
  const text = away.isBefore ? `‹ ${formatNs(away.ns)}` : `${formatNs(away.ns)} ›`;
  const w = textWidth(ctx, text, font(12, 650)) + 14;
  const x = away.isBefore ? area.x : width - w - 10;
  ctx.fillStyle = theme.bg;
  ctx.fillRect(x - 10, top, w + 20, AXIS_PX);
  roundRect(ctx, x, top + 7, w, 20, 4);
  ctx.fillStyle = theme.mark;
  ctx.fill();
  ctx.strokeStyle = theme.isDark ? theme.bg : theme.ink;
  ctx.lineWidth = 1.4;
  ctx.stroke();
  ctx.fillStyle = theme["on-hue"];
  ctx.font = font(12, 650);
  ctx.textAlign = "center";
  ctx.fillText(text, x + w / 2, top + 17.5);
}

function cursorChip(ctx, { area, cursor, from, to, scale, origin, width }) {
  const text = instantText(cursor, origin, to - from);
  const w = textWidth(ctx, text, font(12, 650)) + 12;
  const x = area.x + (cursor - from) * scale;
  return { text, line: x, w, x: Math.min(width - w - 4, Math.max(4, x - w / 2)) };
}

function drawCursor(ctx, { theme, height }, { text, line, x, w }, top) {
  ctx.fillStyle = theme.ink;
  ctx.fillRect(Math.round(line), top + AXIS_PX - 8, 1.4, height - top - AXIS_PX + 8);
  roundRect(ctx, x, top + 7, w, 20, 4);
  ctx.fill();
  ctx.fillStyle = theme.bg;
  ctx.font = font(12, 650);
  ctx.textAlign = "center";
  ctx.fillText(text, x + w / 2, top + 17.5);
}
