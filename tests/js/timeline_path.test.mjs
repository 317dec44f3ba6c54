// The critical path as lines under bars.
import assert from "node:assert/strict";
import { test } from "node:test";
import { drawPath } from "../../assets/timeline_path.mjs";

const placed = new Map([[1, { id: 1, y: 10, h: 20 }]]);

test("what leads to a bar before it began is a thin line, and no bar's", () => {
  const drawn = [];
  const ctx = { fillRect: (...at) => drawn.push(at) };
  const path = { row: [1, 1], start: [0, 60], end: [60, 100], lead: [true, false] };
  drawPath(ctx, { path, theme: { ink: "ink" }, from: 0, scale: 1, area: { w: 500 } }, placed);
  assert.deepEqual(drawn, [[0, 29.5, 60, 1], [60, 29.5, 40, 3.5]]);
});
