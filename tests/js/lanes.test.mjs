// Lanes of bars: rows, ticks with room for their words, bars that are one button.

import assert from "node:assert/strict";
import { test } from "node:test";

import { apart, buttonsOf, rowsIn } from "../../assets/lanes.mjs";

test("rows lie below each other within their room", () => {
  for (const count of [1, 2, 7, 32]) {
    const rows = rowsIn(count, 24, 300);
    for (const [at, [y, height]] of rows.entries()) {
      assert.ok(y >= 24 && y + height <= 300);
      if (at) assert.ok(y >= rows[at - 1][0] + rows[at - 1][1]);
    }
  }
});

test("ticks without room for their words are left out evenly", () => {
  const ticks = [0, 1, 2, 3, 4, 5].map((ns) => [ns, `${ns} µs`]);
  assert.equal(apart(ticks, (ns) => ns * 80).length, 6);
  assert.deepEqual(apart(ticks, (ns) => ns * 35).map(([ns]) => ns), [0, 2, 4]);
});

test("bars side by side that select the same are one button, others stand alone", () => {
  const bars = ["", "span:a", "span:a", "", "span:a"].map((sel, start) => ({ sel, start }));
  assert.deepEqual(buttonsOf(bars).map((one) => one.bars.length), [1, 2, 1, 1]);
});
