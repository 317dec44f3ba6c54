// What the panel asks for, and the command line that it shows for it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { asked, command, numberOf, partsOf, valueOf } from "../../assets/start_run.mjs";

const number = (usual, least = 0) => ({ type: "int", default: usual, allowed: [], least });
const choice = (usual, ...allowed) => ({ type: "str", default: usual, allowed, least: null });
const can = {
  numbers: {
    workers: { usual: 2 }, devices: { usual: 2 }, steps: { usual: 50 }, seed: { usual: 0 },
  },
  workloads: {
    mlp: { kind: "module", numbers: ["steps", "seed"], options: { batch: number(64, 1) } },
    diamond: { kind: "graph", numbers: ["steps", "seed"], options: {} },
  },
  strategies: {
    mirrored: { numbers: ["devices"], options: { ops: choice("ring", "ring", "tree", "one") } },
    workers: {
      numbers: ["workers", "devices"], usual: { devices: 1 },
      options: { ops: choice("tree", "ring", "tree") },
    },
  },
};
const numbers = { workers: 3, devices: 2, steps: 50, seed: 0 };
const chosen = (workload, strategy, options = {}) => ({ workload, strategy, numbers, options });

test("only what the workload and the strategy take is asked for", () => {
  assert.deepEqual(asked(can, chosen("mlp", "mirrored", { batch: "8", lost: "1" })), {
    workload: "mlp", strategy: "mirrored",
    numbers: { devices: "2", steps: "50", seed: "0" }, options: { batch: "8" },
  });
  assert.deepEqual(partsOf(can, "mlp", "workers").numbers, ["workers", "devices", "steps", "seed"]);
});

test("a number that nobody chose is what is usual with the strategy", () => {
  const of = (strategy, chosen) =>
    numberOf(can, partsOf(can, "mlp", strategy), "devices", chosen);
  assert.deepEqual([of("mirrored"), of("workers"), of("workers", "4")], ["2", "1", "4"]);
});

test("a graph has no strategy", () => {
  assert.equal(asked(can, chosen("diamond", "mirrored")).strategy, "");
  assert.equal(command(asked(can, chosen("diamond", "mirrored"))), "tracer run diamond --steps 50");
});

test("the command line leaves out what is as ever", () => {
  assert.equal(
    command(asked(can, chosen("mlp", "workers", { ops: "ring", batch: "64" }))),
    "tracer run mlp --strategy workers --workers 3 --devices cpu:2 --steps 50 --option ops=ring");
});

test("a value that another strategy does not know is its own default there", () => {
  assert.equal(valueOf(can.strategies.mirrored.options.ops, "one"), "one");
  assert.equal(valueOf(can.strategies.workers.options.ops, "one"), "tree");
  assert.deepEqual(asked(can, chosen("mlp", "workers", { ops: "one" })).options, {});
});
