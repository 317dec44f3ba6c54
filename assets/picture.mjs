// The picture of a view as a file, PNG or SVG: twice as large as on screen, in its theme, with a
// title over it and a legend below. Both are painted by the view's own drawing code.
//
// A view offers what is to be saved:
//   offerPicture(() => ({ name, title, facts, width, height, theme, legend, scale, draw }))
// `name` begins the file's name; `facts` is a line under the title; `legend` is a list of
// {paint(ctx, x, y), width, text}, where (x, y) is the left middle of the sign; `scale` says what
// the picture measures, in words; `draw(ctx, width, height)` paints the view. Textures must be made
// with the ctx that is handed in. Buttons with data-picture="png" or "svg" save what was offered.

import { ellipsis, font, textWidth, zoomOf } from "./core.mjs";
import { SvgContext } from "./svg_context.mjs";

const HEAD = 62;
const FOOT = 40;
const EDGE = 18;
const SCALE = 2;

/** Paints a picture with its frame; returns its whole height. */
export function paintPicture(ctx, picture, measure) {
  const { width, height, theme } = picture;
  const whole = HEAD + height + FOOT;
  ctx.fillStyle = theme.bg;
  ctx.fillRect(0, 0, width, whole);
  ctx.save();
  ctx.beginPath();
  ctx.rect(0, HEAD, width, height);
  ctx.clip();
  ctx.translate(0, HEAD);
  picture.draw(ctx, width, height);
  ctx.restore();
  ctx.fillStyle = theme.panel;
  ctx.fillRect(0, 0, width, HEAD);
  ctx.fillRect(0, HEAD + height, width, FOOT);
  ctx.fillStyle = theme.line;
  ctx.fillRect(0, HEAD - 1, width, 1);
  ctx.fillRect(0, HEAD + height, width, 1);
  paintHead(ctx, picture, measure);
  paintFoot(ctx, picture, measure, HEAD + height + FOOT / 2);
  return whole;
}

function paintHead(ctx, { title, facts, width, theme }, measure) {
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  const write = (text, y, style, colour) => {
    ctx.font = style;
    ctx.fillStyle = colour;
    ctx.fillText(ellipsis(text, (t) => measure(t, style), width - 2 * EDGE), EDGE, y);
  };
  write(title, 28, font(17, 680), theme.ink);
  write(facts, 48, font(12), theme.ink2);
}

/** The legend from the left, the scale at the right; entries that find no room are left out. */
function paintFoot(ctx, { legend, scale, width, theme }, measure, y) {
  const style = font(12);
  ctx.textBaseline = "middle";
  ctx.fillStyle = theme.ink2;
  ctx.font = style;
  ctx.textAlign = "right";
  ctx.fillText(scale, width - EDGE, y);
  const end = width - EDGE - measure(scale, style) - 20;
  ctx.textAlign = "left";
  let x = EDGE;
  for (const entry of legend) {
    const wide = entry.width + 6 + measure(entry.text, style);
    if (x + wide > end) continue;
    entry.paint(ctx, x, y);
    ctx.textAlign = "left";
    ctx.textBaseline = "middle";
    ctx.font = style;
    ctx.fillStyle = theme.ink2;
    ctx.fillText(entry.text, x + entry.width + 6, y);
    x += wide + 18;
  }
}

/** The height of a picture with its frame. */
const wholeHeight = (picture) => HEAD + picture.height + FOOT;

export function svgOf(picture, measure, scale = SCALE) {
  const ctx = new SvgContext(measure);
  paintPicture(ctx, picture, measure);
  return ctx.svg(picture.width, wholeHeight(picture), scale, picture.title);
}

function pngOf(picture, measure, scale) {
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(picture.width * scale);
  canvas.height = Math.round(wholeHeight(picture) * scale);
  const ctx = canvas.getContext("2d");
  ctx.scale(scale, scale);
  paintPicture(ctx, picture, measure);
  return new Promise((done) => { canvas.toBlob(done, "image/png"); });
}

/** The picture as a file's content. */
export async function blobOf(kind, picture, scale = SCALE) {
  const pen = document.createElement("canvas").getContext("2d");
  const measure = (text, style) => textWidth(pen, text, style);
  if (kind === "png") return pngOf(picture, measure, scale);
  return new Blob([svgOf(picture, measure, scale)], { type: "image/svg+xml" });
}

let offered = null;

/** Makes a view the one whose picture is saved; returns how to end that. */
export function offerPicture(describe) {
  offered = describe;
  start();
  return () => { if (offered === describe) offered = null; };
}

async function save(kind) {
  const picture = offered?.();
  if (!picture) return;
  const blob = await blobOf(kind, picture, SCALE * zoomOf(document.body));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `${picture.name.replace(/[^\p{L}\p{N}._-]+/gu, "-")}.${kind}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

let started = false;

function start() {
  if (started) return;
  started = true;
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-picture]");
    if (button) save(button.dataset.picture);
  });
}

// ---- signs of a legend ----

/** A patch of colour: {fill, edge}. */
export function patch({ fill, edge }, text) {
  return { width: 18, text, paint(ctx, x, y) {
    ctx.fillStyle = fill;
    ctx.strokeStyle = edge;
    ctx.lineWidth = 1;
    ctx.setLineDash([]);
    ctx.fillRect(x, y - 5.5, 18, 11);
    ctx.strokeRect(x, y - 5.5, 18, 11);
  } };
}

