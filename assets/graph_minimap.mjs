// The minimap: the whole layout in a corner, and the part that the big canvas shows.

import { Surface, direction, gestures } from "./core.mjs";
import { isChosen } from "./graph_model.mjs";
import { roundRect } from "./shapes.mjs";

const KEY_SHARE = 0.2; // of the view's width: how far an arrow key goes

/** Puts the minimap of a GraphView into its place, if the page has one; {surface, stop} or null. */
export function mountMinimap(view) {
  const host = document.getElementById("graph-minimap");
  if (!host) return null;
  let place = null;
  const surface = new Surface(host, { label: view.words.minimap ?? "", draw: (ctx, w, h) => {
    if (!view.model) return;
    const seen = seenBy(view);
    place = drawMinimap(ctx, view.scene(), w, h, seen);
  } });
  const go = (x, y) => {
    if (!place) return;
    view.port.x = (x - place.left) / place.scale - view.surface.width / 2 / view.zoom;
    view.port.y = (y - place.top) / place.scale - view.surface.height / 2 / view.port.scaleY;
    view.moved();
  };
  let at = [0, 0];
  const stop = gestures(surface.canvas, {
    click: go,
    hover: (x, y) => { at = [x, y]; },
    drag: (dx, dy) => { at = [at[0] + dx, at[1] + dy]; go(...at); },
    key: (event) => {
      const way = direction(event);
      if (way) view.panBy(...way.map((part) => -KEY_SHARE * part * view.surface.width));
      return Boolean(way);
    },
  });
  return { surface, stop, follow: () => { host.hidden = isAllSeen(view); } };
}

/** The part of the layout that the big canvas shows. */
function seenBy(view) {
  const { width, height } = view.surface;
  return { x: view.port.x, y: view.port.y, w: width / view.zoom, h: height / view.port.scaleY };
}

/** Where all of it is in view a map has nothing to say. */
function isAllSeen(view) {
  if (!view.model || view.over) return true;
  const { width, height } = view.model.payload;
  const { x, y, w, h } = seenBy(view);
  return x <= 0 && y <= 0 && x + w >= width && y + h >= height;
}

/** The whole layout in a small canvas, and the part that the big one shows. */
function drawMinimap(ctx, scene, width, height, seen) {
  const { payload, theme } = scene;
  const scale = Math.min(width / payload.width, height / payload.height);
  const left = (width - payload.width * scale) / 2;
  const top = (height - payload.height * scale) / 2;
  const to = (x, y) => [left + x * scale, top + y * scale];
  ctx.fillStyle = theme.sunk;
  ctx.fillRect(0, 0, width, height);
  for (const box of payload.boxes) {
    roundRect(ctx, ...to(box.x, box.y), box.w * scale, box.h * scale, 3);
    ctx.fillStyle = theme.panel;
    ctx.fill();
    ctx.lineWidth = 1;
    ctx.strokeStyle = theme.line2;
    ctx.stroke();
  }
  for (const wire of payload.wires) {
    ctx.beginPath();
    wire.points.forEach(([x, y], i) => (i ? ctx.lineTo(...to(x, y)) : ctx.moveTo(...to(x, y))));
    ctx.lineWidth = wire.control || !wire.isPair ? 0.7 : 1.4;
    ctx.strokeStyle = wire.control || !wire.isPair ? theme.line2 : theme.send;
    ctx.stroke();
  }
  const side = Math.max(2, Math.min(6, 26 * scale));
  for (const tile of payload.tiles) {
    const [x, y] = to(tile.x, tile.y);
    const isRinged = isChosen(scene.found, "tile", tile.id);
    ctx.fillStyle = { update: theme.update, variable: theme.update, read: theme.update,
      compute: theme.compute }[tile.kind] ?? theme.idle;
    if (isRinged) ctx.fillStyle = theme.mark;
    ctx.fillRect(x - side / 2, y - side / 2, side, side);
    if (isRinged) {
      ctx.strokeStyle = theme.outline;
      ctx.strokeRect(x - side / 2 - 1, y - side / 2 - 1, side + 2, side + 2);
    }
  }
  const [x0, y0] = to(seen.x, seen.y);
  roundRect(ctx, x0, y0, seen.w * scale, seen.h * scale, 4);
  ctx.lineWidth = 2;
  ctx.strokeStyle = theme.ink;
  ctx.stroke();
  return { scale, left, top };
}
