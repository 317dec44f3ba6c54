// Where ranks and hops of the Collectives page lie.

import assert from "node:assert/strict";
import { test } from "node:test";

import { boxOf, edgeOf, hopAfter, roundAbout } from "../../assets/collectives.mjs";

const overlap = ([ax, ay], [bx, by], box) => (
  Math.abs(ax - bx) < box.width && Math.abs(ay - by) < box.height
);

test("no rank stands on another, from two ranks to twelve", () => {
  for (let count = 2; count <= 12; count += 1) {
    const box = boxOf(count, count);
    const places = roundAbout(count, 410, 420, box);
    for (const [at, one] of places.entries()) {
      for (const other of places.slice(at + 1)) assert.ok(!overlap(one, other, box), `${count}`);
      assert.ok(one[0] - box.width / 2 >= 0 && one[0] + box.width / 2 <= 410);
      assert.ok(one[1] - box.height / 2 >= 0 && one[1] + box.height / 2 <= 420);
    }
  }
});

test("three ranks reach as far up and down as four", () => {
  const box = boxOf(3, 3);
  const heights = (count) => roundAbout(count, 410, 420, box).map(([, y]) => y);
  for (const count of [2, 3, 4, 5]) {
    assert.deepEqual([Math.min(...heights(count)), Math.max(...heights(count))], [45, 375]);
  }
});

test("a hop leaves a box at its edge, on the way to where it goes", () => {
  assert.deepEqual(edgeOf([0, 0], [100, 0], { width: 40, height: 20 }), [25, 0]);
  assert.deepEqual(edgeOf([0, 0], [0, -100], { width: 40, height: 20 }), [0, -15]);
});

test("after the last hop comes the beginning, and before it the end", () => {
  assert.equal(hopAfter(6, 1, 6), 0);
  assert.equal(hopAfter(0, -1, 6), 6);
  assert.equal(hopAfter(2, 1, 6), 3);
});
