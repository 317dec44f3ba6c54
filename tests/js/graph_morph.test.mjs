// How one stage of a graph turns into another, and how two stand over one another.
import assert from "node:assert/strict";
import { test } from "node:test";

import { buildModel } from "../../assets/graph_model.mjs";
import { planMorph } from "../../assets/graph_morph.mjs";
import { pathIn } from "../../assets/graph_marks.mjs";
import { cutsBetween, layTwo, linesOf, saidOf, scalesOfTwo } from "../../assets/graph_two.mjs";
import { pointAt } from "../../assets/shapes.mjs";

const node = (id, more = {}) => ({
  id, tile: id, op: "MatMul", coming: "", origin: "", going: "", time: 0, wait: 0, queueing: 0,
  bytes: 0, ...more,
});
const tile = (id, x, y, band = "a") => ({ id, x, y, band, kind: "compute", count: 1 });
const box = (id, y) => ({ id, x: 0, y, w: 100, h: 50 });
const band = (id, y) => ({ id, box: id, x: 10, y, w: 80, h: 50 });
const link = (src, dst, points) => ({ src, dst, points, count: 1, bytes: 0, control: false });
const wire = (id, src, dst, points, more = {}) => ({
  id, points, isPair: true, control: false, bytes: 4, wait: 0, ways: ["down", "down"],
  parts: [{ id, send: `${id}_S`, recv: id, src, dsts: [dst], key: `key ${id}`, spans: [] }],
  ...more,
});

/** v → m, with a node that nothing needs, on one device; then cut between two. */
const placed = {
  stage: "placed", isCut: false, nodeCount: 3, opened: [], frames: [], phases: [],
  boxes: [box("a", 0)], bands: [band("a", 0)],
  tiles: [tile("v", 0, 0), tile("m", 100, 0), tile("gone", 50, 30)],
  nodes: [node("v"), node("m"), node("gone", { going: "unneeded" })],
  links: [link("v", "m", [[17, 0], [83, 0]]), link("v", "gone", [[17, 0], [50, 13]])],
  wires: [],
};
const cut = {
  ...placed, stage: "worker", isCut: true, nodeCount: 5,
  boxes: [box("a", 0), box("b", 100)], bands: [band("a", 0), band("b", 100)],
  tiles: [tile("v", 0, 0), tile("m", 200, 100, "b"), tile("loop", 100, 100, "b")],
  nodes: [node("v"), node("m"), node("loop", { coming: "loop", origin: "v" })],
  links: [link("v", ">r", [[17, 0], [40, 25]]), link("<r", "m", [[160, 75], [183, 100]])],
  wires: [wire("r", "v", "m", [[40, 25], [160, 75]])],
};

const at = (share, before = placed, after = cut) => {
  const picture = planMorph(before, after).at(share);
  return {
    ...picture,
    tile: (id) => picture.tiles.find((one) => one.id === id),
    link: (src, dst) => picture.links.find((one) => one.src === src && one.dst === dst),
  };
};

test("what survives moves, what goes fades where it stood, halfway as well", () => {
  const half = at(0.5);
  assert.deepEqual([half.tile("m").x, half.tile("m").y, half.tile("m").shown], [150, 50, 1]);
  assert.deepEqual([half.tile("gone").x, half.tile("gone").y, half.tile("gone").shown],
    [50, 30, 0.5]);
});

test("what was added grows out of the node that it belongs to", () => {
  assert.deepEqual([at(0).tile("loop").x, at(0).tile("loop").grown], [0, 0]);
  assert.deepEqual([at(0.5).tile("loop").x, at(0.5).tile("loop").grown], [50, 0.5]);
  assert.deepEqual([at(1).tile("loop").x, at(1).tile("loop").grown], [100, 1]);
});

test("a pair grows out of the edge that it cuts, with its tags from nothing", () => {
  const [begun] = at(0).wires;
  assert.deepEqual(begun.points, [[17, 0], [83, 0]]);
  assert.deepEqual([begun.grown, begun.shown], [0, 1]);
  assert.deepEqual(at(0).link("v", ">r").points, [[17, 0], [17, 0]]);
  assert.deepEqual(at(0).link("<r", "m").points, [[83, 0], [83, 0]]);
  assert.deepEqual(at(1).wires[0].points, cut.wires[0].points);
});

test("backwards a pair becomes the edge that it was", () => {
  assert.deepEqual(at(0, cut, placed).link("v", "m").points, cut.wires[0].points);
  assert.deepEqual(at(1, cut, placed).link("v", "m").points, placed.links[0].points);
  assert.equal(at(0.5, cut, placed).tile("loop").grown, 0.5);
});

test("edges of what goes fade with it, and the edges that stay are whole", () => {
  const half = at(0.5);
  assert.equal(half.link("v", "gone").shown, 0.5);
  assert.deepEqual(at(0.5, placed, placed).links.map((one) => one.shown), [1, 1]);
});

test("a new box grows out of the box that held its nodes", () => {
  const start = at(0).boxes.find((one) => one.id === "b");
  assert.deepEqual([start.y, start.shown], [0, 0]);
  assert.equal(at(1).boxes.find((one) => one.id === "b").y, 100);
});

test("at both ends of the way the pictures are those of the stages", () => {
  const places = (tiles) => tiles.filter((one) => one.shown > 0)
    .map(({ id, x, y }) => `${id} ${x} ${y}`).sort();
  const stood = (payload) => payload.tiles.map(({ id, x, y }) => `${id} ${x} ${y}`).sort();
  assert.deepEqual(places(at(1).tiles), stood(cut));
  assert.deepEqual(places(at(0).tiles).filter((one) => !one.startsWith("loop")), stood(placed));
});

test("a point lies on its line, however far along", () => {
  const line = [[0, 0], [10, 0], [10, 30]];
  assert.deepEqual([0, 0.25, 0.5, 1].map((share) => pointAt(line, share)),
    [[0, 0], [10, 0], [10, 10], [10, 30]]);
});

// two stages

test("every data edge that a cut goes through has a number in both pictures", () => {
  const cuts = cutsBetween(buildModel(placed), buildModel(cut));
  assert.deepEqual(cuts, [
    { wire: "r", upper: placed.links[0].points, lower: cut.wires[0].points },
  ]);
  assert.deepEqual(cutsBetween(buildModel(cut), buildModel(cut)), []);
});

test("sentences count what there is and what was added", () => {
  const words = { two: {
    "upper.placed": "{nodes} {devices} {cut}", "lower.worker": "{nodes} {added}",
    "lower.same": "same",
  } };
  assert.deepEqual(saidOf(words, buildModel(placed), buildModel(cut)), ["3 1 1", "5 3"]);
  assert.equal(saidOf(words, buildModel(cut), buildModel(cut))[1], "same");
});

// critical path

test("a critical path is lit on tiles, wires and the links between them, in order", () => {
  const pieces = [{ name: "v" }, { name: "r_S" }, { name: "r" }, { name: "m" }, { name: "m" }];
  const path = pathIn(buildModel(cut), { pieces });
  assert.deepEqual([...path.tiles], [["v", [1]], ["m", [3]]]);
  assert.deepEqual([...path.wires], [["r", [2]]]);
  assert.deepEqual([...path.links], ["v→>r", "<r→m"]);
});

test("a call for a tensor is on the wire of its key, and what the graph lacks is left out", () => {
  const pieces = [{ name: "recv_tensor", key: "key r" }, { name: "run_graph", key: "" }];
  assert.deepEqual([...pathIn(buildModel(cut), { pieces }).wires], [["r", [1]]]);
});

test("two stages fit the height of the canvas, with names beside each other", () => {
  const room = { width: 1300, height: 650 };
  assert.deepEqual(scalesOfTwo(room, { width: 1000, height: 1000 }, 0.8), [1, 0.65]);
  assert.deepEqual(scalesOfTwo(room, { width: 1000, height: 500 }, 0.8), [1, 1]);
  assert.deepEqual(scalesOfTwo(room, { width: 9000, height: 9000 }, 0.8), [0.8, 0.45]);
});

test("a phone shows both stages whole, with room for what is said of each", () => {
  const [lower, upper] = [{ width: 1500, height: 500 }, { width: 1500, height: 300 }];
  const { rise, above, scales: [across, down] } = layTwo({ width: 390, height: 420 }, lower, upper);
  assert.ok(lower.width * across <= 390 && across < 0.3);
  assert.equal(Math.round((rise - upper.height) * down), above); // pixels between the two
  assert.ok(above + (rise + lower.height) * down <= 420);
  const wide = layTwo({ width: 1440, height: 700 }, lower, upper, 0.8);
  assert.equal(wide.rise, upper.height + 72);
});

test("a sentence takes lines, broken between words and between Chinese characters", () => {
  const measure = (text) => [...text].reduce((sum, c) => sum + (c > "\u2e80" ? 2 : 1), 0);
  assert.deepEqual(linesOf("6 nodes on 2 devices", measure, 10, 3), ["6 nodes on", "2 devices"]);
  assert.deepEqual(linesOf("两个设备上有六个节点", measure, 8, 3), ["两个设备", "上有六个", "节点"]);
  assert.deepEqual(linesOf("one two three four", measure, 9, 2), ["one two", "three fo…"]);
});
