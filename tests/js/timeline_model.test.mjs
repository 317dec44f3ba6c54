// The timeline's arithmetic: ticks, rows, levels of detail, hits, steps.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  awayFrom, boxAt, clampWindow, devicesOf, instantText, laneTitle, layoutRows, leadingSteps,
  neighbour,
  niceStep, outstandingStep, ownerOf, rowsInWindow, stepLabels, tensorName, ticksOf, walkMarks, walkRow,
} from "../../assets/timeline_model.mjs";

const MS = 1e6;
const widthOf = (text) => text.length * 7;

/** A tile of one row: [start, duration, {hue, share, flags}] each. */
function tileOf(...boxes) {
  const pick = (name, usual) => boxes.map((box) => box[2]?.[name] ?? usual);
  return {
    start: boxes.map((box) => box[0]), duration: boxes.map((box) => box[1]), row: pick("row", 0),
    hue: pick("hue", 0), hues: ["idle", "compute", "update", "send", "recv"],
    share: pick("share", 0), flags: pick("flags", 0),
    wait: pick("wait", 0), stood: pick("stood", 0), queue: pick("queue", 0),
    stood_share: pick("stood_share", 0), queue_share: pick("queue_share", 0),
  };
}

function walk(tile, { from = 0, to = 1000, scale = 1, nsPerPixel = 1 } = {}) {
  const bars = [];
  const columns = [];
  walkRow(tile, tile.start.map((_, i) => i), from, to, scale, nsPerPixel, {
    bar: (i, x, w) => bars.push({ i, x, w }),
    column: (x, w, share, hue, stood, queued) => columns.push({ x, w, share, hue, stood, queued }),
  });
  return { bars, columns };
}

test("a step is 1, 2 or 5 times a power of ten", () => {
  for (const [wanted, step] of [[1, 1], [1.1, 2], [3, 5], [7, 10], [10, 10], [11, 20], [0.3, 1]]) {
    assert.equal(niceStep(wanted), step);
  }
});

test("ticks of nine milliseconds are whole milliseconds", () => {
  const { unit, ticks } = ticksOf(0, 9.2 * MS, 1200, 0, widthOf);
  assert.equal(unit, "ms");
  assert.deepEqual(ticks.map((tick) => tick.text).slice(0, 3), ["0", "1", "2"]);
});

test("a window of one microsecond late in a step has ticks that differ and do not touch", () => {
  const from = 4.255 * MS;
  const { unit, ticks } = ticksOf(from, from + 1000, 1200, 0, widthOf);
  assert.equal(unit, "ms");
  assert.equal(new Set(ticks.map((tick) => tick.text)).size, ticks.length);
  assert.ok(ticks.length >= 3);
  const px = (ticks[1].at - ticks[0].at) * 1.2;
  assert.ok(px >= widthOf(ticks[0].text) + 28);
});

test("ticks before the origin are negative", () => {
  const { ticks } = ticksOf(-2 * MS, 2 * MS, 800, 0, widthOf);
  assert.equal(ticks[0].text[0], "−");
});

test("the cursor says more digits the nearer one looks", () => {
  assert.equal(instantText(8.12 * MS, 0, 9 * MS), "8.120 ms");
  assert.equal(instantText(4255.1 * 1e3, 0, 1000), "4.255100 ms");
});

test("a window stays within reach of the run and never shrinks to nothing", () => {
  const [from, to] = clampWindow(-1e12, -1e12 + 100, 1e9);
  assert.ok(to - from >= 200);
  assert.ok(to >= 0);
  const [left, right] = clampWindow(-1e15, 1e15, 1e9);
  assert.ok(Math.abs(right - left - 1.1e9) < 10);
});

test("what is out of sight is told by side and distance", () => {
  assert.deepEqual(awayFrom(10, 20, 50, 90), { isBefore: true, ns: 30 });
  assert.deepEqual(awayFrom(95, 99, 50, 90), { isBefore: false, ns: 5 });
  assert.equal(awayFrom(10, 60, 50, 90), null);
});

test("of several workers' steps the first of each number leads", () => {
  const task = ["a", "b", "b"];
  const steps = leadingSteps({ number: [1, 1, 2], task, start: [0, 5, 10], end: [4, 9, 14] });
  assert.deepEqual(steps, [{ number: 1, task: "a", start: 0, end: 4 },
    { number: 2, task: "b", start: 10, end: 14 }]);
});

test("one step stands out when it took over twice the median", () => {
  const steps = [10, 11, 9, 30, 25].map((length, i) => ({ number: i + 1, start: 0, end: length }));
  assert.equal(outstandingStep(steps), 4);
  assert.equal(outstandingStep(steps.slice(0, 3)), null);
});

test("step numbers never touch, and the chosen one is always there", () => {
  const steps = Array.from({ length: 400 }, (_, i) => (
    { number: i + 1, start: i * 10, end: i * 10 + 9 }));
  const place = (s) => [s.start * 0.3, s.end * 0.3];
  const labels = stepLabels(steps, place, widthOf, 137, null);
  assert.ok(labels.some(({ number }) => number === 137));
  const middles = labels.map(({ middle }) => middle).sort((a, b) => a - b);
  assert.ok(middles.every((m, i) => !i || m - middles[i - 1] > 20));
});

const row = (id, task, lane, rest = {}) => (
  { id, task, lane, label: lane, depth: 0, first: 0, last: 100, stepped: true, ...rest });

test("rows lie in a box per task and do not overlap, at the loosest density that fits", () => {
  const rows = [row(0, "worker:0", "client"), row(1, "worker:0", "executor CPU:0"),
    row(2, "worker:0", "recv CPU:0"), row(3, "ps:0", "executor CPU:0")];
  const loose = layoutRows(rows, 1000);
  const tight = layoutRows(rows, loose.height - 1);
  assert.ok(tight.height < loose.height);
  assert.deepEqual(loose.boxes.map((box) => box.task), ["worker:0", "ps:0"]);
  for (const [i, placed] of loose.rows.entries()) {
    const next = loose.rows[i + 1];
    if (next) assert.ok(placed.y + placed.h < next.y);
    const box = loose.boxes.find((b) => b.task === placed.task);
    assert.ok(placed.y > box.y && placed.y + placed.h < box.y + box.h);
  }
});

test("many calls at once are thin until their lane is unfolded", () => {
  const rows = [0, 1, 2, 3].map((n) => row(n, "ps:0", "rpc", { depth: n }));
  assert.ok(layoutRows(rows, 1000).rows[0].h < 10);
  assert.ok(layoutRows(rows, 1000, { unfolded: new Set(["ps:0 rpc"]) }).rows[0].h >= 14);
});

test("rows with nothing in the window, and those of no step, are not shown in a step", () => {
  const rows = [
    row(0, "a", "x"), row(1, "a", "y", { last: 10 }), row(2, "a", "z", { stepped: false }),
  ];
  assert.deepEqual(rowsInWindow(rows, 50, 60, false).map(({ id }) => id), [0]);
  assert.deepEqual(rowsInWindow(rows, 50, 60, true).map(({ id }) => id), [0, 2]);
});

test("a task's device is told where it has one only", () => {
  const devices = devicesOf([row(0, "a", "recv CPU:0"), row(1, "a", "executor CPU:0"),
    row(2, "b", "executor GPU:0"), row(3, "b", "executor GPU:1"), row(4, "c", "rpc")]);
  assert.deepEqual([...devices], [["a", "CPU:0"], ["b", ""], ["c", ""]]);
});

test("a tensor goes by the name of its variable", () => {
  assert.equal(tensorName("fc1/weight/Read_S1"), "fc1/weight");
  assert.equal(tensorName("gradients/fc1/mm_S9"), "gradients/fc1/mm");
});

test("wide spans are bars, narrow ones that share pixels a column of their busy share", () => {
  const { bars, columns } = walk(tileOf([0, 50], [96, 1], [97, 1], [98, 1]));
  assert.deepEqual(bars.map(({ i }) => i), [0]);
  assert.deepEqual(columns, [{ x: 96, w: 3, share: 1, hue: 0, stood: 0, queued: 0 }]);
});

test("waiting is no work: a column of recvs is as high as values travelled and were awaited",
  () => {
    const recv = { hue: 4, wait: 0.75, stood: 0.5, queue: 0.25 };
    const { columns: [column] } = walk(tileOf([0, 1, recv], [1, 1, recv], [2, 1, recv]));
    assert.deepEqual([column.share, column.stood, column.queued], [0.25, 0.5, 0.25]);
  });

test("what the server merged into a pixel is part of its column", () => {
  const merged = { hue: 4, wait: 0.1, share: 0.2, stood_share: 0.6, queue_share: 0.1 };
  const { columns: [column] } = walk(tileOf([0, 0.1, merged]), { nsPerPixel: 3 });
  const about = [column.share, column.stood, column.queued].map((x) => Math.round(x * 100));
  assert.deepEqual(about, [20, 60, 10]);
});

test("a lone narrow span is a bar, and a span of no length too", () => {
  assert.deepEqual(walk(tileOf([100, 0], [500, 1])).bars.map(({ i }) => i), [0, 1]);
});

test("a box that stands for many is a column, as high as its pixel was busy", () => {
  const { bars, columns } = walk(tileOf([0.5, 0.1, { share: 0.9 }]), { nsPerPixel: 3 });
  assert.equal(bars.length, 0);
  assert.ok(Math.abs(columns[0].share - 0.9) < 0.01);
});

test("neighbouring columns have the hue of what took most time among them", () => {
  const tile = tileOf([0, 1, { hue: 1 }], [1, 1, { hue: 2 }], [2, 1, { hue: 2 }],
    [3, 1, { hue: 1 }], [4, 1, { hue: 2 }], [5, 0.5, { hue: 1 }]);
  assert.deepEqual(new Set(walk(tile).columns.map(({ hue }) => hue)), new Set([2]));
});

test("errors are never part of a column, and lie over everything", () => {
  const tile = tileOf([10, 0.5], [10.6, 0.2, { flags: 1 }], [11, 50]);
  assert.deepEqual(walk(tile).bars.map(({ i }) => i), [0, 2]);
  const over = [];
  walkMarks(tile, [0, 1, 2], 0, 100, 1, {
    fault: (i, x, w) => over.push(["fault", i, x, w]), name: (i) => over.push(["name", i]),
  });
  assert.deepEqual(over, [["fault", 1, 10.6, 0.2], ["name", 2]]);
  assert.equal(boxAt(tile, [0, 1, 2], 12, 1), 1);
  assert.equal(boxAt(tile, [0, 1, 2], 40, 1), 2);
  assert.equal(boxAt(tile, [0, 1], 40, 1), -1);
});

test("columns keep their place in time while the window moves", () => {
  const tile = tileOf(...Array.from({ length: 200 }, (_, i) => [i * 2, 1]));
  const at = (from) => new Set(walk(tile, { from, to: from + 200 }).columns
    .map(({ x }) => Math.round(x + from)));
  const [a, b] = [at(100), at(101)];
  assert.ok([...a].filter((x) => x > 120 && x < 280).every((x) => b.has(x)));
});

test("a span that began before the window is drawn to the left of it", () => {
  assert.deepEqual(walk(tileOf([0, 500]), { from: 100, to: 200 }).bars[0].x, -100);
});

test("the bar after the window is told, as it may have queued within it", () => {
  const bars = (length) => walk(tileOf([150, length], [300, 50]), { to: 100 }).bars;
  assert.deepEqual(bars(50).map(({ i }) => i), [0]);
  assert.deepEqual(bars(1).map(({ i }) => i), []);
});

test("a pointer finds the bar under it, or a thin one within a few pixels", () => {
  const tile = tileOf([0, 50], [100, 0], [200, 30]);
  const order = [0, 1, 2];
  assert.equal(boxAt(tile, order, 25, 1), 0);
  assert.equal(boxAt(tile, order, 103, 1), 1);
  assert.equal(boxAt(tile, order, 150, 1), -1);
  assert.equal(boxAt(tile, order, 229, 1), 2);
});

test("arrow keys go along a row, and to what is nearest in time in the next", () => {
  const tile = tileOf([0, 10], [20, 10], [40, 10], [18, 4, { row: 1 }], [60, 5, { row: 1 }]);
  const rows = [{ id: 0 }, { id: 1 }];
  const orders = new Map([[0, [0, 1, 2]], [1, [3, 4]]]);
  assert.equal(neighbour(tile, rows, orders, 1, 1, 0), 2);
  assert.equal(neighbour(tile, rows, orders, 0, -1, 0), 0);
  assert.equal(neighbour(tile, rows, orders, 1, 0, 1), 3);
  assert.equal(neighbour(tile, rows, orders, 4, 0, -1), 2);
});

test("lanes are called in the language of the page, but for names of TensorFlow and gRPC", () => {
  const words = { lanes: { executor: "执行器" } };
  assert.equal(laneTitle("executor (2)", words), "执行器 (2)");
  assert.equal(laneTitle("executor", words), "执行器");
  assert.equal(laneTitle("rpc", words), "rpc");
  assert.equal(laneTitle("stream 7", {}), "stream 7");
});

test("numbers of steps belong to the task that leads, where others run steps too", () => {
  const two = { number: [1, 1], task: ["worker:0", "worker:1"], start: [0, 3], end: [9, 8] };
  assert.equal(ownerOf(two, leadingSteps(two)), "worker:0");
  const one = { number: [1, 2], task: ["worker:0", "worker:0"], start: [0, 9], end: [9, 12] };
  assert.equal(ownerOf(one, leadingSteps(one)), null);
});
