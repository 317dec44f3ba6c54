// What a pointer is told about the thing under it: one line of name, value, unit.

import { formatBytes, formatNs } from "./core.mjs";

export const countOf = (words, number) =>
  (number === 1 ? words.node : words.nodes).replace("{count}", number);

/** `view` is {model, over, words, state}; `hit` what lies under the pointer. */
export function tipText(view, hit) {
  return TEXTS[hit.type](view, hit);
}

const TEXTS = {
  bundle({ over, words }, { id }) {
    const bundle = over.bundles.find((one) => one.id === id);
    const pairs = words.bundle.replace("{count}", bundle.pairs);
    return `${bundle.id} · ${pairs} · ${formatBytes(bundle.bytes)}`;
  },
  frame({ over, words }, { id }) {
    const frame = over.frames.find((one) => one.id === id);
    const name = frame.label || words.kinds[frame.kind] || "";
    return `${name} · ${countOf(words, frame.nodes.length)}`;
  },
  wire({ model, words }, { id }) {
    const wire = model.wires.get(id);
    const name = wire.label || words.control;
    return `${name} · ${wire.from} → ${wire.to} · ${formatBytes(wire.bytes)}`;
  },
  tile({ model, words, state }, { id }) {
    const tile = model.tiles.get(id);
    const [node] = tile.nodes;
    const title = tile.count > 1
      ? `${tile.label} · ${countOf(words, tile.count)}` : `${node.id} · ${node.op}`;
    const choice = state.heat === "plain" ? "time" : state.heat;
    const value = choice === "bytes" ? formatBytes(tile.bytes) : formatNs(tile[choice]);
    return tile[choice] ? `${title} · ${value}` : title;
  },
};
