// Where the timeline's spans come from: binary tiles, fetched for twice the window and kept, so
// that a moving view is drawn from what is there while the next one is on its way.

const DELAY_MS = 40; // a drag asks once it rests, unless there is nothing to draw yet
const KEEP = 6; // tiles kept; a coarse one of the whole run is among them
const FAR = 2 ** 53 - 1;
const MOST_PX = 4096; // that a tile may be wide

const ARRAYS = {
  float64: Float64Array, float32: Float32Array, uint32: Uint32Array, uint16: Uint16Array,
  uint8: Uint8Array, int32: Int32Array,
};

/** A reply of /tiles or /timeline/lit as columns; `orders` maps a row to its boxes by start. */
export function decodeTile(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const tile = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  [tile.from, tile.to] = [tile.start, tile.end];
  for (const { name, dtype, offset } of tile.columns) {
    tile[name] = new ARRAYS[dtype](buffer, 4 + length + offset, tile.count);
  }
  tile.orders = ordersOf(tile);
  return tile;
}

/** Boxes come row by row and by start, but for the few that are never merged, at a row's end. */
export function ordersOf(tile) {
  const orders = new Map();
  for (let i = 0; i < tile.count; i += 1) {
    const order = orders.get(tile.row[i]);
    if (order) order.push(i);
    else orders.set(tile.row[i], [i]);
  }
  for (const order of orders.values()) {
    const isSorted = order.every((i, k) => !k || tile.start[order[k - 1]] <= tile.start[i]);
    if (!isSorted) order.sort((a, b) => tile.start[a] - tile.start[b]);
  }
  return orders;
}

/** The id of a box as 16 hex digits. */
export function spanId(tile, i) {
  const hex = (n) => n.toString(16).padStart(8, "0");
  return hex(tile.span_hi[i]) + hex(tile.span_lo[i]);
}

/** What to ask for a window: twice as wide, or as far as the server answers a box a pixel; ns are
 *  whole. */
export function wider(from, to, width) {
  const share = Math.max(1, Math.min(2, MOST_PX / width));
  const beside = ((share - 1) / 2) * (to - from);
  const clip = (at) => Math.min(FAR, Math.max(-FAR, Math.round(at)));
  return {
    from: clip(from - beside), to: clip(Math.max(to + beside, from + 2)),
    width: Math.min(MOST_PX, Math.max(16, Math.round(width * share))),
  };
}

export const covers = (tile, from, to, rows) => tile.from <= from && tile.to >= to
  && tile.rows[0] <= rows[0] && tile.rows[1] >= rows[1];

/** ns that one box of a tile stands for. */
export const nsPerPixel = (tile) => (tile.to - tile.from) / tile.asked;

/** Whether what is being fetched will do for a window too. */
const isEnough = (asked, from, to, width, rows) => covers(asked, from, to, rows)
  && (asked.to - asked.from) / asked.width < (1.05 * (to - from)) / width;

/** Asks late, keeps the newest answers, and knows which fits a window best. */
export class Loader {
  /** `arrived()` is called when there is something better to draw, `failed(error)` when not. */
  constructor(source, arrived, failed) {
    Object.assign(this, { source, arrived, failed, tiles: [], arrows: null });
    this.generation = 0;
    this.answered = 0;
  }

  get isBusy() {
    return this.answered < this.generation;
  }

  /** Wants the window [from, to] drawn `width` pixels wide, rows [first, past the last). */
  want(from, to, width, rows, isAtOnce = false) {
    const best = this.best(from, to, width, rows);
    if (best?.isSharp && this.arrows && this.arrows.from <= from && this.arrows.to >= to) return;
    if (this.isBusy && this.pending && isEnough(this.pending, from, to, width, rows)) return;
    this.generation += 1;
    const mine = this.generation;
    this.pending = { ...wider(from, to, width), rows };
    const asked = this.pending;
    clearTimeout(this.timer);
    const delay = isAtOnce || !this.tiles.length ? 0 : DELAY_MS;
    this.timer = setTimeout(() => this.#fetch(mine, asked), delay);
  }

  /** What was fetched is out of date, or (`isVoid`) wrong: it is drawn until the new one comes. */
  expire(isVoid = false) {
    for (const tile of this.tiles) tile.isOld = true;
    if (isVoid) [this.tiles, this.arrows] = [[], null];
    else if (this.arrows) this.arrows.from = Infinity;
  }

  async #fetch(mine, asked) {
    this.request?.abort();
    this.request = new AbortController();
    const { signal } = this.request;
    try {
      const [tile, arrows] = await Promise.all(
        [this.source.tile(asked, signal), this.source.arrows(asked, signal)],
      );
      if (mine !== this.generation) return; // a newer question is under way
      tile.asked = asked.width;
      this.tiles = [tile, ...this.tiles].slice(0, KEEP);
      this.arrows = { ...arrows, from: asked.from, to: asked.to };
      this.answered = mine;
      this.arrived();
    } catch (error) {
      if (error.name === "AbortError") return;
      this.answered = mine;
      this.failed(error);
    }
  }

  /** The tile to draw a window from: the finest that covers it, else the one that covers most. */
  best(from, to, width, rows) {
    const wanted = (to - from) / width;
    let best = null;
    for (const tile of this.tiles) {
      const overlap = Math.max(0, Math.min(to, tile.to) - Math.max(from, tile.from));
      const whole = covers(tile, from, to, rows);
      const coarse = Math.max(1, nsPerPixel(tile) / wanted);
      const score = (overlap / (to - from)) * (whole ? 2 : 1) - Math.log2(coarse) / 40;
      if (!best || score > best.score) {
        best = { tile, score, isSharp: whole && coarse < 1.05 && !tile.isOld };
      }
    }
    return best;
  }

  stop() {
    clearTimeout(this.timer);
    this.request?.abort();
    this.generation += 1;
  }
}
