// The strip above the bars: what fills a row.
import assert from "node:assert/strict";
import { test } from "node:test";
import { fullShare, groupsOf } from "../../assets/timeline_strip.mjs";

const strip = (...busy) => ({ tasks: [{ task: "worker:0", busy }] });

test("a row is filled by the least round share that nearly all columns stay below", () => {
  assert.equal(fullShare(strip(...Array(99).fill(4), 90)), 10);
  assert.equal(fullShare(strip(0, 0, 12, 20)), 25);
  assert.equal(fullShare(strip(40, 60, 60, 61)), 100);
});

test("a run in which nobody ever worked keeps the whole scale", () => {
  assert.equal(fullShare(strip(0, 0)), 100);
  assert.equal(fullShare({ tasks: [] }), 100);
});

test("columns side by side have the hue of the larger part, a ground of what filled most", () => {
  const task = {
    busy: [80, 0, 0, 0, 0, 0, 0, 90], hue: [1, 2, 2, 2, 2, 2, 2, 2],
    stood: [0, 100, 100, 90, 0, 0, 0, 0], ready: [0, 0, 0, 0, 90, 90, 90, 0],
  };
  const groups = groupsOf(task, 24, 100);
  assert.deepEqual(groups.map(({ x, w, hue, texture }) => [x, w, hue, texture]),
    [[0, 12, 1, "hatch"], [12, 12, 2, "dots"]]);
  assert.deepEqual(groups[0].shares, [0.8, 0, 0, 0]);
});
