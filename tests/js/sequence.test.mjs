// Where the calls of a step lie: to scale, within the picture, and no label on another.

import assert from "node:assert/strict";
import { test } from "node:test";

import { layOut } from "../../assets/sequence.mjs";
import { passes } from "../../assets/sequence_labels.mjs";
import { isMeant } from "../../assets/rendezvous.mjs";

const call = (at, changes = {}) => ({
  id: `c${at}`, kind: "recv", source: "worker:0", target: "ps:0", sent: at, served: at + 100,
  exists: at + 300, answered: at + 310, done: at + 400, bytes: 64, label: `recv_tensor w${at}`,
  reply: `w${at}, 64 B`, held: "held", note: "", says: "", sel: `key:k${at}`, key: `k${at}`,
  span: `s${at}`, calls: [], dead: false, notice: false, failed: false, unfinished: false,
  deferred: false, ...changes,
});

const payload = (bundles, changes = {}) => ({
  total: 1000, local: "", bundles, ticks: [[0, "0 µs"], [500, "500 µs"]], words: {},
  lifelines: ["client", "worker:0", "ps:0"].map((id) => ({ id, label: id, role: "", note: "" })),
  ...changes,
});

const drawn = (of, { opened = [], lit = [], height = 600, width = 520 } = {}) => layOut(of, {
  width, height, opened: new Set(opened), isLit: ({ key }) => lit.includes(key),
  measure: (text) => 6 * text.length,
});

test("times are to scale, from top to bottom", () => {
  const { units: [one], ticks } = drawn(payload([call(100)]));
  const scale = (ticks[1].y - ticks[0].y) / 500;
  const y = (ns) => ticks[0].y + ns * scale;
  const [request, reply] = one.lines;
  assert.deepEqual([request.from[1], request.to[1]], [y(100), y(200)]);
  assert.deepEqual([reply.from[1], reply.to[1]], [y(400), y(500)]);
  const [held] = one.bars;
  assert.deepEqual([held.kind, held.y, Math.round(held.height)],
    ["held", y(200), Math.round(200 * scale)]);
});

test("a request goes from its caller's lifeline to its server's, and the value back", () => {
  const { units: [one], lanes } = drawn(payload([call(100)]));
  const [, worker, ps] = lanes.map(({ x }) => x);
  const [request, reply] = one.lines;
  assert.ok(Math.abs(request.from[0] - worker) < 6 && Math.abs(request.to[0] - ps) < 6);
  assert.ok(Math.abs(reply.from[0] - ps) < 6 && Math.abs(reply.to[0] - worker) < 6);
  assert.equal(reply.kind, "value");
});

test("a call that nobody took ends in a cross, and one that failed says so on its way back", () => {
  const lost = call(0, { served: -1, exists: -1, answered: -1, unfinished: true });
  const failed = call(300, { failed: true });
  const { units } = drawn(payload([lost, failed]));
  assert.deepEqual(units[0].lines.map((line) => line.isLost), [true]);
  assert.deepEqual(units[1].lines.map((line) => line.kind), ["call", "failed"]);
});

test("several calls are one until they are opened; one that is lit stands alone", () => {
  const calls = [call(0), call(20), call(40)];
  const bundle = call(0, { id: "b", label: "3 recv_tensor", key: "", calls });
  const ids = (options) => drawn(payload([bundle]), options).units.map(({ id }) => id);
  assert.deepEqual(ids({}), ["b"]);
  assert.deepEqual(ids({ opened: ["b"] }), ["b", "c0", "c20", "c40"]);
  assert.deepEqual(ids({ lit: ["k20"] }), ["b", "c20"]);
  const [head] = drawn(payload([bundle]), { opened: ["b"] }).units;
  assert.deepEqual([head.lines.length, head.labels[0].text], [0, "3 recv_tensor"]);
});

const boxesOf = (units) => units.flatMap(({ labels }) => labels.map(({ at, text }) => {
  const wide = 6 * text.length;
  const x = at.x - wide * { start: 0, middle: 0.5, end: 1 }[at.anchor];
  return { text, x, right: x + wide, y: at.y - 10, bottom: at.y + 3 };
}));

test("no label touches another or leaves the picture, however many there are", () => {
  const many = Array.from({ length: 60 }, (_, at) => call(at * 14));
  const { units, width, height } = drawn(payload(many), { height: 420 });
  const boxes = boxesOf(units);
  assert.ok(boxes.length > 10 && boxes.length < 180);
  for (const [place, a] of boxes.entries()) {
    assert.ok(a.x >= 0 && a.right <= width && a.bottom <= height);
    for (const b of boxes.slice(place + 1)) {
      assert.ok(a.x >= b.right || b.x >= a.right || a.y >= b.bottom || b.y >= a.bottom);
    }
  }
});

test("what has no room for its whole name is said in brief", () => {
  const named = (changes) => drawn(payload([call(100, {
    label: "recv_tensor gradients/of/a/deep/scope/w", reply: "", ...changes,
  })], { lifelines: [{ id: "worker:0" }, { id: "ps:0" }].map(({ id }) => (
    { id, label: id, role: "", note: "" })) }), { width: 200 }).units[0].labels
    .filter(({ kind }) => kind === "name").map(({ text }) => text);
  assert.deepEqual(named({ brief: "" }), []);
  assert.deepEqual(named({ brief: "w" }), ["w"]);
});

test("no label lies on a line, a lifeline or a bar", () => {
  for (const apart of [8, 30, 120]) {
    const calls = Array.from({ length: 8 }, (_, at) => call(at * apart, {
      source: at % 2 ? "ps:0" : "worker:0", target: at % 2 ? "worker:0" : "ps:0",
    }));
    const { units, lanes, foot } = drawn(payload(calls), { height: 420 });
    const boxes = boxesOf(units);
    assert.ok(boxes.length > 2);
    const lines = [
      ...units.flatMap((unit) => unit.lines),
      ...lanes.map(({ x }) => ({ from: [x, 0], to: [x, foot] })),
      ...units.flatMap((unit) => unit.bars).map(({ x, y, width, height }) => (
        { from: [x, y], to: [x + width, y + height] })),
    ];
    for (const box of boxes) {
      assert.deepEqual(lines.filter((line) => passes(line, box)), [], box.text);
    }
  }
});

test("a line passes a box through it, not beside it, and near it within a reach", () => {
  const box = { x: 10, y: 10, right: 20, bottom: 20 };
  assert.equal(passes({ from: [0, 0], to: [30, 30] }, box), true);
  assert.equal(passes({ from: [0, 0], to: [9, 9] }, box), false);
  assert.equal(passes({ from: [0, 24], to: [6, 0] }, box), false);
  assert.equal(passes({ from: [12, 0], to: [12, 30] }, box), true);
  assert.equal(passes({ from: [8, 0], to: [8, 30] }, box), false);
  assert.equal(passes({ from: [8, 0], to: [8, 30] }, box, 3), true);
});

test("the label of a lit call is the last to give way", () => {
  const many = Array.from({ length: 60 }, (_, at) => call(at * 14));
  const { units } = drawn(payload(many), { height: 420, lit: ["k434"] });
  const lit = units.find(({ isLit }) => isLit);
  assert.deepEqual(lit.labels.map(({ text }) => text).slice(0, 1), ["recv_tensor w434"]);
});

test("a client inside its master's process asks it by no call", () => {
  const { units: [own] } = drawn(payload([call(100)], { local: "no call" }));
  assert.deepEqual([own.kind, own.lines.map(({ kind }) => kind)], ["local", ["local", "local"]]);
});

test("lifelines keep their distance where there are many of them", () => {
  const lifelines = Array.from({ length: 12 }, (_, at) => ({ id: `t${at}`, label: `t${at}` }));
  const { lanes, width } = drawn(payload([], { lifelines }));
  for (const [at, lane] of lanes.slice(1).entries()) assert.ok(lane.x - lanes[at].x >= 100);
  assert.ok(width > 1200);
});

test("three lifelines fit a phone", () => {
  const { lanes, width, lane } = drawn(payload([call(100)]), { width: 332 });
  assert.equal(width, 332);
  assert.ok(lanes.at(-1).x + lane / 2 <= width);
});

test("a row is meant by its key, its edge, its tensor or its link", () => {
  const none = { keys: [], spans: [], links: [], tensors: [] };
  const row = { key: "a;1;b;e;0:0", tensor: "w", link: "ps:0→worker:0" };
  assert.equal(isMeant(row, none), false);
  assert.equal(isMeant(row, { ...none, keys: ["a;1;b;e;0:0"] }), true);
  assert.equal(isMeant(row, { ...none, tensors: ["w"] }), true);
  assert.equal(isMeant(row, { ...none, links: ["ps:0→worker:0"] }), true);
  assert.equal(isMeant(row, { ...none, links: ["worker:0→ps:0"], keys: [row.key] }), false);
  assert.equal(isMeant({ edge: "a;1;b;e" }, { ...none, keys: ["a;1;b;e;7:3"] }), true);
});
