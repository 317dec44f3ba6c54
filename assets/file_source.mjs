// What the canvases ask, answered from what a file holds: its spans, arrows and graphs.

import { ordersOf, spanId } from "./timeline_data.mjs";

const MOST_LIT = 256;

/** Answers as HttpSource does (sources.mjs); nothing is merged, whatever the zoom. `replayed` are
 *  the events of the step that the file opens with, whose keys and their spans it knows too. */
export class FileSource {
  constructor(own, tile, replayed = null) {
    Object.assign(this, { own, replayed });
    this.all = tile;
    this.places = new Map();
    for (let i = 0; i < tile.count; i += 1) this.places.set(spanId(tile, i), i);
  }

  head = async () => this.own.head;

  tile = async ({ from, to, rows }) => ({ ...this.all, from, to, rows });

  arrows = async () => ({ ...this.own.arrows });

  graphPath = async () => this.own.path;

  findings = async ({ number, task }) => this.own.findings[`${task} ${number}`] ?? null;

  standsOut = async () => this.own.stands_out;

  replay = async () => this.replayed;

  graph = async (query) => JSON.stringify(this.stage(query.get("stage")));

  /** A stage's graph; of one that is not held, the last. */
  stage(name) {
    const { graphs } = this.own;
    return graphs[name] ?? Object.values(graphs).at(-1);
  }

  /** The node that a selection names, or that a selected span ran; one of a stall's. */
  nodeOf({ id }, stage) {
    const spans = id.split(",");
    const isMeant = (node) => node.id === id || (node.span && spans.includes(node.span));
    return this.stage(stage)?.nodes.find(isMeant);
  }

  rowOf(tile, i) {
    return this.own.head.rows.find((row) => row.id === tile.row[i]);
  }

  /** The spans of a selection, then the other ends of their links. */
  async lit(selection, _step) {
    const selected = this.selected(selection).slice(0, MOST_LIT);
    return this.take(selected, this.linkedTo(selected));
  }

  selected({ type, id }) {
    if (type === "span" || type === "rpc") return this.placesOf([id]);
    if (type === "stall") return this.placesOf(id.split(","));
    if (type === "key" && this.own.keys[id]) return this.placesOf(this.own.keys[id]);
    const names = new Set(type === "key" ? this.endsOf(id) : id.split("→"));
    const { all } = this;
    const wanted = new Set([...all.names.keys()].filter((n) => names.has(all.names[n])));
    return [...all.name.keys()].filter((i) => wanted.has(all.name[i]));
  }

  /** The Send and the Recv of a key, as the graph names them. */
  endsOf(key) {
    const wires = Object.values(this.own.graphs).flatMap((graph) => graph.wires);
    const part = wires.flatMap(({ parts }) => parts).find((one) => one.key === key);
    return part ? [part.send, part.recv] : [];
  }

  /** Keys, calls, links and tensors that a selection means; `lit` are its spans and their ends. */
  keysOf(selection, lit) {
    const { type, id } = selection ?? {};
    const spans = Array.from({ length: lit?.count ?? 0 }, (_, i) => spanId(lit, i));
    const known = Object.entries(this.own.keys)
      .filter(([, ends]) => ends.some((one) => spans.includes(one)));
    return {
      keys: type === "key" ? [id] : known.map(([key]) => key), spans,
      links: type === "link" ? [id] : [], tensors: type === "node" ? [id] : [], task: "",
    };
  }

  placesOf(ids) {
    return ids.map((id) => this.places.get(id)).filter((i) => i !== undefined);
  }

  linkedTo(selected) {
    const { source, target } = this.own.arrows;
    const ids = new Set(selected.map((i) => spanId(this.all, i)));
    const ends = new Set();
    source.forEach((id, k) => {
      if (ids.has(id)) ends.add(target[k]);
      if (ids.has(target[k])) ends.add(id);
    });
    return this.placesOf([...ends].filter((id) => !ids.has(id))).slice(0, MOST_LIT);
  }

  /** Some spans as a tile of their own. */
  take(selected, linked) {
    const { all } = this;
    const at = [...selected, ...linked];
    const columns = all.columns.map(({ name }) => [name, at.map((i) => all[name][i])]);
    const tile = { ...all, ...Object.fromEntries(columns), count: at.length };
    return { ...tile, selected: selected.length, orders: ordersOf(tile) };
  }
}
