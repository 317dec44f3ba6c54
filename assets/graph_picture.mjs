// What the graph saves as a picture: what the canvas shows, with its signs and its heat in words.

import { grouped, heat } from "./core.mjs";
import { heatScale } from "./graph_controls.mjs";
import { patch } from "./picture.mjs";
import { drawTag } from "./shapes.mjs";

const RAMP = [0, 0.25, 0.5, 0.75, 1];
const HUES = { bytes: "send", wait: "ink" };

export function graphPicture(view) {
  const { theme, words, host } = view;
  const { payload } = view.model;
  const { width, height } = view.surface;
  const found = heatScale(view);
  const facts = words.picture_facts.replace("{stage}", words.stages[payload.stage])
    .replace("{nodes}", grouped(payload.nodeCount)).replace("{zoom}", view.zoom.toFixed(2));
  const step = payload.step === null ? "" : ` · ${words.step.replace("{step}", payload.step)}`;
  return {
    name: `${host.dataset.title}-graph`,
    title: host.dataset.title,
    facts: facts + step,
    width, height, theme,
    legend: [...signs(theme, words), ...(found ? ramp(theme, found) : [])],
    scale: found ? `${found.what} · ${found.scale}` : "",
    draw: (ctx, w, h) => view.paint(ctx, w, h),
  };
}

function signs(theme, words) {
  const tags = [["send", false], ["recv", false], ["control", true]];
  return [
    ...tags.map(([kind, hollow]) => ({
      width: 14, text: words.signs[kind], paint(ctx, x, y) {
        drawTag(ctx, theme, hollow ? "send" : kind, x + 7, y, 14, "right", hollow);
      },
    })),
    patch({ fill: theme.update, edge: theme["update-s"] }, words.signs.update),
  ];
}

/** Least, five steps of the hue, most. */
function ramp(theme, { heat: choice, low, high }) {
  const hue = HUES[choice] ?? "compute";
  return [{
    width: 0, text: low, paint() {},
  }, {
    width: RAMP.length * 17, text: high, paint(ctx, x, y) {
      for (const [i, share] of RAMP.entries()) {
        ctx.fillStyle = heat(theme, hue, share);
        ctx.fillRect(x + 17 * i, y - 5.5, 16, 11);
      }
    },
  }];
}
