// What the analyses found, as it is drawn: path, stalls, flags.
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { drawArrows } from "../../assets/timeline_arrows.mjs";
import { Findings } from "../../assets/timeline_findings.mjs";
import { flagAt, placeFlags } from "../../assets/timeline_flags.mjs";
import { drawPath } from "../../assets/timeline_path.mjs";
import { drawStalls, fill, labelStalls, stallAt } from "../../assets/timeline_stalls.mjs";

const theme = new Proxy({}, { get: (_, name) => String(name) });
const placed = new Map([[1, { id: 1, y: 10, h: 20 }], [2, { id: 2, y: 50, h: 20 }]]);
const words = { stalled: { ran: "{time} idle: {at} ran {name}" } };

function canvas() {
  const calls = [];
  const ctx = new Proxy({ calls }, {
    get: (own, name) => own[name] ?? ((...args) => {
      calls.push([name, ...args, own.lineWidth, own.strokeStyle]);
      return name === "measureText" ? { width: args[0].length * 6 } : undefined;
    }),
    set: (own, name, value) => {
      own[name] = value;
      return true;
    },
  });
  return ctx;
}

const calls = (ctx, name) => ctx.calls.filter(([called]) => called === name);
const scene = { theme, words, from: 0, scale: 1, area: { w: 500 }, litIds: new Set() };

test("a line lies under every piece of the path that is seen, at least 3 px wide", () => {
  const path = { row: [1, 2, 1, 9], start: [0, 100, 101, 0], end: [100, 100.5, 9000, 50] };
  const ctx = canvas();
  assert.equal(drawPath(ctx, { ...scene, path }, placed), 3);
  const lines = calls(ctx, "fillRect").map(([, x, y, w, h]) => [x, y, w, h]);
  assert.deepEqual(lines.slice(0, 2), [[0, 29.5, 100, 3.5], [100, 69.5, 3, 3.5]]);
  assert.ok(lines[2][2] < 500, "no line is far longer than the screen");
});

test("of pieces that share a pixel one line is drawn, and none is lost", () => {
  const at = Array.from({ length: 4000 }, (_, i) => i / 10);
  const path = { row: at.map(() => 1), start: at, end: at.map((x) => x + 0.1) };
  const ctx = canvas();
  assert.ok(drawPath(ctx, { ...scene, path }, placed) < 150);
  const covered = new Set();
  for (const [, x, , w] of calls(ctx, "fillRect")) {
    for (let px = Math.floor(x); px < x + w; px += 1) covered.add(px);
  }
  assert.ok([...Array(400).keys()].every((px) => covered.has(px)));
});

const links = (count) => ({
  source: Array.from({ length: count }, (_, i) => `s${i}`),
  target: Array.from({ length: count }, (_, i) => `t${i}`),
  source_row: Array(count).fill(1), target_row: Array(count).fill(2),
  source_at: Array.from({ length: count }, (_, i) => i),
  target_at: Array.from({ length: count }, (_, i) => i + 1),
  relation: Array(count).fill("data"),
});

test("arrows of the path are drawn however many there are, each link once, 2 px in ink", () => {
  const few = { ...scene, arrows: links(5), path: { arrows: links(2), start: [0], end: [90] } };
  const ctx = canvas();
  assert.equal(drawArrows(ctx, few, placed), 5);
  const strong = calls(ctx, "stroke").filter(([, width, ink]) => width === 2 && ink === "ink");
  assert.equal(strong.length, 2);
  const many = { ...scene, arrows: links(400), path: few.path };
  assert.equal(drawArrows(canvas(), many, placed), 2);
  assert.equal(drawArrows(canvas(), { ...many, scale: 0.1 }, placed), 0);
});

const stall = (start, end, cause = { row: 2, at: end - 10 }) => ({
  row: 1, start, end, ready: end, key: "ran", cause,
  values: { time: "3 ms", at: "ps:0", name: "update_w" },
});

test("a stall is told in its row, with a dashed arrow from its cause to its end", () => {
  const ctx = canvas();
  const shown = { ...scene, stalls: [stall(0, 300)] };
  labelStalls(ctx, shown, drawStalls(ctx, shown, placed));
  assert.equal(calls(ctx, "fillText")[0][1], "3 ms idle: ps:0 ran update_w");
  const [, ...bezier] = calls(ctx, "bezierCurveTo")[0];
  assert.deepEqual([bezier[0], bezier[4]], [290, 300]);
  assert.deepEqual(calls(ctx, "moveTo")[0].slice(1, 3), [290, 50]);
});

test("short stalls have no arrow, and causes in rows that are not shown none either", () => {
  const ctx = canvas();
  const stalls = [stall(0, 20), stall(100, 200, { row: 7, at: 150 }), stall(300, 400, null)];
  assert.equal(drawStalls(ctx, { ...scene, stalls }, placed).length, 3);
  assert.equal(calls(ctx, "bezierCurveTo").length, 0);
});

test("a pointer finds the stall under it", () => {
  const stalls = [stall(0, 300), stall(310, 311)];
  assert.equal(stallAt(stalls, 1, 150, 1), stalls[0]);
  assert.equal(stallAt(stalls, 2, 150, 1), null);
  assert.equal(stallAt(stalls, 1, 310.5, 1), null);
});

test("values are put in as they are", () => {
  assert.equal(fill("{a} of {b}{c}", { a: "{b}", b: "$&" }), "{b} of $&");
});

test("flags stand at their time, none over another, and are found", () => {
  const flags = [[100, 0], [102, 0], [103, 40], [990, 0], [995, 0]]
    .map(([at, row]) => ({ start: at, end: at, row }));
  const standing = placeFlags(flags, (at) => at, ({ row }) => [row, row + 20], 1000);
  assert.deepEqual(standing.map(({ i, left }) => [i, left]),
    [[0, 100], [1, 120], [2, 103], [3, 983]]);
  assert.equal(flagAt(standing, 125, 5), 1);
  assert.equal(flagAt(standing, 125, 45), -1);
  assert.equal(flagAt(standing, 110, 45), 2);
});

// ---- when what is asked for comes late, moved or not at all ----

/** Findings of a view whose source answers when a test says so. */
function asking() {
  const questions = [];
  const ask = (what) => (about) => new Promise((answer, refuse) => {
    questions.push({ what, about, answer, refuse: () => refuse(new Error("gone")) });
  });
  const went = [];
  const view = {
    head: {
      rows: [1, 2], steps: { number: [1, 3], task: ["w", "w"], start: [0, 50], end: [9, 90] },
    },
    words: { findings_failed: "no: {reason}", stall: { ran: "{name}" }, slow: {} },
    source: { findings: ask("step"), standsOut: ask("run") },
    surface: { invalidate() {} }, growth: { release() {} }, table: { say() {} },
    stack: { reveal() {} }, tell() { this.said = this.findings.problem; },
    setStep(step) { went.push(step.number); }, showMode(mode) { went.push(mode); },
    moveTo(from, to) { went.push([from, to]); },
  };
  Object.assign(globalThis, {
    location: { search: "" }, MutationObserver: class { disconnect() {} },
    document: {
      addEventListener() {}, removeEventListener() {}, querySelectorAll: () => [],
      getElementById: () => null,
    },
  });
  view.findings = new Findings(view);
  return { view, findings: view.findings, questions, went };
}

const settled = () => new Promise(setImmediate);
const step = { task: "w", number: 1, start: 0, end: 9 };
const one = (name, start) => ({
  id: name, key: "ran", values: { name }, step: 3, task: "w", row: 1, start, end: start + 10,
});

test("path and stalls are asked anew when times or rows move, not drawn before", async () => {
  const { view, findings, questions } = asking();
  const moves = [
    () => { view.head.rows.push(3); return step; }, () => ({ ...step, start: 4, end: 13 }),
  ];
  findings.ask(step);
  for (const move of moves) {
    const late = questions.at(-1);
    late.answer({ path: "old", stalls: [1] });
    await settled();
    assert.equal(findings.path, "old");
    findings.ask(move());
    assert.deepEqual([findings.path, findings.stalls], [null, []]);
    assert.notEqual(questions.at(-1), late);
  }
});

test("an answer from before rows or times moved is dropped", async () => {
  const { view, findings, questions } = asking();
  findings.ask(step);
  view.head.rows.push(3);
  findings.ask(step);
  questions[1].answer({ path: "new", stalls: [] });
  questions[0].answer({ path: "old", stalls: [] });
  await settled();
  assert.equal(findings.path, "new");
  findings.askRun();
  findings.askRun(true);
  questions[3].answer([one("new", 5)]);
  questions[2].answer([one("old", 1)]);
  await settled();
  assert.deepEqual(findings.standOuts.map(({ id }) => id), ["new"]);
});

test("a step that did not come is said and asked for again; what comes is not said", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const { view, findings, questions } = asking();
  findings.ask(step);
  questions[0].refuse();
  await settled();
  assert.equal(view.said, "no: gone");
  mock.timers.tick(10_000);
  assert.equal(questions.length, 2);
  questions[1].answer({ path: "here", stalls: [] });
  await settled();
  assert.deepEqual([view.said, findings.path], ["", "here"]);
  mock.timers.reset();
});

test("what stood out stays when an answer fails; what is asked too soon is asked later", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  let now = 0;
  const clock = mock.method(performance, "now", () => now);
  const pass = (ms) => { now += ms; mock.timers.tick(ms); };
  const { view, findings, questions } = asking();
  findings.askRun();
  questions[0].answer([one("a", 1)]);
  await settled();
  findings.askRun();
  findings.askRun();
  assert.equal(questions.length, 1);
  pass(10_000);
  assert.equal(questions.length, 2);
  questions[1].refuse();
  await settled();
  assert.deepEqual([findings.standOuts.length, view.said], [1, "no: gone"]);
  pass(10_000);
  assert.equal(questions.length, 3);
  findings.stop();
  clock.mock.restore();
  mock.timers.reset();
});

test("a row leads to what it tells of, wherever that is in the list, or to its step", async () => {
  const { findings, questions, went } = asking();
  findings.askRun();
  questions[0].answer([one("a", 100), one("b", 200)]);
  await settled();
  const row = (id) => ({ standOut: id, step: "3", task: "w" });
  findings.pressed(row("b"));
  assert.deepEqual([went.splice(0), findings.at], [[3, [197, 213]], 1]);
  findings.askRun(true);
  questions[1].answer([one("b", 200), one("c", 300)]);
  await settled();
  assert.equal(findings.at, 0);
  findings.pressed(row("b"));
  assert.deepEqual(went.splice(0), [3, [197, 213]]);
  findings.pressed(row("a"));
  assert.deepEqual([went, findings.at], [[3, "step"], -1]);
});
