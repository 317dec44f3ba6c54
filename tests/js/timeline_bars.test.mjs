// Bars at any zoom: no size that a canvas refuses, whatever lies off the screen.
import assert from "node:assert/strict";
import { test } from "node:test";
import { BarPainter, palette } from "../../assets/timeline_bars.mjs";
import { isFault, walkMarks, walkRow } from "../../assets/timeline_model.mjs";

const HUES = ["idle", "compute", "update", "send", "recv", "collective", "frame", "error"];
const theme = new Proxy({ isDark: false }, { get: (own, name) => own[name] ?? String(name) });
const words = { waiting: "no value yet", in_step: "step {step}" };

/** A canvas that minds: every number finite, no radius or length below zero. */
function strictContext() {
  const calls = { texts: [], rects: 0 };
  const check = (name, numbers) => {
    assert.ok(numbers.flat().every(Number.isFinite), `${name}(${numbers})`);
    if (name === "roundRect") assert.ok(numbers[4] >= 0, `radius ${numbers}`);
    if (/[rR]ect$/.test(name)) assert.ok(numbers[2] >= 0 && numbers[3] >= 0, `${name} ${numbers}`);
    if (/[rR]ect$/.test(name)) assert.ok(numbers[2] < 5000, `too wide: ${name} ${numbers}`);
  };
  const ctx = new Proxy({ calls }, {
    get(own, name) {
      if (name in own) return own[name];
      return (...args) => {
        if (name === "measureText") return { width: args[0].length * 6 };
        if (name === "fillText") calls.texts.push(args[0]);
        else if (name !== "setLineDash") check(name, args);
        if (/[rR]ect$/.test(name)) calls.rects += 1;
        return undefined;
      };
    },
    set: (own, name, value) => {
      own[name] = value;
      return true;
    },
  });
  return ctx;
}

function tileOf(boxes) {
  const column = (name) => boxes.map((box) => box[name] ?? 0);
  const tile = { hues: HUES, names: ["layer/fc1/weight/Read_S1"], ops: [""] };
  for (const name of ["start", "duration", "hue", "flags", "wait", "stood", "queue", "bytes",
    "share", "stood_share", "queue_share", "name"]) tile[name] = column(name);
  return tile;
}

function paint(tile, { from, to, width = 1200, h = 20, stepsByStart }) {
  const ctx = strictContext();
  const scale = width / (to - from);
  const painter = new BarPainter(ctx, tile, {
    theme, patterns: {}, scale, width, words, stepsByStart,
  });
  painter.row(0, h);
  const order = tile.start.map((_, i) => i).sort((a, b) => tile.start[a] - tile.start[b]);
  walkRow(tile, order, from, to, scale, 1, {
    bar: (i, x, w) => painter.bar(i, x, w),
    column: (...parts) => painter.column(...parts),
  });
  walkMarks(tile, order, from, to, scale, painter);
  painter.writeLabels();
  return ctx.calls;
}

/** The same numbers in every run. */
function* numbers(seed) {
  let state = seed;
  for (;;) {
    state = (state * 1103515245 + 12345) % 2147483648;
    yield state / 2147483648;
  }
}

test("any span is drawn at any zoom and place", () => {
  const next = numbers(7);
  const some = (most) => Math.floor(next.next().value * most);
  for (let round = 0; round < 400; round += 1) {
    let at = 0;
    const tile = tileOf(Array.from({ length: 12 }, () => {
      const duration = 10 ** some(7) * (1 + some(9)) - 1;
      const start = at + some(2000);
      at = start + duration;
      const wait = some(2) * Math.floor(duration * next.next().value);
      return {
        start, duration, wait, stood: Math.floor(wait * next.next().value), queue: some(5000),
        hue: some(HUES.length), flags: [0, 0, 0, 1, 2, 16][some(6)], bytes: some(9000), share: 1,
      };
    }));
    const from = some(at) - some(5000);
    paint(tile, { from, to: from + 200 + 10 ** some(8), h: [7, 14, 20, 42][some(4)] });
  }
});

test("a Recv is told by its tensor and bytes, one that waits by what it waits for", () => {
  const recv = { start: 0, duration: 900, wait: 400, stood: 400, hue: 4, bytes: 2048 };
  const { texts } = paint(tileOf([recv]), { from: 0, to: 1000 });
  assert.deepEqual(texts, ["layer/fc1/weight", "no value yet", "layer/fc1/weight", "2.00 KiB"]);
});

test("a frame says which step it is, as workers are in different ones", () => {
  const boxes = [{ start: 100, duration: 800, hue: 6 }, { start: 150, duration: 700, hue: 1 }];
  const stepsByStart = new Map([[100, 31], [150, 32]]);
  const { texts } = paint(tileOf(boxes), { from: 0, to: 1000, stepsByStart });
  assert.deepEqual(texts.filter((text) => text.includes("ns")), ["step 31 · 800 ns", "700 ns"]);
});

test("the name of a bar whose start is off the screen stands where it is seen", () => {
  const { texts } = paint(tileOf([{ start: -5000, duration: 9000, hue: 1 }]), { from: 0, to: 900 });
  assert.equal(texts[0], "layer/fc1/weight/Read_S1");
});

test("queueing is drawn only where nothing else stands", () => {
  const boxes = [{ start: 100, duration: 300, hue: 1 },
    { start: 400, duration: 300, hue: 1, queue: 300 }];
  const tight = paint(tileOf(boxes), { from: 0, to: 1200, h: 12 }).rects;
  boxes[1].queue = 0;
  assert.equal(paint(tileOf(boxes), { from: 0, to: 1200, h: 12 }).rects, tight);
});

test("what failed is named beside its bar where that is too narrow for its name", () => {
  const failed = { start: 100, duration: 5, hue: 1, flags: 1 };
  const { texts } = paint(tileOf([failed]), { from: 0, to: 1000 });
  assert.deepEqual(texts, ["…fc1/weight/Read_S1"]);
  const many = [0, 20, 40].map((at) => ({ ...failed, start: 100 + at }));
  assert.equal(paint(tileOf(many), { from: 0, to: 1000 }).texts.length, 1); // no name on another
  const last = paint(tileOf([{ ...failed, start: 990 }]), { from: 0, to: 1000 });
  assert.equal(last.texts.length, 1); // before its bar, where the canvas ends behind it
});

test("every hue has a fill, an outline and a text colour", () => {
  for (const look of palette(theme, {}, HUES)) {
    assert.ok(look.fill && look.edge && look.text);
  }
});

test("the blow of a fault is marked and named however short it is, and nothing hides it", () => {
  const struck = { start: 500, duration: 1, hue: HUES.indexOf("error"), name: 1 };
  const tile = tileOf([{ start: 0, duration: 900, hue: 1 }, struck]);
  tile.names.push("kill");
  assert.ok(paint(tile, { from: 0, to: 1_000_000 }).texts.includes("kill"));
  assert.ok(isFault(tile, 1) && !isFault(tile, 0));
});
