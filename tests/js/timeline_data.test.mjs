// Tiles: what comes over the wire, what is asked, what is drawn meanwhile.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  Loader, covers, decodeTile, nsPerPixel, spanId, wider,
} from "../../assets/timeline_data.mjs";

/** A reply as figures/tile_bytes.py writes it, with two columns. */
function reply({ rows, starts }) {
  const columns = [
    { name: "start", dtype: "float64", offset: 0 },
    { name: "row", dtype: "uint32", offset: 8 * starts.length },
  ];
  let text = JSON.stringify({ count: starts.length, start: -5, end: 95, rows: [0, 9], columns });
  text += " ".repeat((8 - ((text.length + 4) % 8)) % 8);
  const buffer = new ArrayBuffer(4 + text.length + 12 * starts.length);
  new DataView(buffer).setUint32(0, text.length, true);
  new Uint8Array(buffer, 4, text.length).set(new TextEncoder().encode(text));
  new Float64Array(buffer, 4 + text.length, starts.length).set(starts);
  new Uint32Array(buffer, 4 + text.length + 8 * starts.length, starts.length).set(rows);
  return buffer;
}

test("a reply becomes columns, its window and an order a row", () => {
  const tile = decodeTile(reply({ rows: [0, 0, 3, 0], starts: [1, 7, 2, 4] }));
  assert.deepEqual([tile.from, tile.to], [-5, 95]);
  assert.deepEqual([...tile.orders], [[0, [0, 3, 1]], [3, [2]]]);
});

test("ids of spans keep their 64 bits", () => {
  assert.equal(spanId({ span_hi: [0x0123], span_lo: [0xffffffff] }, 0), "00000123ffffffff");
});

test("twice the window is asked for, in whole ns, within what the server takes", () => {
  assert.deepEqual(wider(100, 200, 600), { from: 50, to: 250, width: 1200 });
  assert.equal(wider(0, 10, 9000).width, 4096);
  const large = wider(0, 2400, 2400); // a screen so wide still gets a box a pixel
  assert.ok(large.from < 0 && large.to > 2400);
  assert.equal(large.to - large.from, large.width);
  const tiny = wider(5, 5.4, 600);
  assert.ok(Number.isInteger(tiny.from) && tiny.to > tiny.from);
});

const tile = (from, to, asked = 200) => ({ from, to, rows: [0, 4], asked });

test("a tile covers a window and rows inside it", () => {
  assert.ok(covers(tile(0, 100), 10, 90, [1, 3]));
  assert.ok(!covers(tile(0, 100), 10, 101, [1, 3]));
  assert.ok(!covers(tile(0, 100), 10, 90, [1, 5]));
});

function loader(replies = []) {
  const asked = [];
  const source = {
    tile: (query) => {
      asked.push(query);
      return replies.shift()?.(query) ?? Promise.resolve({ ...query, asked: query.width });
    },
    arrows: () => Promise.resolve({ source: [] }),
  };
  const seen = { asked, arrived: 0, failed: [] };
  const made = new Loader(source, () => { seen.arrived += 1; }, (e) => seen.failed.push(e));
  return Object.assign(made, { seen });
}

const settled = () => new Promise((resolve) => { setTimeout(resolve, 70); });

test("a moving view asks once, for where it came to rest", async () => {
  const view = loader();
  for (let at = 0; at < 10; at += 1) view.want(at * 100, at * 100 + 100, 100, [0, 4]);
  await settled();
  assert.deepEqual(view.seen.asked.map(({ from }) => from), [850]);
  assert.equal(view.seen.arrived, 1);
  assert.ok(!view.isBusy);
});

test("what is here already is not asked again", async () => {
  const view = loader();
  view.want(0, 100, 100, [0, 4], true);
  await settled();
  view.want(20, 120, 100, [0, 4]);
  await settled();
  assert.equal(view.seen.asked.length, 1);
});

test("an answer that comes too late is dropped", async () => {
  let late;
  const view = loader([() => new Promise((resolve) => { late = resolve; })]);
  view.want(0, 100, 100, [0, 4], true);
  await settled();
  view.want(5000, 5100, 100, [0, 4], true);
  await settled();
  late({ from: -50, to: 150, rows: [0, 4] });
  await settled();
  assert.deepEqual(view.tiles.map(({ from }) => from), [4950]);
});

test("the finest tile that covers a window is drawn, else the one that covers most", () => {
  const view = loader();
  view.tiles = [tile(0, 10000), tile(400, 600), tile(900, 1100)];
  assert.equal(view.best(450, 550, 100, [0, 4]).tile.from, 400);
  assert.equal(view.best(450, 550, 100, [0, 4]).isSharp, true);
  assert.equal(view.best(2000, 2100, 100, [0, 4]).tile.from, 0);
  assert.equal(view.best(2000, 2100, 100, [0, 4]).isSharp, false);
});

test("a failure is told once and the next question is free", async () => {
  const view = loader([() => Promise.reject(new Error("gone"))]);
  view.want(0, 100, 100, [0, 4], true);
  await settled();
  assert.equal(view.seen.failed[0].message, "gone");
  assert.ok(!view.isBusy);
  view.want(0, 100, 100, [0, 4], true);
  await settled();
  assert.equal(view.seen.arrived, 1);
  assert.equal(nsPerPixel(view.tiles[0]), 1);
});
