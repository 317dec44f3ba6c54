// The search field: keys in its list, words in a page, and what a choice does to the address.
import assert from "node:assert/strict";
import { test } from "node:test";
import { changesOf, holds, moved } from "../../assets/search.mjs";

test("arrows go round through the field and back", () => {
  assert.equal(moved(0, "ArrowDown", 3), 1);
  assert.equal(moved(2, "ArrowDown", 3), -1);
  assert.equal(moved(-1, "ArrowUp", 3), 2);
  assert.equal(moved(0, "Home", 3), 0);
  assert.equal(moved(-1, "ArrowDown", 0), -1);
});

test("an entry is shown when it holds every word, in any case and order", () => {
  assert.ok(holds("digits · parameter_server_v1", ["server", "digits"]));
  assert.ok(!holds("digits", ["server"]));
  assert.ok(holds("digits", []));
});

test("a step alone leaves the selection, a span brings its step", () => {
  assert.deepEqual(changesOf({ selection: null, step: 4 }), { step: 4 });
  const selection = { type: "span", id: "0a" };
  assert.deepEqual(changesOf({ selection, step: 4 }), { sel: "span:0a", step: 4 });
  assert.deepEqual(changesOf({ selection, step: null }), { sel: "span:0a" });
});
