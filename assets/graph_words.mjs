// What a pointer is told about the thing under it: a line of name, value, unit; then in words why a
// node is where it is, how it came to be in this stage, why the next one does without it.

import { fill, formatBytes, formatNs } from "./core.mjs";

export const countOf = (words, number) =>
  (number === 1 ? words.node : words.nodes).replace("{count}", number);

export const turnsOf = (words, number) =>
  (number === 1 ? words.turn : words.turns).replace("{count}", number);

/** `view` is {model, over, words, state}; `hit` what lies under the pointer. */
export function tipLines(view, hit) {
  const first = TEXTS[hit.type](view, hit);
  const tile = hit.type === "tile" && view.model.tiles.get(hit.id);
  const node = tile && (view.model.nodes.get(hit.node) ?? (tile.count === 1 && tile.nodes[0]));
  if (!node) return [first];
  const { words } = view;
  const where = [node.box, node.device].filter(Boolean).join(" / ");
  const why = plain(words.whys?.[node.why], node);
  return [
    first,
    where && why ? `${where} · ${why}` : why,
    plain(words.comings?.[node.coming || (node.changed ? "changed" : "")], node),
    plain(words.goings?.[node.going], node),
    placeOf(view, tile.id),
  ].filter(Boolean);
}

/** Where on the critical path a tile is, while that is shown. */
function placeOf({ path, words, state }, id) {
  const numbers = state.mark === "path" && path?.tiles.get(id);
  if (!numbers) return "";
  return words.on_path.replace("{number}", numbers[0]).replace("{count}", path.count);
}

/** A text of the catalogue without its bold marks, with what it names put in. */
const plain = (text, values) => fill((text ?? "").replaceAll("**", ""), values);

const TEXTS = {
  bundle({ over, words }, { id }) {
    const bundle = over.bundles.find((one) => one.id === id);
    const pairs = words.bundle.replace("{count}", bundle.pairs);
    return [bundle.id, pairs, ...(bundle.bytes ? [formatBytes(bundle.bytes)] : [])].join(" · ");
  },
  frame({ over, words }, { id }) {
    const frame = over.frames.find((one) => one.id === id);
    const name = frame.label || words.kinds[frame.kind] || "";
    return `${name} · ${countOf(words, frame.nodes.length)}`;
  },
  link({ model, words }, { id }) {
    const { src, dst, count, bytes } = model.payload.links[id];
    const [from, to] = [src, dst].map((end) => nameOf(model, end));
    const edges = words.edges.replace("{count}", count);
    return [`${from} → ${to}`, edges, ...(bytes ? [formatBytes(bytes)] : [])].join(" · ");
  },
  wire({ model, words }, { id }) {
    const wire = model.wires.get(id);
    const made = wire.label?.startsWith("∇") && wire.parts.length === 1 && wire.parts[0].src;
    const name = made ? `${wire.label} = ${made}` : wire.label || words.control;
    const parts = [name, `${wire.from} → ${wire.to}`];
    if (wire.parts.length > 1) parts.push(words.bundle.replace("{count}", wire.parts.length));
    if (wire.bytes !== null) parts.push(formatBytes(wire.bytes));
    if (wire.wait > 0) parts.push(words.waited.replace("{time}", formatNs(wire.wait)));
    return parts.join(" · ");
  },
  tile({ model, words, state }, { id, node: alone }) {
    const tile = model.tiles.get(id);
    const node = model.nodes.get(alone) ?? tile.nodes[0];
    const isStack = tile.count > 1 && !alone;
    const title = isStack
      ? `${tile.label} · ${countOf(words, tile.count)}` : `${node.id} · ${node.op}`;
    const value = amountText(words, isStack ? tile : node, state.heat);
    const turns = isStack && tile.iterations ? turnsOf(words, tile.iterations) : "";
    return [title, turns, value].filter(Boolean).join(" · ");
  },
};

/** What an end of an edge is called: a tile, or a wire that its tag belongs to. */
function nameOf({ tiles, wires }, end) {
  return tiles.get(end)?.label ?? wires.get(end.slice(1))?.label ?? end;
}

/** A tile's value under a heat choice, with its unit. */
export const valueText = (tile, choice) =>
  (choice === "bytes" ? formatBytes(tile.bytes) : formatNs(tile[choice]));

function amountText(words, thing, heat) {
  const choice = heat === "plain" ? "time" : heat;
  if (!thing[choice]) return "";
  if (choice !== "wait") return valueText(thing, choice);
  const waited = words.waited.replace("{time}", formatNs(thing.wait));
  return thing.queueing
    ? `${waited}, ${words.queued.replace("{time}", formatNs(thing.queueing))}` : waited;
}
