// The replay's arithmetic: the state at an instant, going on by a unit, what a selection means.
import assert from "node:assert/strict";
import { test } from "node:test";
import { fill } from "../../assets/core.mjs";
import {
  FLAG, NO_LOOP, OP, RECV, SEND, TURN, beginOf, countStates, deadWires, endOfReplay, find, frame,
  index, innerLoops, keyState, openKeys, positionOf, queues, shareOf, spanOf, STATES, stepFrom, timeAt,
  turnStates, upTo,
} from "../../assets/replay_model.mjs";
import { wireAmount } from "../../assets/graph_wires.mjs";
import { tileStates } from "../../assets/replay_draw.mjs";
import { atAnInstant } from "../../assets/replay_map.mjs";
import { idleText } from "../../assets/replay_panels.mjs";
import { lanesOf } from "../../assets/replay_transport.mjs";
import { sentence } from "../../assets/replay_words.mjs";
import { pointAt } from "../../assets/shapes.mjs";

const EVENTS = ["end", "taken", "sent", "asked", "turn_end", "turn_begin", "ready", "start"];
const NEVER = Infinity;

/** A step out of items {kind, name, place, ready, start, end, flags, iteration} and events. */
function replayOf(items, keys = [], events = []) {
  const names = [...new Set(items.map((one) => one.name))];
  const column = (name, usual) => items.map((one) => one[name] ?? usual);
  const keyColumn = (name) => keys.map((one) => one[name] ?? NEVER);
  return index({
    step: 1, task: "worker:0", tasks: ["worker:0"], end: 1000, events: EVENTS, names,
    ops: ["MatMul"], keys: keys.map((_, i) => `key ${i}`), tensors: keys.map((one) => one.tensor),
    places: [{ task: "ps:0", device: "CPU:0" }, { task: "worker:0", device: "CPU:0" }],
    loops: [{ name: "loop", parallel: 10 }],
    item: {
      count: items.length, kind: column("kind", OP), place: column("place", 0),
      name: items.map((one) => names.indexOf(one.name)), op: column("op", 0),
      loop: items.map((one) => (one.iteration === undefined ? NO_LOOP : 0)),
      iteration: column("iteration", -1), ready: items.map((one) => one.ready ?? one.start),
      start: column("start", 0), end: column("end", NEVER), bytes: column("bytes", 0),
      flags: column("flags", 0), span_hi: column("hi", 0), span_lo: items.map((_, i) => i + 1),
    },
    key: {
      count: keys.length, send: keys.map((one) => one.send ?? -1),
      recv: keys.map((one) => one.recv ?? -1), key: keys.map((_, i) => i),
      from: keys.map(() => 0), to: keys.map(() => 1), sent: keyColumn("sent"),
      asked: keyColumn("asked"), met: keyColumn("met"), taken: keyColumn("taken"),
      lost: keyColumn("lost"),
    },
    event: {
      count: events.length, time: events.map(([time]) => time),
      what: events.map(([, what]) => EVENTS.indexOf(what)), item: events.map(([, , item]) => item),
    },
  });
}

/** One tensor, asked for at 10, sent at 30, taken at 50; the op that makes it runs 20 to 30, ready
 *  at 15. */
const oneTensor = (key = {}) => replayOf(
  [
    { kind: RECV, name: "r", place: 1, start: 10, end: 50 },
    { name: "make", ready: 15, start: 20, end: 30 },
    { kind: SEND, name: "s", start: 30, end: 32 },
  ],
  [{ tensor: "w", send: 2, recv: 0, asked: 10, sent: 30, met: 30, taken: 50, ...key }],
  [
    [10, "asked", 0], [15, "ready", 1], [20, "start", 1], [30, "end", 1], [30, "sent", 2],
    [50, "taken", 0],
  ],
);

test("a key is awaited, in flight and taken, each from its instant on", () => {
  const replay = oneTensor();
  const at = (time) => STATES[keyState(replay, 0, time)];
  assert.deepEqual([9, 10, 29, 30, 49, 50, 99].map(at),
    ["none", "waiting", "waiting", "flight", "flight", "taken", "taken"]);
});

test("a wire stays dead once its last value was, and lives again with the next one", () => {
  const sends = [{ at: 10 }, { at: 30, flags: FLAG.DEAD }, { at: 60 }].map(
    ({ at, flags = 0 }) => ({ kind: SEND, name: "s", start: at, end: at + 1, flags }),
  );
  const keys = sends.map(({ start }, send) => (
    { tensor: "w", send, sent: start, asked: start, met: start, taken: start + 10 }
  ));
  const replay = replayOf(sends, keys);
  const at = (time) => [...deadWires(replay, frame(replay, time), ["wire", "wire", "wire"])];
  assert.deepEqual([29, 30, 50, 60].map((time) => at(time).length), [0, 1, 1, 0]);
});

test("a wire that carries a living tensor too is not dead", () => {
  const sends = [0, FLAG.DEAD].map((flags) => ({ kind: SEND, name: "s", start: 10, flags }));
  const keys = ["a", "b"].map((tensor, send) => ({ tensor, send, sent: 10, asked: 10 }));
  const replay = replayOf(sends, keys);
  assert.equal(deadWires(replay, frame(replay, 20), ["wire", "wire"]).size, 0);
});

test("a value that came before it was asked for lies there early", () => {
  const replay = oneTensor({ sent: 5, asked: 10, met: 10 });
  assert.equal(STATES[keyState(replay, 0, 7)], "early");
  assert.equal(shareOf(replay, 0, frame(replay, 7)), 0);
});

test("a recv that was given up is lost and stays in the list", () => {
  const replay = oneTensor({ sent: NEVER, met: NEVER, taken: NEVER, lost: 40 });
  assert.equal(STATES[keyState(replay, 0, 41)], "lost");
  assert.deepEqual(openKeys(replay, frame(replay, 41)), [0]);
});

test("an op is ready, runs and is over", () => {
  const replay = oneTensor();
  const at = (time) => [frame(replay, time).ready, frame(replay, time).running];
  assert.deepEqual(at(14), [[], []]);
  assert.deepEqual(at(15), [[1], []]);
  assert.deepEqual(at(20), [[], [1]]);
  assert.deepEqual(at(30), [[], []]);
});

test("a frame depends on the instant alone, not on the way there", () => {
  const replay = oneTensor();
  const straight = JSON.stringify(frame(replay, 30));
  for (const time of [50, 0, 20, 99]) frame(replay, time);
  assert.equal(JSON.stringify(frame(replay, 30)), straight);
});

test("a token is as far as its transfer, and gone once something else happened", () => {
  const replay = oneTensor();
  assert.equal(shareOf(replay, 0, frame(replay, 40)), 0.5);
  assert.equal(shareOf(replay, 0, frame(replay, 50)), 1);
  const later = frame(replay, 50);
  later.last = 60;
  assert.equal(shareOf(replay, 0, later), null);
});

test("an idle place says for which key it waits", () => {
  const replay = oneTensor();
  const [ps, worker] = queues(replay, frame(replay, 25));
  assert.deepEqual([ps.running, ps.awaited], [[1], []]);
  assert.deepEqual([worker.running, worker.awaited], [[], [0]]);
  assert.deepEqual(countStates(frame(replay, 25)), [0, 0, 1, 0, 0, 0]);
});

/** A worker that asked for several tensors, each at an instant. */
const asking = (...instants) => replayOf(
  instants.map((start, i) => ({ kind: RECV, name: `r${i}`, place: 1, start, iteration: i })),
  instants.map((asked, i) => ({ tensor: `w${i}`, recv: i, asked })),
);

test("who is idle says how many mailboxes it waits at, and which is newest if one is", () => {
  const words = {
    idle: "idle", idle_for: "for {name}", idle_for_many: "at {count}",
    idle_for_newest: "at {count}, {name} newest",
  };
  const said = (...instants) => {
    const replay = asking(...instants);
    const worker = queues(replay, frame(replay, 90)).find(({ place }) => place === 1);
    return idleText(replay, worker?.awaited ?? [], words);
  };
  assert.equal(idleText(asking(), [], words), "idle");
  assert.equal(said(10), "for w0·0");
  assert.equal(said(10, 30, 20), "at 3, w1·1 newest");
  assert.equal(said(10, 30, 30), "at 3");
});

test("the picture of an instant says nothing that only the whole step can know", () => {
  const whole = {
    stage: "device", boxes: [{ id: "ps:0", busy: 0.056 }], tiles: [{ id: "outer", iterations: 2 }],
    nodes: [{ id: "a", time: 5, wait: 4, queueing: 3, bytes: 2, failed: true }],
    links: [{ src: "a", dst: "b", bytes: 4 }],
    wires: [{ id: "w", bytes: 22, wait: 7, parts: [{}, {}] }],
  };
  const bare = atAnInstant(whole);
  assert.deepEqual(bare, {
    stage: "device", boxes: [{ id: "ps:0", busy: null }], tiles: [{ id: "outer", iterations: 0 }],
    nodes: [{ id: "a", time: 0, wait: 0, queueing: 0, bytes: 0, failed: false }],
    links: [{ src: "a", dst: "b", bytes: 0 }],
    wires: [{ id: "w", bytes: null, wait: 0, parts: [{}, {}] }],
  });
  const scene = { heat: "plain", words: { bundle: "{count} pairs" } };
  assert.equal(wireAmount(scene, whole.wires[0]), "2 pairs · 22 B");
  assert.equal(wireAmount(scene, bare.wires[0]), "2 pairs");
});

test("the viewer goes on by event or by tensor, and stops at the ends", () => {
  const replay = oneTensor();
  assert.equal(stepFrom(replay, 10, 1, "event"), 15);
  assert.equal(stepFrom(replay, 10, 1, "tensor"), 30);
  assert.equal(stepFrom(replay, 30, -1, "tensor"), 10);
  assert.equal(stepFrom(replay, 10, -1, "tensor"), 0);
  assert.equal(stepFrom(replay, 50, 1, "event"), endOfReplay(replay));
  assert.equal(stepFrom(replay, 12, -1, "event"), 10);
});

test("a step that has no iterations goes to its end at once", () => {
  assert.equal(stepFrom(oneTensor(), 10, 1, "iteration"), 1000);
});

test("playing goes from instant to instant at an even pace, there and back", () => {
  const replay = oneTensor();
  assert.equal(timeAt(replay, 0.5), 12.5);
  for (const time of [10, 12, 30, 44, 50]) {
    assert.equal(Math.round(timeAt(replay, positionOf(replay, time))), time);
  }
});

test("what is selected is found, whether by span, key or node", () => {
  const replay = oneTensor();
  assert.deepEqual(find(replay, { type: "span", id: spanOf(replay, 1) }), { item: 1 });
  assert.deepEqual(find(replay, { type: "span", id: spanOf(replay, 2) }), { row: 0, item: 2 });
  assert.deepEqual(find(replay, { type: "key", id: "key 0" }), { row: 0 });
  assert.deepEqual(find(replay, { type: "node", id: "make" }), { item: 1, name: "make" });
  assert.equal(find(replay, { type: "key", id: "of another step" }), null);
  const stall = { type: "stall", id: `${spanOf(replay, 2)},${spanOf(replay, 1)}` };
  assert.deepEqual(find(replay, stall), { row: 0, item: 2, then: { item: 1 } });
  assert.deepEqual(find(replay, { type: "stall", id: `0bad,${spanOf(replay, 1)}` }), { item: 1 });
  assert.equal(beginOf(replay, { row: 0 }), 10);
  assert.equal(beginOf(replay, { item: 1 }), 20);
});

/** Two iterations that overlap; in the second one a dead value is sent. */
const loop = () => replayOf(
  [
    { kind: TURN, name: "loop", start: 0, end: 40, iteration: 0 },
    { name: "Merge", start: 5, end: 35, iteration: 0 },
    { kind: TURN, name: "loop", start: 20, end: 60, iteration: 1 },
    { kind: SEND, name: "s", start: 30, end: 31, iteration: 1, flags: FLAG.DEAD },
  ],
  [{ tensor: "i", send: 3, sent: 30 }],
  [[0, "turn_begin", 0], [20, "turn_begin", 2], [30, "sent", 3], [40, "turn_end", 0]],
);

test("iterations are told with what runs, travels and is dead in them", () => {
  const turns = (time) => turnStates(loop(), frame(loop(), time))
    .map(({ iteration, state, ops, tensors, dead }) => [iteration, state, ops, tensors, dead]);
  assert.deepEqual(turns(10), [[0, "running", 1, 0, 0]]);
  assert.deepEqual(turns(30), [[0, "running", 1, 0, 0], [1, "running", 0, 1, 1]]);
  assert.deepEqual(turns(70), [[0, "done", 0, 0, 0], [1, "done", 0, 1, 1]]);
});

test("iterations that overlap lie in lanes of their own", () => {
  assert.deepEqual(lanesOf(loop().turns).map(({ lane }) => lane), [0, 1]);
});

const turn = (loop, begin, end) => ({ loop, begin, end });

test("a loop is inner if one turn of another loop holds all of its turns", () => {
  const turns = [
    turn(0, 0, 40), turn(1, 5, 15), turn(1, 15, 30), turn(2, 30, 50), turn(0, 40, 80),
    turn(3, 40, 60), turn(4, 45, 60),
  ];
  assert.deepEqual([...innerLoops(turns)].sort(), [1, 3, 4]);
  assert.deepEqual([...innerLoops([turn(0, 0, 9), turn(0, 0, 5)])], []);
});

test("each turn is looked at a few times, however many loops there are", () => {
  let looks = 0;
  const turns = Array.from({ length: 3000 }, (_, i) => ({
    loop: i, begin: 10 * i, get end() { looks += 1; return 10 * i + 5; },
  }));
  assert.equal(innerLoops(turns).size, 0);
  assert.ok(looks < 20 * turns.length, `${looks} looks`);
});

test("a node whose last run was dead is so until it runs again", () => {
  const replay = replayOf([
    { name: "mul", start: 10, end: 12, iteration: 0 },
    { name: "mul", start: 20, end: 20, iteration: 1, flags: FLAG.DEAD },
  ]);
  const places = { ids: ["t"], tileOf: [0, 0] };
  const state = (time) => tileStates(replay, frame(replay, time), places).get("t");
  assert.equal(state(11).running, 1);
  assert.equal(state(13).isDead, false);
  assert.equal(state(20).isDead, true);
});

test("a node has failed once it has, and not before", () => {
  const replay = replayOf([{ name: "div", start: 10, end: 20, flags: FLAG.ERROR }]);
  const places = { ids: ["t"], tileOf: [0] };
  const state = (time) => tileStates(replay, frame(replay, time), places).get("t");
  assert.equal(state(15).hasFailed, false);
  assert.equal(state(20).hasFailed, true);
});

test("a point of a wire lies as far along as is asked", () => {
  const points = [[0, 0], [0, 10], [30, 10]];
  assert.deepEqual(pointAt(points, 0), [0, 0]);
  assert.deepEqual(pointAt(points, 0.25), [0, 10]);
  assert.deepEqual(pointAt(points, 1), [30, 10]);
  assert.deepEqual(pointAt([[4, 4], [4, 4]], 0.5), [4, 4]);
});

const WORDS = {
  opening: "{count} events in {time}", others: " +{count}", in_iteration: ", iteration {iteration}",
  events: {
    asked: "{to} asks {from} for {name}", sent_awaited: "{from} sends {name} after {waited}",
    taken: "{to} takes {name}", taken_start: "{to} takes {name} and starts {op}",
    turn_begin: "iteration {iteration} of {loop}", sent_dead: "{name} is dead",
    start: "{place} starts {name}",
  },
};

test("one sentence says what tells most at an instant, and how much else there is", () => {
  const replay = oneTensor();
  assert.equal(sentence(replay, 5, WORDS), "6 events in 1.0 µs");
  assert.equal(sentence(replay, 10, WORDS), "worker:0 asks ps:0 for w");
  assert.equal(sentence(replay, 33, WORDS), "ps:0 sends w after 20 ns +1");
  assert.equal(sentence(replay, 60, WORDS), "worker:0 takes w");
  assert.equal(sentence(loop(), 20, WORDS), "iteration 1 of loop");
  assert.equal(sentence(loop(), 30, WORDS), "i is dead, iteration 1");
});

test("a value that is taken and the op that starts with it are one sentence", () => {
  const replay = replayOf(
    [
      { kind: RECV, name: "r", place: 1, start: 10, end: 50 },
      { name: "mul", place: 1, start: 50, end: 60 },
    ],
    [{ tensor: "w", recv: 0, asked: 10, sent: 20, met: 20, taken: 50 }],
    [[50, "taken", 0], [50, "start", 1]],
  );
  assert.equal(sentence(replay, 50, WORDS), "worker:0 takes w and starts mul");
});

test("names from a trace are values, never patterns", () => {
  assert.equal(fill("{name} at {place}", { name: "$& {place}", place: "x" }), "$& {place} at x");
});

test("the number of values up to a limit counts equal ones", () => {
  assert.deepEqual([0, 1, 2, 5].map((value) => upTo([1, 1, 2, 4], value)), [0, 2, 3, 4]);
});
