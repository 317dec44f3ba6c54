// Paints the overview (zoom below 0.25): the whole graph at a glance, few words.

import { ellipsis, font, textWidth } from "./core.mjs";
import { nodeFill } from "./graph_draw.mjs";
import { ROUND, isChosen, wireWidth } from "./graph_model.mjs";
import { twoColours } from "./graph_wires.mjs";
import { countOf } from "./graph_words.mjs";
import { drawTag, roundRect, roundedPath } from "./shapes.mjs";

/** `view` is what graph_model.overview made. `scene` as in graph_draw. */
export function drawOverview(ctx, scene, view, shift) {
  ctx.save();
  ctx.translate(0, -shift);
  for (const box of view.boxes) drawBox(ctx, scene, box);
  const isShort = areShort(ctx, view);
  for (const frame of view.frames) drawFrame(ctx, scene, frame, isShort);
  for (const bundle of view.bundles) drawBundle(ctx, scene, bundle);
  ctx.restore();
}

function drawBox(ctx, { theme, words, payload }, box) {
  roundRect(ctx, box.x, box.y, box.w, box.h, 12);
  ctx.fillStyle = theme.panel;
  ctx.fill();
  ctx.lineWidth = 1.4;
  ctx.strokeStyle = theme.line2;
  ctx.setLineDash(payload.isCut ? [] : [6, 4]);
  ctx.stroke();
  ctx.setLineDash([]);
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  const name = ellipsis(box.id || words.unplaced, (t) => textWidth(ctx, t, font(14, 700)), 74);
  ctx.font = font(14, 700);
  ctx.fillStyle = theme.ink;
  ctx.fillText(name, box.x + 14, box.y + 26);
  ctx.font = font(11);
  ctx.fillStyle = theme.ink2;
  const share = box.busy === null || box.busy === undefined
    ? [] : [words.busy.replace("{share}", (100 * box.busy).toFixed(0))];
  [...share, countOf(words, box.nodes)].forEach((line, i, all) => {
    ctx.fillText(line, box.x + 14, box.y + box.h - 12 - 15 * (all.length - 1 - i));
  });
}

/** Whether numbered scopes leave out what they number, all alike: one of them has no room. */
const areShort = (ctx, { frames }) => frames.some(({ label, room }) =>
  /\/\d+$/.test(label) && textWidth(ctx, label, font(11, 600)) > room);

function drawFrame(ctx, scene, frame, isShort) {
  const { theme, found } = scene;
  const isRinged = frame.nodes.some((node) => isChosen(found, "tile", node.tile));
  roundRect(ctx, frame.x, frame.y, frame.w, frame.h, 5);
  ctx.fillStyle = isRinged ? theme.mark : theme.panel;
  ctx.fill();
  ctx.lineWidth = isRinged ? 2 : 1;
  ctx.strokeStyle = isRinged ? theme.outline : theme.line2;
  ctx.stroke();
  for (const { node, x, y } of frame.squares) {
    ctx.fillStyle = nodeFill(scene, node);
    ctx.beginPath();
    if (ROUND.has(node.kind)) ctx.arc(x + 3, y + 3, 3, 0, 7);
    else ctx.rect(x, y, 6, 6);
    ctx.fill();
    ctx.lineWidth = 0.6;
    ctx.strokeStyle = theme.line2;
    ctx.stroke();
  }
  ctx.textAlign = "center";
  ctx.textBaseline = "alphabetic";
  const middle = frame.x + frame.w / 2;
  const label = frame.label || scene.words.kinds[frame.kind] || "";
  const measure = (t) => textWidth(ctx, t, font(11, 600));
  const shown = isShort ? label.split("/").at(-1) : label;
  const name = ellipsis(shown, measure, frame.room, { least: 3 });
  ctx.font = font(11, 600);
  ctx.fillStyle = theme.ink;
  ctx.fillText(name, middle, frame.y - 5);
  ctx.font = font(10.5);
  ctx.fillStyle = theme.ink2;
  ctx.fillText(String(frame.nodes.length), middle, frame.y + frame.h + 12);
}

function drawBundle(ctx, scene, bundle) {
  const { theme } = scene;
  const width = Math.min(6, wireWidth(bundle.bytes));
  roundedPath(ctx, bundle.points, 8);
  ctx.lineWidth = width + 1.6;
  ctx.strokeStyle = theme.ink2;
  ctx.stroke();
  ctx.lineWidth = width;
  ctx.strokeStyle = twoColours(ctx, theme, bundle.points);
  ctx.stroke();
  const isLeft = bundle.side === "left";
  drawTag(ctx, theme, "send", ...bundle.points[0], 13, isLeft ? "left" : "right");
  drawTag(ctx, theme, "recv", ...bundle.points.at(-1), 13, isLeft ? "right" : "left");
}
