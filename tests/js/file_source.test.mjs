// What a file answers in place of the server.
import assert from "node:assert/strict";
import { test } from "node:test";
import { FileSource } from "../../assets/file_source.mjs";

const id = (n) => `00000000${n.toString(16).padStart(8, "0")}`;

function source() {
  const tile = {
    count: 4, span_hi: [0, 0, 0, 0], span_lo: [1, 2, 3, 4], start: [0, 5, 9, 12], row: [0, 0, 1, 1],
    names: ["mm", "w_S1", "w_recv"], name: [0, 1, 2, 0],
    columns: ["span_hi", "span_lo", "start", "row", "name"].map((name) => ({ name })),
  };
  const arrows = { source: [id(2)], target: [id(3)] };
  const wires = [{ parts: [{ key: "a;b;w", send: "w_S1", recv: "w_recv" }] }];
  const keys = { "a;b;x": [id(2), id(3)] };
  const graphs = {
    placed: { stage: "placed", wires: [], nodes: [] },
    device: { stage: "device", wires, nodes: [{ id: "mm", span: id(1) }, { id: "x", span: "" }] },
  };
  const head = { rows: [{ id: 1, task: "ps:0" }] };
  const findings = { "worker:0 3": { path: null, stalls: [] } };
  const found = { findings, stands_out: [{ step: 3 }] };
  return new FileSource({ head, arrows, graphs, keys, ...found }, tile);
}

test("every window is answered with all that is held", async () => {
  const tile = await source().tile({ from: -4, to: 40, width: 900, rows: [0, 2] });
  assert.deepEqual([tile.from, tile.to, tile.count], [-4, 40, 4]);
});

test("a selection means keys and calls, as the server would say", async () => {
  const file = source();
  const keysOf = async (type, name) => {
    const sel = { type, id: name };
    return file.keysOf(sel, await file.lit(sel, null));
  };
  const none = { keys: [], spans: [], links: [], tensors: [], task: "" };
  assert.deepEqual(file.keysOf(null, null), none);
  const both = { ...none, keys: ["a;b;x"], spans: [id(2), id(3)] };
  assert.deepEqual(await keysOf("span", id(2)), both);
  assert.deepEqual(await keysOf("key", "a;b;x"), both);
  assert.deepEqual(await keysOf("span", id(1)), { ...none, spans: [id(1)] });
  assert.deepEqual((await keysOf("link", "ps:0→worker:0")).links, ["ps:0→worker:0"]);
});

test("of a stall the aside of the graph knows a node", () => {
  assert.equal(source().nodeOf({ id: `${id(9)},${id(1)}` }, "device").id, "mm");
});

test("what the analyses found is told of the steps that are held", async () => {
  const file = source();
  assert.deepEqual(await file.findings({ number: 3, task: "worker:0" }), { path: null, stalls: [] });
  assert.equal(await file.findings({ number: 4, task: "worker:0" }), null);
  assert.deepEqual(await file.standsOut(), [{ step: 3 }]);
});

test("a span is lit with the other end of its link", async () => {
  const lit = await source().lit({ type: "span", id: id(3) }, null);
  assert.equal(lit.selected, 1);
  assert.deepEqual([...lit.span_lo], [3, 2]);
});

test("a node lights all its spans, a key its Send and its Recv, the unknown nothing", async () => {
  const of = async (type, name) => {
    const lit = await source().lit({ type, id: name }, 3);
    return [...lit.span_lo].slice(0, lit.selected);
  };
  assert.deepEqual(await of("node", "mm"), [1, 4]);
  assert.deepEqual(await of("key", "a;b;w"), [2, 3]);
  assert.deepEqual(await of("edge", "w_S1→w_recv"), [2, 3]);
  assert.deepEqual(await of("node", "no/such"), []);
  assert.deepEqual(await of("span", id(9)), []);
});

test("a stage is told by name, and the last one for any other", async () => {
  const stage = async (query) =>
    JSON.parse(await source().graph(new URLSearchParams(query))).stage;
  assert.equal(await stage("stage=placed"), "placed");
  assert.equal(await stage("step=4"), "device");
  assert.equal(await stage("stage=full"), "device");
});

test("a selected span stands for the node it ran", () => {
  assert.equal(source().nodeOf({ id: id(1) }).id, "mm");
  assert.equal(source().nodeOf({ id: "" }), undefined);
  assert.equal(source().rowOf({ row: [1] }, 0).task, "ps:0");
});
