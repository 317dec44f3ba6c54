// How a test asks the replay what it shows: `window.__vizdist`, in coordinates of the page.

import { pointIn, pointOf } from "./core.mjs";
import {
  STATES, countStates, endOf, instantsOf, isDeadAt, keyText, spanOf,
} from "./replay_model.mjs";
import { nameOf, placeName } from "./replay_words.mjs";

export function replayProbe(view) {
  const { canvas } = view.surface;
  const opOf = (i) => ({
    name: nameOf(view.replay, i), place: placeName(view.replay, view.replay.item.place[i]),
    iteration: view.replay.item.iteration[i], span: spanOf(view.replay, i),
  });
  const keyOf = ({ row, x, y }) => ({
    key: keyText(view.replay, row), state: STATES[view.now.states[row]],
    iteration: view.replay.item.iteration[endOf(view.replay, row)],
    dead: isDeadAt(view.replay, view.now, row), at: pointOf(canvas, x, y),
  });
  return {
    state: () => ({
      view: "replay",
      ready: [view.host.dataset.replay, view.host.dataset.state].every((one) => one === "ready"),
      step: view.replay?.step ?? null, time: view.player.time, playing: view.player.isPlaying,
      count: view.now?.count ?? 0, events: view.replay?.event.count ?? 0,
      items: view.replay?.item.count ?? 0,
      unit: view.transport.unit, speed: view.player.speed, zoom: view.zoom,
      frameMs: view.player.frameMs, overlayMs: view.overlayMs, drawMs: view.drawMs,
      found: view.chosen ?? null,
    }),
    replay: () => ({
      running: view.now.running.map(opOf), ready: view.now.ready.map(opOf),
      counts: Object.fromEntries(countStates(view.now).map((n, i) => [STATES[i], n])),
      tokens: view.spots.map(keyOf), lit: [...view.tileStates.keys()].length,
      ringed: view.ringed.map(({ id }) => id), dead: [...view.dead],
    }),
    elements: () => {
      const { tiles, links, wires } = view.model.payload;
      return tiles.length + links.length + wires.length + view.spots.length;
    },
    instants: (unit) => [...instantsOf(view.replay, unit)],
    seek: (time) => {
      const begun = performance.now();
      view.player.scrub(time);
      view.surface.paint();
      return performance.now() - begun;
    },
    hit: (x, y) => {
      const row = view.tokenAt(...pointIn(canvas, x, y));
      return row < 0 ? view.hands.hitAt(...pointIn(canvas, x, y))
        : { type: "key", id: keyText(view.replay, row) };
    },
  };
}
