// What the analyses found, as it is drawn: path, stalls, flags.
import assert from "node:assert/strict";
import { test } from "node:test";
import { drawArrows } from "../../assets/timeline_arrows.mjs";
import { flagAt, placeFlags } from "../../assets/timeline_flags.mjs";
import { drawPath } from "../../assets/timeline_path.mjs";
import { drawStalls, fill, labelStalls, stallAt } from "../../assets/timeline_stalls.mjs";

const theme = new Proxy({}, { get: (_, name) => String(name) });
const placed = new Map([[1, { id: 1, y: 10, h: 20 }], [2, { id: 2, y: 50, h: 20 }]]);
const words = { stalled: { ran: "{time} idle: {at} ran {name}" } };

function canvas() {
  const calls = [];
  const ctx = new Proxy({ calls }, {
    get: (own, name) => own[name] ?? ((...args) => {
      calls.push([name, ...args, own.lineWidth, own.strokeStyle]);
      return name === "measureText" ? { width: args[0].length * 6 } : undefined;
    }),
    set: (own, name, value) => {
      own[name] = value;
      return true;
    },
  });
  return ctx;
}

const calls = (ctx, name) => ctx.calls.filter(([called]) => called === name);
const scene = { theme, words, from: 0, scale: 1, area: { w: 500 }, litIds: new Set() };

test("a line lies under every piece of the path that is seen, at least 3 px wide", () => {
  const path = { row: [1, 2, 1, 9], start: [0, 100, 101, 0], end: [100, 100.5, 9000, 50] };
  const ctx = canvas();
  assert.equal(drawPath(ctx, { ...scene, path }, placed), 3);
  const lines = calls(ctx, "fillRect").map(([, x, y, w, h]) => [x, y, w, h]);
  assert.deepEqual(lines.slice(0, 2), [[0, 29.5, 100, 3.5], [100, 69.5, 3, 3.5]]);
  assert.ok(lines[2][2] < 500, "no line is far longer than the screen");
});

test("of pieces that share a pixel one line is drawn, and none is lost", () => {
  const at = Array.from({ length: 4000 }, (_, i) => i / 10);
  const path = { row: at.map(() => 1), start: at, end: at.map((x) => x + 0.1) };
  const ctx = canvas();
  assert.ok(drawPath(ctx, { ...scene, path }, placed) < 150);
  const covered = new Set();
  for (const [, x, , w] of calls(ctx, "fillRect")) {
    for (let px = Math.floor(x); px < x + w; px += 1) covered.add(px);
  }
  assert.ok([...Array(400).keys()].every((px) => covered.has(px)));
});

const links = (count) => ({
  source: Array.from({ length: count }, (_, i) => `s${i}`),
  target: Array.from({ length: count }, (_, i) => `t${i}`),
  source_row: Array(count).fill(1), target_row: Array(count).fill(2),
  source_at: Array.from({ length: count }, (_, i) => i),
  target_at: Array.from({ length: count }, (_, i) => i + 1),
  relation: Array(count).fill("data"),
});

test("arrows of the path are drawn however many there are, each link once, 2 px in ink", () => {
  const few = { ...scene, arrows: links(5), path: { arrows: links(2), start: [0], end: [90] } };
  const ctx = canvas();
  assert.equal(drawArrows(ctx, few, placed), 5);
  const strong = calls(ctx, "stroke").filter(([, width, ink]) => width === 2 && ink === "ink");
  assert.equal(strong.length, 2);
  const many = { ...scene, arrows: links(400), path: few.path };
  assert.equal(drawArrows(canvas(), many, placed), 2);
  assert.equal(drawArrows(canvas(), { ...many, scale: 0.1 }, placed), 0);
});

const stall = (start, end, cause = { row: 2, at: end - 10 }) => ({
  row: 1, start, end, ready: end, key: "ran", cause,
  values: { time: "3 ms", at: "ps:0", name: "update_w" },
});

test("a stall is told in its row, with a dashed arrow from its cause to its end", () => {
  const ctx = canvas();
  const shown = { ...scene, stalls: [stall(0, 300)] };
  labelStalls(ctx, shown, drawStalls(ctx, shown, placed));
  assert.equal(calls(ctx, "fillText")[0][1], "3 ms idle: ps:0 ran update_w");
  const [, ...bezier] = calls(ctx, "bezierCurveTo")[0];
  assert.deepEqual([bezier[0], bezier[4]], [290, 300]);
  assert.deepEqual(calls(ctx, "moveTo")[0].slice(1, 3), [290, 50]);
});

test("short stalls have no arrow, and causes in rows that are not shown none either", () => {
  const ctx = canvas();
  const stalls = [stall(0, 20), stall(100, 200, { row: 7, at: 150 }), stall(300, 400, null)];
  assert.equal(drawStalls(ctx, { ...scene, stalls }, placed).length, 3);
  assert.equal(calls(ctx, "bezierCurveTo").length, 0);
});

test("a pointer finds the stall under it", () => {
  const stalls = [stall(0, 300), stall(310, 311)];
  assert.equal(stallAt(stalls, 1, 150, 1), stalls[0]);
  assert.equal(stallAt(stalls, 2, 150, 1), null);
  assert.equal(stallAt(stalls, 1, 310.5, 1), null);
});

test("values are put in as they are", () => {
  assert.equal(fill("{a} of {b}{c}", { a: "{b}", b: "$&" }), "{b} of $&");
});

test("flags stand at their time, none over another, and are found", () => {
  const flags = [[100, 0], [102, 0], [103, 40], [990, 0], [995, 0]]
    .map(([at, row]) => ({ start: at, end: at, row }));
  const standing = placeFlags(flags, (at) => at, ({ row }) => [row, row + 20], 1000);
  assert.deepEqual(standing.map(({ i, left }) => [i, left]),
    [[0, 100], [1, 120], [2, 103], [3, 983]]);
  assert.equal(flagAt(standing, 125, 5), 1);
  assert.equal(flagAt(standing, 125, 45), -1);
  assert.equal(flagAt(standing, 110, 45), 2);
});
