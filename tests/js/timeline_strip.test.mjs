// The strip above the bars: what fills a row.
import assert from "node:assert/strict";
import { test } from "node:test";
import { fullShare } from "../../assets/timeline_strip.mjs";

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
