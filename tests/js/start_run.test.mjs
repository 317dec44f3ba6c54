// What the panel asks for, and the command line that it shows for it.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  asked, command, faultOf, faultsFor, numberOf, partsOf, tasksOf, valueOf,
} from "../../assets/start_run.mjs";

const number = (usual, least = 0) => ({ type: "int", default: usual, allowed: [], least });
const choice = (usual, ...allowed) => ({ type: "str", default: usual, allowed, least: null });
const can = {
  numbers: {
    workers: { usual: 2 }, devices: { usual: 2 }, steps: { usual: 50 }, seed: { usual: 0 },
    step: { usual: 5 }, ms: { usual: 50 },
  },
  faults: [{ kind: "kill", ofFrames: false }, { kind: "delay", ofFrames: true }],
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

test("tasks follow the strategy and its numbers", () => {
  const of = (numbers, hasServers) => tasksOf({ strategy: "any", numbers }, hasServers);
  assert.deepEqual(of({ ps: "1", workers: "2", devices: "2" }, true),
    [["ps:0", 1], ["worker:0", 2], ["worker:1", 2]]);
  assert.deepEqual(of({ devices: "2" }, false), [["worker:0", 2]]);
  assert.deepEqual(of({ workers: "", devices: "1" }, false), []);
  assert.equal(of({ workers: "99999", devices: "1" }, false).length, 16);
  assert.deepEqual(tasksOf({ strategy: "", numbers: { steps: "3" } }, false), []);
});

test("a fault is of a task that there is, and in the command", () => {
  const tasks = [["worker:0", 1], ["worker:1", 1]];
  const late = { kind: "delay", task: "worker:0", ms: "20" };
  assert.deepEqual(faultOf(can, tasks, late),
    { kind: "delay", task: "worker:0", step: "5", ms: "20" });
  assert.equal(faultOf(can, tasks, { kind: "kill", task: "worker:7" }).task, "worker:1");
  assert.equal(faultOf(can, tasks, {}), null);
  assert.equal(faultOf(can, [], late), null);
  const told = asked(can, { ...chosen("mlp", "workers"), fault: { ...late, step: "7" } });
  assert.match(command(told), / --fault delay=20:worker:0@step:7$/);
});

test("nothing is on its way to a task that is alone", () => {
  assert.deepEqual(faultsFor(can, [["worker:0", 2]]), ["kill"]);
  assert.equal(faultOf(can, [["worker:0", 2]], { kind: "delay" }), null);
});
