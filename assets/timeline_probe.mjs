// How a test asks the timeline what it shows: `window.__vizdist`, in coordinates of the page.

import { pointIn, pointOf, publishSelection } from "./core.mjs";
import { spanId } from "./timeline_data.mjs";
import { extent } from "./timeline_draw.mjs";

export function probe(view) {
  const { canvas } = view.surface;
  return {
    hit: (x, y) => {
      const hit = view.head && view.hitAt(...pointIn(canvas, x, y));
      return hit && told(view, hit);
    },
    select: publishSelection,
    where: (id) => {
      const place = view.head && placeOf(view, id);
      return place && pointOf(canvas, ...place);
    },
    findings: () => view.findings.shown,
    state: () => ({
      view: "timeline", mode: view.mode, ...view.window, scroll: view.stack.scroll,
      ready: view.host.dataset.state === "ready" && !view.loader.isBusy,
      step: view.step?.number ?? null, task: view.stack.task, lit: view.lit?.selected ?? 0,
      drawMs: view.drawMs, rows: view.stack.layout?.rows.length ?? 0, ...view.counts,
      held: view.head ? view.tile?.count ?? 0 : 0,
      standsOut: view.findings.standOuts.length, at: view.findings.at,
      flags: view.head ? view.findings.flags.length : 0,
      focus: view.focus && spanId(view.focus.tile, view.focus.i),
    }),
  };
}

function told(view, { tile, i }) {
  const { task, lane } = view.rowsById.get(tile.row[i]);
  const id = spanId(tile, i);
  return {
    type: "span", id, name: tile.names[tile.name[i]], task, lane, start: tile.start[i],
    duration: tile.duration[i], selection: { type: "span", id },
  };
}

/** A point of the canvas on the bar of a span, if it is drawn. */
function placeOf(view, id) {
  const { tile, area } = view;
  const i = tile ? view.placeOf(tile, id) : -1;
  const row = i >= 0 ? view.stack.placeOf(tile.row[i]) : null;
  if (!row) return null;
  const [x, w] = extent(tile, i, { from: view.window.from, scale: view.scale });
  return [area.x + x + Math.min(w, 6) / 2, area.y + row.y - view.stack.scroll + row.h / 2];
}
