// Where views get what they draw: from this server, or from the file that they stand in.

import { prefix } from "./selection.mjs";
import { decodeTile } from "./timeline_data.mjs";

/** Questions to the server; a FileSource answers the same ones (offline.mjs). */
export class HttpSource {
  constructor(base) {
    this.base = base;
  }

  async ask(path, query = {}, signal = undefined) {
    const reply = await fetch(`${this.base}/${path}?${new URLSearchParams(query)}`, { signal });
    if (!reply.ok) throw new Error((await reply.json()).error ?? reply.statusText);
    return reply;
  }

  head = async () => (await this.ask("timeline/head")).json();

  async tile({ from, to, width, rows }, signal) {
    const query = { start: from, end: to, width, rows: `${rows[0]}-${rows[1]}` };
    return decodeTile(await (await this.ask("tiles", query, signal)).arrayBuffer());
  }

  async arrows({ from, to }, signal) {
    return (await this.ask("arrows", { start: from, end: to }, signal)).json();
  }

  async lit({ type, id }, step) {
    const query = { kind: type, name: id, ...(step === null ? {} : { step }) };
    return decodeTile(await (await this.ask("timeline/lit", query)).arrayBuffer());
  }

  /** The events of a step, binary; `query` are the fields of /replay. */
  async replay(query, signal) {
    return (await this.ask("replay", query, signal)).arrayBuffer();
  }

  async findings({ number, task }) {
    return (await this.ask("timeline/step", { number, task })).json();
  }

  standsOut = async () => (await this.ask("timeline/stands-out")).json();

  /** A stage of a graph, as JSON text; `query` are the fields of /graph. */
  async graph(query, signal) {
    return (await this.ask("graph", query, signal)).text();
  }

  /** The critical path of a step, as names of nodes and keys; `query` is {step, task}. */
  async graphPath(query) {
    return (await this.ask("graph/path", query)).json();
  }
}

let own = null;

/** From now on views ask what the file holds. */
export function answerFrom(source) {
  own = source;
}

export const sourceOf = (trace) => own ?? new HttpSource(`${prefix()}api/traces/${trace}`);
