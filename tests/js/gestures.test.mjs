// Pointers on a canvas: what is taken from the viewer's hand ends what it held.
import assert from "node:assert/strict";
import { test } from "node:test";
import { gestures } from "../../assets/core.mjs";

test("a drag ends when the browser takes the last pointer away, and not before", () => {
  const on = {};
  const canvas = {
    addEventListener: (name, listener) => { on[name] = listener; },
    setPointerCapture() {},
    getBoundingClientRect: () => ({ left: 0, top: 0, width: 100, height: 100 }),
  };
  let ended = 0;
  gestures(canvas, { drag() {}, dragEnd: () => { ended += 1; } });
  on.pointerdown({ pointerId: 1, clientX: 0, clientY: 0 });
  on.pointermove({ pointerId: 1, clientX: 20, clientY: 0 });
  on.pointerdown({ pointerId: 2, clientX: 50, clientY: 0 });
  on.pointercancel({ pointerId: 2 });
  assert.equal(ended, 0);
  on.pointercancel({ pointerId: 1 });
  assert.equal(ended, 1);
});
