// What the timeline saves as a picture: the window as it is seen, with its hues in words.

import { formatNs, mix } from "./core.mjs";
import { patch } from "./picture.mjs";
import { drawTag, textures } from "./shapes.mjs";
import { strikeShape } from "./timeline_bars.mjs";
import { FLAG } from "./timeline_model.mjs";

const HUES = [
  ["compute", "compute"], ["update", "update"], ["transfer", "recv"],
  ["collective", "collective"], ["runtime", "idle"],
];
const TEXTURES = [["wait", "hatch"], ["queueing", "dots"]];

export function timelinePicture(view) {
  const { theme, words, host } = view;
  const { width, height } = view.surface;
  const { from, to } = view.window;
  const isRun = view.mode === "run" || !view.step;
  const what = isRun ? words.run : words.in_step.replace("{step}", view.step.number);
  return {
    name: `${host.dataset.title}-timeline`,
    title: host.dataset.title,
    facts: `${what} · ${formatNs(to - from)}`,
    width, height, theme,
    legend: legend(theme, words.legend, view),
    scale: words.begins.replace("{time}", formatNs(Math.max(0, from))),
    draw: (ctx, w, h) => view.paint(ctx, {
      ...view.scene(w, h), cursor: null, focus: null, pieces: null,
      patterns: textures(ctx, theme),
    }),
  };
}

function legend(theme, words, { tile, head, findings }) {
  const { path } = findings.shown;
  const { tasks } = head.strip;
  const isSeen = (hue) => hue !== "collective" || tile?.hue.includes(tile.hues.indexOf(hue));
  const hasFailed = tile?.flags.some((flags) => flags & FLAG.error);
  const failed = { fill: mix(theme.panel, theme.error, 0.25), edge: theme["error-s"] };
  const send = {
    width: 14, text: words.send, paint(ctx, x, y) {
      drawTag(ctx, theme, "send", x + 7, y, 14, "right");
    },
  };
  const line = {
    width: 18, text: words.path, paint(ctx, x, y) {
      ctx.fillStyle = theme.ink;
      ctx.fillRect(x, y - 1.75, 18, 3.5);
    },
  };
  const strike = {
    width: 10, text: words.struck, paint(ctx, x, y) {
      strikeShape(ctx, theme, x + 1, y - 7, 14);
    },
  };
  return [
    ...HUES.filter(([, hue]) => isSeen(hue))
      .map(([name, hue]) => patch({ fill: theme[hue], edge: theme[`${hue}-s`] }, words[name])),
    ...(hasFailed ? [patch(failed, words.failed)] : []),
    send,
    ...TEXTURES.map(([name, texture]) => textured(theme, texture, words[name])),
    ...(tasks.some(({ struck }) => struck.length) ? [strike] : []),
    ...(path ? [line] : []),
  ];
}

/** A patch of a texture on the panel: time in which nothing runs. */
function textured(theme, name, text) {
  const plain = patch({ fill: theme.panel, edge: theme.line2 }, text);
  return {
    ...plain, paint(ctx, x, y) {
      plain.paint(ctx, x, y);
      ctx.fillStyle = textures(ctx, theme)[name];
      ctx.fillRect(x + 1, y - 4.5, 16, 9);
    },
  };
}
