// Rendezvous: whose step is shown comes from the address.
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { readTask, taskToShow } from "../../assets/rendezvous.mjs";

const keep = Symbol("no_update");

beforeEach(() => {
  globalThis.window = { dash_clientside: { no_update: keep } };
});

test("a link opens the step of the client that it names", () => {
  globalThis.location = { search: "?step=1&task=worker:1" };
  assert.equal(readTask("", undefined), "worker:1");
  assert.equal(readTask("", "worker:1"), keep);
  globalThis.location = { search: "?step=1" };
  assert.equal(readTask("", undefined), "");
});

test("what is selected turns to its own client, unless the link that opens names another", () => {
  const lit = { task: "worker:0" };
  assert.equal(taskToShow(lit, true, "?task=worker:1"), "");
  assert.equal(taskToShow(lit, true, "?step=1"), "worker:0");
  assert.equal(taskToShow(lit, false, "?task=worker:1"), "worker:0");
});
