// Following a run: which stream an address has, who is at the end, where the window goes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { isAtEnd, streamOf } from "../../assets/live.mjs";
import { atEnd } from "../../assets/timeline_live.mjs";

test("the Library and every page of a run have a stream, other pages none", () => {
  assert.equal(streamOf(""), "api/library/live");
  assert.equal(streamOf("t/0123456789abcdef/graph"), "api/traces/0123456789abcdef/live");
  assert.equal(streamOf("reference"), "");
  assert.equal(streamOf("t/../graph"), "");
});

test("whoever came to a step, a thing or a window is not at the end", () => {
  const end = { sel: null, step: null, t0: null };
  assert.ok(isAtEnd(end));
  for (const other of [{ step: 3 }, { sel: { type: "node", id: "a" } }, { t0: "5" }]) {
    assert.ok(!isAtEnd({ ...end, ...other }));
  }
});

test("a window keeps its length and ends a little after the newest span", () => {
  assert.deepEqual(atEnd(100, 200, 1000), [902, 1002]);
});
