// The bars as pieces of picture that are kept while the window moves: a hand that pans sees what is
// painted already, and only the pieces that come in cost a walk over their spans.

import { BarPainter } from "./timeline_bars.mjs";
import { covers, nsPerPixel } from "./timeline_data.mjs";
import { HUE_PX, walkRow } from "./timeline_model.mjs";

export const PIECE = { w: 240, h: 480 }; // px; whole groups of columns, whole periods of textures
const KEEP = 2; // screens full of pieces that are kept
const SAME = 1e-6; // a window that is moved keeps its scale but for its last digits

/** Paints the bars of `rows` that lie in a scene's window; returns how many. */
export function paintBars(ctx, scene) {
  const { tile, from, to, scale, rows } = scene;
  const painter = new BarPainter(ctx, tile, scene);
  let boxes = 0;
  const sink = {
    bar: (i, x, w) => {
      boxes += 1;
      painter.bar(i, x, w);
    },
    column: (...parts) => {
      boxes += 1;
      painter.column(...parts);
    },
  };
  for (const row of rows) {
    const order = tile.orders.get(row.id);
    if (!order) continue;
    painter.row(row.y, row.h);
    walkRow(tile, order, from, to, scale, nsPerPixel(tile), sink);
  }
  return boxes;
}

/** The pieces under a window: where each lies in time, among the rows and, in px, in the area of
 *  the bars: [{key, from, to, rows, x, y}]. */
export function piecesIn({ from, to, scale, scroll, area, layout }) {
  const ns = PIECE.w / scale;
  const bottom = Math.min(layout.height, scroll + area.h);
  const pieces = [];
  for (let band = Math.floor(scroll / PIECE.h); band * PIECE.h < bottom; band += 1) {
    const y = band * PIECE.h;
    const rows = layout.rows.filter((row) => row.y + row.h > y - 1 && row.y < y + PIECE.h + 1);
    if (!rows.length) continue;
    for (let column = Math.floor(from / ns); column * ns < to; column += 1) {
      pieces.push({
        key: `${column} ${band}`, from: column * ns, to: (column + 1) * ns, rows,
        x: (column * ns - from) * scale, y,
      });
    }
  }
  return pieces;
}

/** Whether a tile says of a piece all that can be seen at this scale. */
export const isSharp = (tile, { from, to, rows }, scale) => !tile.isOld
  && covers(tile, from, to, [rows[0].id, rows.at(-1).id + 1]) && nsPerPixel(tile) * scale < 1.05;

/** Whether two scenes have the same pieces: only their windows may lie elsewhere. */
export const isAlike = (a, b) => a.layout.key === b.layout.key && a.patterns === b.patterns
  && a.ratio === b.ratio && Math.abs(a.scale / b.scale - 1) < SAME;

export class Pieces {
  constructor() {
    this.painted = new Map(); // by key: {canvas, tile, boxes}
    this.spare = [];
    this.scene = null; // the one whose scale all pieces have
  }

  /** Shows the window from its pieces, and paints those that are missing or have become better
   *  known; returns how many boxes they hold. */
  draw(ctx, scene) {
    if (!this.scene || !isAlike(this.scene, scene)) {
      this.scene = scene;
      this.drop([...this.painted.keys()]);
    }
    const alike = { ...scene, scale: this.scene.scale };
    const pieces = piecesIn(alike);
    let boxes = 0;
    for (const piece of pieces) {
      const { canvas, boxes: own } = this.pictureOf(piece, alike);
      this.show(ctx, scene, canvas, piece);
      boxes += own;
    }
    this.forget(pieces);
    return boxes;
  }

  pictureOf(piece, scene) {
    const found = this.painted.get(piece.key);
    const isGood = found && (found.tile === scene.tile || isSharp(found.tile, piece, scene.scale));
    if (isGood) return found;
    const canvas = found?.canvas ?? this.spare.pop() ?? document.createElement("canvas");
    const made = { canvas, tile: scene.tile, boxes: this.paint(canvas, piece, scene) };
    this.painted.set(piece.key, made);
    return made;
  }

  paint(canvas, piece, scene) {
    const { ratio } = scene;
    canvas.width = Math.ceil(PIECE.w * ratio); // which clears it too
    canvas.height = Math.ceil(PIECE.h * ratio);
    const ctx = canvas.getContext("2d");
    ctx.scale(ratio, ratio);
    ctx.translate(0, -piece.y);
    const to = piece.to + HUE_PX / scene.scale; // what queues here may run in the next one
    return paintBars(ctx, { ...scene, ...piece, to, width: PIECE.w });
  }

  /** On whole pixels of the screen, so that nothing blurs. */
  show(ctx, { area, scroll, ratio }, canvas, { x, y }) {
    ctx.save();
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    const [left, top] = [area.x + x, area.y + y - scroll].map((at) => Math.round(at * ratio));
    ctx.drawImage(canvas, left, top);
    ctx.restore();
  }

  /** Keeps what lies near; once that is much, only what is seen. */
  forget(pieces) {
    if (this.painted.size <= KEEP * pieces.length) return;
    const seen = new Set(pieces.map(({ key }) => key));
    this.drop([...this.painted.keys()].filter((key) => !seen.has(key)));
  }

  drop(keys) {
    for (const key of keys) {
      this.spare.push(this.painted.get(key).canvas);
      this.painted.delete(key);
    }
  }
}
