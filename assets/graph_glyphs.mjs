// The signs in the tiles: letters where a letter says it, small drawings where none does.

import { font } from "./core.mjs";

/** Drawings in a square from −1 to 1; each strokes what it needs. */
const DRAWINGS = {
  cylinder(ctx) {
    ctx.ellipse(0, -0.55, 0.62, 0.24, 0, 0, 2 * Math.PI);
    ctx.moveTo(-0.62, -0.55);
    ctx.lineTo(-0.62, 0.55);
    ctx.ellipse(0, 0.55, 0.62, 0.24, 0, Math.PI, 0, true);
    ctx.lineTo(0.62, -0.55);
  },
  hinge(ctx) {
    ctx.moveTo(-0.8, 0.5);
    ctx.lineTo(0.05, 0.5);
    ctx.lineTo(0.8, -0.6);
  },
  fork(ctx) {
    ctx.moveTo(-0.8, 0);
    ctx.lineTo(-0.1, 0);
    ctx.lineTo(0.75, -0.6);
    ctx.moveTo(-0.1, 0);
    ctx.lineTo(0.75, 0.6);
  },
};

/** Paints a glyph centred on (x, y) in a tile of `side` pixels. */
export function drawGlyph(ctx, glyph, x, y, side, colour) {
  const drawing = DRAWINGS[glyph];
  if (drawing) {
    ctx.save();
    ctx.translate(x, y);
    const unit = side * 0.26;
    ctx.scale(unit, unit);
    ctx.lineWidth = 0.055 * side / unit;
    ctx.lineJoin = ctx.lineCap = "round";
    ctx.strokeStyle = colour;
    ctx.beginPath();
    drawing(ctx);
    ctx.stroke();
    ctx.restore();
    return;
  }
  const size = side * (glyph.length > 2 ? 0.34 : 0.46);
  ctx.font = font(Math.round(size * 10) / 10, 650);
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  ctx.fillStyle = colour;
  ctx.fillText(glyph, x, y + side * 0.02);
}
