// How a test asks the graph what it shows: `window.__vizdist`, in coordinates of the page.

import { pointIn, pointOf, publishSelection } from "./core.mjs";
import { halfTile } from "./graph_wires.mjs";
import { levelOf, resolve, selectionOf } from "./graph_model.mjs";

export function probe(view) {
  const { canvas } = view.surface;
  return {
    hit: (x, y) => {
      const hit = view.hands.hitAt(...pointIn(canvas, x, y));
      return hit && { ...hit, selection: selectionOf(view.hands.modelOf(hit), hit) };
    },
    select: (selection) => {
      view.state.sel = selection;
      publishSelection(selection);
      view.select();
    },
    state: () => ({
      view: "graph", ready: view.host.dataset.state === "ready", zoom: view.zoom,
      level: levelOf(view.zoom).name, stage: view.model?.payload.stage,
      tiles: view.model?.payload.tiles.length ?? 0,
      wires: view.model?.payload.wires.length ?? 0,
      nodeCount: view.model?.payload.nodeCount ?? 0,
      found: view.found ?? null, morphing: Boolean(view.morph),
      half: halfTile({ zoom: view.zoom, zoomY: view.port.scaleY }),
      mark: view.state.mark, drawMs: view.drawMs, shownMs: view.shownMs,
    }),
    show: (payload) => view.show(payload),
    /** Stops the last change of stage at a share of its way, 0 … 1; what is drawn there. */
    hold: (share) => {
      view.stopMorph?.();
      view.morph = view.plan?.at(share) ?? null;
      view.surface.paint();
      const { tiles, links, wires } = view.scene();
      const ringed = tiles.find((tile) => tile.id === view.found?.tile && !tile.leaving);
      return { tiles, links, wires, ringed: ringed ?? null };
    },
    two: () => view.upper && {
      upper: view.upper.model.payload.stage, lower: view.model.payload.stage,
      said: view.said, cuts: view.cuts,
      seen: [-view.upper.rise, view.model.payload.height]
        .map((y) => view.port.toScreen(0, y)[1]),
      places: [view.upper.model, view.model].map(({ payload }) =>
        Object.fromEntries(payload.tiles.map(({ id, x }) => [id, x]))),
    },
    /** What stays lit; null where everything does. */
    lit: () => {
      const { lit } = view.model ? view.scene() : {};
      return lit ? { tiles: [...lit.tiles], wires: [...lit.wires] } : null;
    },
    path: () => {
      const { lit } = view.path;
      return lit && { count: lit.count, tiles: [...lit.tiles], wires: [...lit.wires] };
    },
    redraw: () => {
      view.port.panBy(-3, 0);
      view.surface.paint();
      return view.drawMs;
    },
    where: (selection) => {
      const found = resolve(view.model, selection);
      return found && pointOf(canvas, ...view.port.toScreen(...view.middleOf(found)));
    },
  };
}
