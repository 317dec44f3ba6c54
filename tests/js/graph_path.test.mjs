// The critical path over the graph: of which step it is, and when it is asked for.
import assert from "node:assert/strict";
import { test } from "node:test";
import { GraphPath } from "../../assets/graph_path.mjs";
import { Play } from "../../assets/graph_play.mjs";

Object.assign(globalThis, { addEventListener() {}, removeEventListener() {} });

const modelOf = (step, isWhole = true) => ({
  payload: { step, task: "w", isWhole, wires: [] }, nodes: new Map([["mm", { tile: "mm" }]]),
});
const settled = () => new Promise(setImmediate);

function asking(model = modelOf(1)) {
  const questions = [];
  const graphPath = (about) => new Promise((answer, refuse) => {
    const told = (isWhole) => answer({ pieces: [{ name: "mm" }], ...about, isWhole });
    questions.push({ about, told, refuse: () => refuse(new Error("gone")) });
  });
  const view = { model, source: { graphPath }, state: { mark: "path" }, repaint() {} };
  return { view, path: new GraphPath(view), questions };
}

test("the path is that of the step that is drawn, asked for once when it is wanted", () => {
  const { view, path, questions } = asking(modelOf(7));
  view.state.mark = "";
  path.ask();
  assert.equal(questions.length, 0);
  view.state.mark = "path";
  path.ask();
  path.ask();
  assert.deepEqual(questions.map(({ about }) => about), [{ step: 7, task: "w" }]);
  path.stop();
});

test("the answer about an earlier step is dropped when it comes last", async () => {
  const { view, path, questions } = asking();
  path.ask();
  view.model = modelOf(2);
  path.renew();
  questions[1].told(true);
  await settled();
  questions[0].told(true);
  await settled();
  assert.equal(path.found.step, 2);
  assert.deepEqual([...path.lit.tiles.keys()], ["mm"]);
});

test("while a step goes on its path is asked for with every news, and stays drawn", async () => {
  const { path, questions } = asking(modelOf(1, false));
  path.ask();
  path.grow();
  assert.equal(questions.length, 1);
  questions[0].told(false);
  await settled();
  path.grow();
  assert.equal(questions.length, 2);
  assert.ok(path.lit);
  questions[1].told(true);
  await settled();
  path.grow();
  assert.equal(questions.length, 2);
});

test("a path that did not come is asked for again", async () => {
  const { path, questions } = asking();
  path.ask();
  questions[0].refuse();
  await settled();
  path.ask();
  assert.equal(questions.length, 2);
});

test("a play that is stopped before any graph came leaves the stage as it is", () => {
  globalThis.document = { getElementById: () => null, querySelectorAll: () => [] };
  const told = [];
  globalThis.dash_clientside = { set_props: (...args) => told.push(args) };
  new Play({ model: null }).settle();
  assert.deepEqual(told, []);
  delete globalThis.dash_clientside;
});
