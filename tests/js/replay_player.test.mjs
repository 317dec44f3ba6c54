// The player: where a replay opens, and where it stays when more of the step comes.
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { OP, endOfReplay, index } from "../../assets/replay_model.mjs";
import { Player } from "../../assets/replay_player.mjs";

let player;
let frames;
let nextFrame;

beforeEach(() => {
  globalThis.location = { search: "", pathname: "/", hash: "" };
  globalThis.history = { state: null, replaceState() {} };
  globalThis.matchMedia = () => ({ matches: true }); // reduced motion
  nextFrame = null;
  globalThis.requestAnimationFrame = (tick) => { nextFrame = tick; return 1; };
  globalThis.cancelAnimationFrame = () => { nextFrame = null; };
  frames = [];
  player = new Player({ shown: () => frames.push(player.time), moved: () => {} });
});

/** A step of ops that begin at these instants. */
function replayOf(starts, step = 1) {
  return index({
    step, task: "worker:0", end: 100, isWhole: false, events: ["start"], names: ["mul"],
    ops: ["Mul"], keys: [], tensors: [], places: [{ task: "worker:0", device: "CPU:0" }], loops: [],
    item: {
      count: starts.length, kind: starts.map(() => OP), place: starts.map(() => 0),
      name: starts.map(() => 0), op: starts.map(() => 0), loop: starts.map(() => 0xffff),
      iteration: starts.map(() => -1), ready: starts, start: starts,
      end: starts.map((at) => at + 5), flags: starts.map(() => 0), bytes: starts.map(() => 0),
      span_hi: starts.map(() => 0), span_lo: starts.map((_, i) => i + 1),
    },
    key: { count: 0, send: [], recv: [], key: [], from: [], to: [], sent: [], asked: [], met: [],
      taken: [], lost: [] },
    event: { count: starts.length, time: starts, what: starts.map(() => 0),
      item: starts.map((_, i) => i) },
  });
}

test("a step opens where its first op runs, so that there is something to see", () => {
  player.take(replayOf([10, 20]), null);
  assert.deepEqual([player.time, player.now.running], [10, [0]]);
});

test("home is before the first event, be it at the step's begin", () => {
  player.take(replayOf([0, 20]), null);
  player.goHome();
  assert.equal(player.now.count, 0);
});

test("a link opens the instant that it says", () => {
  globalThis.location.search = "?step=1&at=20";
  player.take(replayOf([10, 20, 30]), null);
  assert.deepEqual([player.time, player.now.count], [20, 2]);
});

test("an instant beyond the step is its end", () => {
  globalThis.location.search = "?at=99999";
  player.take(replayOf([10, 20]), null);
  assert.equal(player.time, endOfReplay(player.replay));
});

test("a selected thing is where the replay opens", () => {
  player.take(replayOf([10, 20, 30]), { item: 1 });
  assert.equal(player.time, 20);
});

test("what comes to a step leaves the viewer where he is", () => {
  player.take(replayOf([10, 20]), null);
  player.seek(10);
  player.take(replayOf([10, 20, 300]), null);
  assert.equal(player.time, 10);
});

test("whoever was at the end of a step stays at its end as it grows", () => {
  player.take(replayOf([10, 20]), null);
  player.goEnd();
  player.take(replayOf([10, 20, 300]), null);
  assert.deepEqual([player.time, player.now.count], [300, 3]);
});

test("another step opens at its own first op, not at the instant of the one before", () => {
  globalThis.location.search = "?at=20";
  player.take(replayOf([10, 20]), null);
  player.take(replayOf([10, 20], 2), null);
  assert.equal(player.time, 10);
});

test("playing with reduced motion goes from instant to instant and stops at the end", () => {
  player.take(replayOf([10, 20, 30]), null);
  player.play();
  let now = performance.now();
  for (let i = 0; i < 200 && nextFrame; i += 1) nextFrame(now += 50);
  assert.equal(player.isPlaying, false);
  assert.equal(player.time, endOfReplay(player.replay));
  assert.ok(new Set(frames).size >= 3);
  assert.ok(frames.every((time) => [0, 10, 20, 30, 100].includes(time)));
});

test("whoever steps while it plays stops it", () => {
  player.take(replayOf([10, 20, 30]), null);
  player.play();
  player.step(1, "event");
  assert.deepEqual([player.isPlaying, player.time], [false, 20]);
});
