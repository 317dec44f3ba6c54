// The address bar as state: what goes in comes out.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  Agreement, amend, equal, formatSelection, parse, parseSelection, taskIn,
} from "../../assets/selection.mjs";

test("a selection survives the address bar, colons and slashes in its id too", () => {
  for (const id of ["0123456789abcdef", "train/update_w1", "/job:ps/replica:0;x;edge_1_w;0:0"]) {
    const search = amend("", { sel: formatSelection({ type: "node", id }) });
    assert.deepEqual(parse(search).sel, { type: "node", id });
  }
});

test("what is no selection is none", () => {
  for (const text of [null, "", "span", ":x"]) assert.equal(parseSelection(text), null);
});

test("amend changes its names and leaves the others", () => {
  assert.equal(amend("?lang=zh&step=3", { step: 4 }), "?lang=zh&step=4");
  assert.equal(amend("?step=3&sel=node:a", { sel: null }), "?step=3");
  assert.equal(amend("?step=3", { step: null }), "");
});

test("the client of a step is in the address beside the step", () => {
  const search = amend("?step=3&at=20", { task: "worker:1" });
  assert.equal(search, "?step=3&at=20&task=worker:1");
  assert.equal(taskIn(search), "worker:1");
  assert.equal(taskIn("?step=3"), "");
});

test("an address that people read keeps its commas, colons and slashes", () => {
  assert.equal(amend("", { runs: "00ff,11ee" }), "?runs=00ff,11ee");
  assert.equal(amend("?sel=node%3Aa%2Fb", { step: 1 }), "?sel=node:a/b&step=1");
});

test("a step is a whole number or none", () => {
  assert.equal(parse("?step=12").step, 12);
  assert.equal(parse("?step=x").step, null);
  assert.equal(parse("").step, null);
});

test("values are equal by what they say", () => {
  assert.ok(equal({ type: "node", id: "a" }, { type: "node", id: "a" }));
  assert.ok(equal(undefined, null));
  assert.ok(!equal(1, 2));
});

const mm = parse("?step=3&sel=node:mm");
const none = parse("?step=3");

test("stores that say what the address said before do not write it again", () => {
  const agreement = new Agreement();
  assert.ok(agreement.read(mm, parse("")));
  assert.ok(!agreement.write(mm));
  assert.ok(agreement.write(none));
});

test("an address that the stores wrote is not given back to them", () => {
  const agreement = new Agreement();
  assert.ok(agreement.write(mm));
  assert.ok(!agreement.read(mm, none)); // the viewer has pressed Escape meanwhile
});

test("an address is given again until the stores were seen to hold it", () => {
  const agreement = new Agreement();
  assert.ok(agreement.write(none));
  assert.ok(agreement.read(mm, none)); // Back, and its answer is lost
  assert.ok(agreement.read(mm, none));
  assert.ok(!agreement.write(mm)); // it arrived
  assert.ok(!agreement.read(mm, none)); // and Escape follows
});
