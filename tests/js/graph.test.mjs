// The pure parts of the graph canvas, on the graph of a real TensorFlow partition.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import * as core from "../../assets/core.mjs";
import * as graph from "../../assets/graph_model.mjs";
import * as folds from "../../assets/graph_folds.mjs";
import * as table from "../../assets/graph_table.mjs";
import { drawWireLabels } from "../../assets/graph_wires.mjs";
import { tipLines } from "../../assets/graph_words.mjs";
import { tagPoints } from "../../assets/shapes.mjs";

const read = (name) => JSON.parse(readFileSync(new URL(name, import.meta.url)));
const payload = read("./graph_payload.json");
const model = graph.buildModel(payload);
const light = { panel: "#ffffff", ink: "#16191d", compute: "#0072b2", send: "#e69f00" };

test("levels of detail change at the zooms of the design", () => {
  const names = [0.2, 0.25, 0.4, 0.5, 0.79, 0.8, 1.4, 1.41].map((z) => graph.levelOf(z).name);
  assert.deepEqual(names, [
    "overview", "small", "small", "glyphs", "glyphs", "names", "names", "cards",
  ]);
  assert.equal(graph.levelOf(0.4).tag, 8);
  assert.equal(graph.levelOf(1).tag, 18);
});

test("a wire is as wide as its bytes, and never wider than 9 px", () => {
  assert.equal(graph.wireWidth(40).toFixed(1), "1.8");
  assert.equal(graph.wireWidth(10 * 1024).toFixed(1), "3.7");
  assert.equal(graph.wireWidth(784 * 1024).toFixed(1), "7.0");
  assert.equal(graph.wireWidth(2 ** 40), 9);
});

test("every tile is found where it is drawn, and its node is what a click selects", () => {
  const grid = graph.hitGrid(payload);
  for (const tile of payload.tiles) {
    const hit = grid.at(tile.x, tile.y);
    assert.equal(hit.id, tile.id);
    const selection = graph.selectionOf(model, hit);
    assert.equal(graph.resolve(model, selection).tile, tile.id);
  }
});

test("both tags of every wire are found, and mean the wire", () => {
  const grid = graph.hitGrid(payload);
  for (const wire of payload.wires) {
    for (const [x, y] of [wire.points[0], wire.points.at(-1)]) {
      assert.deepEqual(grid.at(x, y), { type: "wire", id: wire.id });
    }
    const selection = graph.selectionOf(model, { type: "wire", id: wire.id });
    assert.deepEqual(graph.resolve(model, selection), { wire: wire.id });
  }
});

test("a wire that is called after its variable says of which node it is the gradient", () => {
  const words = { waited: "{time}" };
  const wire = payload.wires.find(({ label }) => label === "∇w1");
  const [line] = tipLines({ model, words }, { type: "wire", id: wire.id });
  assert.match(line, /^∇w1 = gradients\/mm1_grad\/tuple\/control_dependency_1 · /);
  const value = payload.wires.find(({ label }) => label === "w1");
  assert.match(tipLines({ model, words }, { type: "wire", id: value.id })[0], /^w1 · /);
});

test("a selection of any kind leads to the same thing", () => {
  const wire = payload.wires.find((one) => one.label === "∇w1");
  const [part] = wire.parts;
  for (const [type, id] of [
    ["edge", `${part.send}→${part.recv}`], ["key", part.key], ["span", part.spans[1]],
    ["node", part.recv], ["node", part.send],
  ]) {
    assert.deepEqual(graph.resolve(model, { type, id }), { wire: wire.id }, type);
  }
  assert.equal(graph.resolve(model, { type: "node", id: "no/such" }), null);
  assert.equal(graph.resolve(model, null), null);
});

test("what carries a control edge, and has no tile, is its wire", () => {
  const wire = payload.wires.find(({ parts: [part] }) => part.carriers.length);
  const [{ carriers, spans }] = wire.parts;
  for (const id of carriers) {
    assert.deepEqual(graph.resolve(model, { type: "node", id }), { wire: wire.id });
  }
  for (const id of spans) {
    assert.deepEqual(graph.resolve(model, { type: "span", id }), { wire: wire.id });
  }
});

test("a selected op lights what it exchanges values with, and nothing else", () => {
  const name = "train/update_w1/ApplyGradientDescent";
  const found = graph.resolve(model, { type: "node", id: name });
  const lit = graph.litBy(model, found);
  const labels = [...lit.wires].map((id) => model.wires.get(id).label);
  assert.deepEqual(labels, ["∇w1"]);
  assert.ok(lit.tiles.has("w1"));
  assert.ok(!lit.tiles.has("w2"));
});

test("a stall rings what was awaited and what ran next, and lights what both touch", () => {
  const wire = payload.wires.find((one) => one.label === "∇w1");
  const op = payload.nodes.find((node) => node.span && node.kind === "compute");
  const stall = { type: "stall", id: `${wire.parts[0].spans[1]},${op.span}` };
  const found = graph.resolve(model, stall);
  assert.deepEqual(found, { all: [{ wire: wire.id }, { tile: op.tile, node: op.id }] });
  assert.ok(graph.isChosen(found, "wire", wire.id) && graph.isChosen(found, "tile", op.tile));
  const others = payload.tiles.filter(({ id }) => graph.isChosen(found, "tile", id));
  assert.deepEqual(others.map(({ id }) => id), [op.tile]);
  const lit = graph.litBy(model, found);
  for (const one of found.all) {
    for (const id of graph.litBy(model, one).tiles) assert.ok(lit.tiles.has(id), id);
  }
});

test("a span of another turn of a loop goes by its names, and one of no node by none", () => {
  const op = payload.nodes.find((node) => node.span && node.kind === "compute");
  const stall = { type: "stall", id: "0000000000000bad,0000000000000bed" };
  assert.equal(graph.resolve(model, stall), null);
  const found = graph.resolve(model, stall, [[], [op.id, ""]]);
  assert.deepEqual(found, { tile: op.tile, node: op.id });
});

test("heat is logarithmic above two decades only", () => {
  assert.equal(core.heatShare(50, 0, 100), 0.5);
  assert.ok(!core.isLogScale(1, 100));
  assert.ok(core.isLogScale(1, 101));
  assert.equal(core.heatShare(100, 1, 10_000), 0.5);
  assert.equal(core.heatShare(0, 1, 10), 0);
  assert.equal(core.heat(light, "compute", 1), "#0072b2");
});

test("a glyph on a heated tile keeps a contrast of four", () => {
  for (let share = 0; share <= 1; share += 0.01) {
    const fill = core.heat(light, "compute", share);
    assert.ok(core.contrast(core.inkOn(fill, light), fill) >= 4, String(share));
  }
});

test("the table has every node, costliest first, and leaves out what is too much", () => {
  const words = { forward: "forward" };
  const rows = table.rowsOf(payload, words);
  assert.equal(rows.length, payload.nodes.length);
  const [first] = rows;
  const most = Math.max(...payload.nodes.map((node) => node.time));
  assert.equal(payload.nodes.find((node) => node.id === first[0]).time, most);
  const many = Array.from({ length: table.MOST + 5 }, () => payload.nodes[0]);
  assert.equal(table.rowsOf({ nodes: many }, words).length, table.MOST);
});

test("the overview shows every node once, inside its box, and bundles without shared lanes", () => {
  const view = graph.overview(model, 1000, 700);
  const seen = view.frames.flatMap((frame) => frame.squares.map((square) => square.node.id));
  assert.deepEqual(seen.sort(), payload.nodes.map((node) => node.id).sort());
  for (const frame of view.frames) {
    const box = view.boxes.find((one) => one.id === frame.box);
    assert.ok(frame.y >= box.y && frame.y + frame.h <= box.y + box.h, frame.id);
    for (const { x, y } of frame.squares) {
      assert.ok(x >= frame.x && x + 6 <= frame.x + frame.w);
      assert.ok(y >= frame.y && y + 6 <= frame.y + frame.h);
    }
  }
  const bytes = payload.wires.reduce((sum, wire) => sum + wire.bytes, 0);
  assert.equal(view.bundles.reduce((sum, bundle) => sum + bundle.bytes, 0), bytes);
  for (const a of view.bundles) {
    for (const b of view.bundles) {
      if (a === b || a.side !== b.side || a.points[1][0] !== b.points[1][0]) continue;
      const [low, high] = [a, b].map((one) => [one.points[1][1], one.points[2][1]])
        .map((ys) => ys.sort((p, q) => p - q)).sort((p, q) => p[0] - q[0]);
      assert.ok(low[1] < high[0], `${a.id} and ${b.id}`);
    }
  }
});

test("zooming keeps the point under the pointer", () => {
  const port = new core.Viewport({ x: 10, y: 20, scaleX: 0.5, scaleY: 2 });
  const before = port.toWorld(300, 200);
  port.zoomAt(300, 200, 1.7);
  assert.deepEqual(port.toWorld(300, 200).map((v) => v.toFixed(9)),
    before.map((v) => v.toFixed(9)));
  port.panBy(5, 6);
  const [x, y] = port.toScreen(...before);
  assert.deepEqual([x.toFixed(6), y.toFixed(6)], ["305.000000", "206.000000"]);
});

test("the nearest thing lies in the direction that was asked for", () => {
  const grid = new core.HitGrid();
  for (const [item, x, y] of [["right", 100, 0], ["far", 300, 0], ["below", 0, 100]]) {
    grid.add(item, x, y, 10, 10);
  }
  assert.equal(grid.nearest(5, 5, 1, 0), "right");
  assert.equal(grid.nearest(5, 5, 0, 1), "below");
  assert.equal(grid.nearest(5, 5, -1, 0), null);
});

test("a rectangle longer than the grid is found all along", () => {
  const grid = new core.HitGrid(10);
  grid.add("wire", 0, 0, 100_000, 4);
  assert.equal(grid.at(99_000, 2), "wire");
  assert.equal(grid.at(99_000, 9), null);
});

test("text is cut at letters, at the end or the start, or left out", () => {
  const measure = (text) => Array.from(text).length;
  assert.equal(core.ellipsis("update_w1", measure, 9), "update_w1");
  assert.equal(core.ellipsis("update_w1", measure, 6), "updat…");
  assert.equal(core.ellipsis("update_w1", measure, 6, { cut: "start" }), "…te_w1");
  assert.equal(core.ellipsis("update_w1", measure, 3), "");
  assert.equal(core.ellipsis("😀😀😀😀😀😀", measure, 5), "😀😀😀😀…");
});

test("numbers have one unit and three figures", () => {
  assert.deepEqual([3, 1_640, 830_000, 9_240_000, 1.2e9].map(core.formatNs),
    ["3 ns", "1.6 µs", "830 µs", "9.24 ms", "1.20 s"]);
  assert.deepEqual([40, 1024, 784 * 1024, 12.8 * 2 ** 20].map(core.formatBytes),
    ["40 B", "1.00 KiB", "784 KiB", "12.8 MiB"]);
  assert.equal(core.grouped(4_298_000), "4,298,000");
});

test("a Send points where its tensor goes, a Recv has its notch where it comes from", () => {
  const tip = (kind, way) => tagPoints(kind, 0, 0, 18, way);
  assert.ok(tip("send", "down").some(([x, y]) => x === 0 && y === 9));
  assert.ok(tip("recv", "down").some(([x, y]) => x === 0 && y < 0 && y > -9));
  assert.ok(tip("send", "left").some(([x, y]) => x === -9 && y === 0));
});

test("a name that another tile of its box has too says what it is", () => {
  const words = { families: { reads: "reads" } };
  assert.equal(graph.titleOf({ label: "w", role: "reads" }, words), "w · reads");
  assert.equal(graph.titleOf({ label: "w", role: "" }, words), "w");
});

test("a wire between others that has no room for its name has it at its tag", () => {
  const texts = [];
  const ctx = new Proxy({}, { get: (own, name) => own[name] ?? ((...args) => {
    if (name === "measureText") return { width: args[0].length * 7 };
    if (name === "fillText") texts.push(args[0]);
    return undefined;
  }) });
  const wires = [0, 40, 80].map((x, i) => ({
    id: `w${i}`, isPair: true, label: `layer${i}/weight`, bytes: 64 - i, wait: 0,
    parts: [{ dsts: [] }], points: [[x, 0], [x, 20], [x, 40], [x, 70]],
  }));
  const scene = { payload: { wires }, model: { nodes: new Map() }, theme: light, words: {},
    x: 0, y: 0, zoom: 1, alpha: 1, heat: "plain" };
  drawWireLabels(ctx, scene, { pairLabels: "all" }, [], 600, 400);
  assert.deepEqual(wires.map(({ label }) => label).filter((name) => !texts.includes(name)), []);
});

test("a device that is selected lights its bands, and what crosses their edges", () => {
  const found = graph.resolve(model, { type: "device", id: "ps:0 CPU:0" });
  assert.equal(found.bands.length, 1);
  const lit = graph.litBy(model, found);
  const inside = payload.tiles.filter((tile) => tile.band === found.bands[0]);
  assert.deepEqual([...lit.tiles].sort(), inside.map((tile) => tile.id).sort());
  assert.ok(lit.wires.size > 0);
  assert.equal(graph.resolve(model, { type: "device", id: "ps:9" }), null);
});

test("a link that is selected lights what goes along it, one way", () => {
  const lit = (id) => graph.litBy(model, graph.resolve(model, { type: "link", id })).wires;
  const along = (a, b) => payload.wires.filter(({ from, to }) => from === a && to === b);
  for (const [from, to] of [["ps:0", "worker:0"], ["worker:0", "ps:1"]]) {
    assert.ok(along(from, to).length > 0);
    assert.deepEqual([...lit(`${from}→${to}`)].sort(), along(from, to).map(({ id }) => id).sort());
  }
  for (const id of ["ps:0→ps:0", "ps:9→worker:0", "ps:0"]) {
    assert.equal(graph.resolve(model, { type: "link", id }), null);
  }
});

test("the hottest tiles carry their number, so that heat is not colour alone", () => {
  for (const heat of ["time", "bytes", "wait"]) {
    const tiles = [...model.tiles.values()];
    const [, high] = model.range[heat];
    assert.ok(tiles.some((tile) => tile[heat] === high));
    for (const tile of tiles.filter((one) => one[heat] === high)) {
      assert.ok(graph.isValueShown(model, tile, heat));
    }
    for (const tile of tiles.filter((one) => one[heat] === 0)) {
      assert.ok(!graph.isValueShown(model, tile, heat));
    }
  }
});

test("an edge is wider the more it holds, within bounds", () => {
  const widths = [1, 2, 8, 64, 1e9].map(graph.linkWidth);
  assert.deepEqual([...widths].sort((a, b) => a - b), widths);
  assert.equal(widths.at(-1), 4.5);
});

test("opening and folding a scope are each other's opposite, and live in the address", () => {
  const id = "blocks/3/* forward @ /job:worker/replica:0/task:0/device:CPU:0";
  const none = folds.readFolds("?step=3");
  for (const [there, back] of [[folds.open, folds.close], [folds.close, folds.open]]) {
    const changed = there(none, id);
    const search = folds.writeFolds("?step=3", changed);
    assert.deepEqual(folds.readFolds(search), changed);
    assert.equal(folds.writeFolds(search, back(changed, id)), "?step=3");
  }
});

test("a box alone opens on its first tile, where that would lie outside of what is seen", () => {
  const of = { bands: [{ id: "w CPU:0", box: "w" }, { id: "p CPU:0", box: "p" }], tiles: [
    { band: "p CPU:0", x: 20 }, { band: "w CPU:0", x: 500 }, { band: "w CPU:0", x: 640 },
  ] };
  assert.equal(graph.openingX(of, { id: "w" }, -10, 400), 500 - 2 * graph.TILE);
  assert.equal(graph.openingX(of, { id: "w" }, -10, 2000), -10);
  assert.equal(graph.openingX(of, { id: "p" }, -10, 400), -10);
  assert.equal(graph.openingX({ bands: [], tiles: [] }, { id: "w" }, -10, 400), -10);
});
