// Shapes that mean the same in every canvas: tags of a transfer, textures, tiles, the focus ring.

export function roundRect(ctx, x, y, w, h, radius) {
  ctx.beginPath();
  ctx.roundRect(x, y, w, h, Math.min(radius, w / 2, h / 2));
}

/** Polyline with round corners. `points` is [[x, y], …]. */
export function roundedPath(ctx, points, radius) {
  ctx.beginPath();
  ctx.moveTo(...points[0]);
  for (let i = 1; i < points.length - 1; i += 1) {
    const [[ax, ay], [bx, by], [cx, cy]] = [points[i - 1], points[i], points[i + 1]];
    const room = Math.min(Math.hypot(bx - ax, by - ay), Math.hypot(cx - bx, cy - by)) / 2;
    ctx.arcTo(bx, by, cx, cy, Math.min(radius, room));
  }
  ctx.lineTo(...points.at(-1));
}

/** Corner points of a Send or Recv tag centred on (x, y). `pointing` is the way the tensor goes:
 *  "down", "up", "right", "left". A Send points that way; a Recv has its notch where it arrives. */
export function tagPoints(kind, x, y, size, pointing) {
  const h = size / 2;
  const t = size * 0.28;
  const right = kind === "send"
    ? [[-h, -h], [h - t, -h], [h, 0], [h - t, h], [-h, h]]
    : [[-h, -h], [h, -h], [h, h], [-h, h], [-h + t, 0]];
  const turn = {
    right: ([a, b]) => [a, b], left: ([a, b]) => [-a, b],
    down: ([a, b]) => [b, a], up: ([a, b]) => [b, -a],
  }[pointing];
  return right.map(turn).map(([a, b]) => [x + a, y + b]);
}

export function polygon(ctx, points) {
  ctx.beginPath();
  points.forEach(([x, y], i) => (i ? ctx.lineTo(x, y) : ctx.moveTo(x, y)));
  ctx.closePath();
}

/** Tag with fill and outline; a hollow one (control, client) is dashed and unfilled. */
export function drawTag(ctx, theme, kind, x, y, size, pointing, hollow = false) {
  polygon(ctx, tagPoints(kind, x, y, size, pointing));
  ctx.fillStyle = hollow ? theme.panel : theme[kind];
  ctx.fill();
  ctx.lineWidth = hollow ? 1.4 : 1;
  ctx.setLineDash(hollow ? [2.5, 2] : []);
  ctx.strokeStyle = theme[`${kind}-s`];
  ctx.stroke();
  ctx.setLineDash([]);
}

/** Fill patterns: hatch (wait), dots (queueing), level (update), diagonal (collective). */
export function textures(ctx, theme) {
  const tile = (size, draw) => {
    const ratio = 2; // sharp on dense screens
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = size * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    draw(pen, size);
    const pattern = ctx.createPattern(canvas, "repeat");
    pattern.setTransform(new DOMMatrix().scale(1 / ratio));
    return pattern;
  };
  const strokes = (colour, width, back) => (pen, s) => {
    if (back) {
      pen.fillStyle = back;
      pen.fillRect(0, 0, s, s);
    }
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    pen.beginPath();
    for (const shift of [-s, 0, s]) {
      pen.moveTo(shift, s);
      pen.lineTo(shift + s, 0);
    }
    pen.stroke();
  };
  return {
    hatch: tile(6, strokes(theme.line2, 1.1, theme.panel)),
    diagonal: tile(6, strokes(theme["collective-s"], 1.1)),
    level: tile(5, (pen, s) => {
      pen.fillStyle = theme["update-s"];
      pen.globalAlpha = 0.5;
      pen.fillRect(0, s - 1, s, 1);
    }),
    dots: tile(5, (pen, s) => {
      pen.fillStyle = theme.panel;
      pen.fillRect(0, 0, s, s);
      pen.fillStyle = theme.ink3;
      pen.beginPath();
      pen.arc(s / 2, s / 2, 0.9, 0, 7);
      pen.fill();
    }),
  };
}

/** 2.4 px dotted ink ring around the thing that has the keyboard. */
export function focusRing(ctx, theme, x, y, w, h, radius = 8) {
  ctx.save();
  ctx.strokeStyle = theme.ink;
  ctx.lineWidth = 2.4;
  ctx.lineCap = "round";
  ctx.setLineDash([0.1, 4.5]);
  roundRect(ctx, x, y, w, h, radius);
  ctx.stroke();
  ctx.restore();
}

// ---- polylines ----

export const lengthsOf = (points) => points.slice(1)
  .map(([x, y], i) => Math.hypot(x - points[i][0], y - points[i][1]));

/** The point of a polyline at a share of its length, 0 … 1. */
export function pointAt(points, share) {
  const lengths = lengthsOf(points);
  let rest = Math.min(1, Math.max(0, share)) * lengths.reduce((sum, length) => sum + length, 0);
  for (const [i, length] of lengths.entries()) {
    if (rest <= length || i === lengths.length - 1) {
      const part = length ? Math.min(1, rest / length) : 0;
      const [[ax, ay], [bx, by]] = [points[i], points[i + 1]];
      return [ax + (bx - ax) * part, ay + (by - ay) * part];
    }
    rest -= length;
  }
  return points[0];
}
