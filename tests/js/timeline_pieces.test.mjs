// Bars as pieces of picture: together they are the whole, and a moved window uses them again.
import assert from "node:assert/strict";
import { test } from "node:test";
import { PIECE, Pieces, isSharp, paintBars, piecesIn } from "../../assets/timeline_pieces.mjs";

const HUES = ["idle", "compute", "update", "send", "recv", "collective", "frame"];
const theme = new Proxy({ isDark: false }, { get: (own, name) => own[name] ?? String(name) });
const rows = [{ id: 3, y: 10, h: 20 }, { id: 4, y: 470, h: 20 }, { id: 5, y: 900, h: 20 }];
const layout = { key: "one", rows, height: 940 };

/** A canvas that remembers what was filled and shown on it, in its own pixels. */
function canvasOf() {
  const drawn = { fills: [], shown: [] };
  const ctx = new Proxy({ drawn }, {
    get: (own, name) => own[name] ?? ((...args) => {
      if (name === "fillRect") drawn.fills.push([own.fillStyle, ...args]);
      if (name === "drawImage") drawn.shown.push(args);
    }),
    set: (own, name, value) => {
      own[name] = value;
      return true;
    },
  });
  return { drawn, getContext: () => ctx };
}

/** Runs `body` where canvases can be made; returns those that were. */
function withCanvases(body) {
  const made = [];
  globalThis.document = {
    createElement: () => {
      made.push(canvasOf());
      return made.at(-1);
    },
  };
  try {
    body();
  } finally {
    delete globalThis.document;
  }
  return made;
}

/** Spans of `length` ns every `every` ns in each row. */
function tileOf({ from, to, every = 8, length = 2, asked = 4 * (to - from) }) {
  const tile = { from, to, asked, rows: [3, 6], hues: HUES, orders: new Map(), names: ["op"] };
  const columns = ["start", "duration", "row", "hue", "flags", "wait", "stood", "queue", "bytes",
    "share", "stood_share", "queue_share", "name"];
  for (const name of columns) tile[name] = [];
  for (const { id } of rows) {
    for (let at = from; at < to; at += every) {
      const box = { start: at, duration: length, row: id, hue: 1 + (at % 2), share: 1 };
      tile.orders.set(id, [...(tile.orders.get(id) ?? []), tile.start.length]);
      for (const name of columns) tile[name].push(box[name] ?? 0);
    }
  }
  return tile;
}

const sceneOf = ({ tile, from, scroll = 0, scale = 1, width = 1000 }) => ({
  tile, from, to: from + width / scale, scale, scroll, layout, theme, patterns, ratio: 1,
  area: { x: 140, y: 100, w: width, h: 600 }, words: {},
});
const patterns = {};

test("pieces cover the window once, and only bands that hold rows", () => {
  const scene = sceneOf({ from: 130, scroll: 20 });
  const pieces = piecesIn(scene);
  const band = pieces.filter(({ y }) => y === 0);
  assert.equal(band[0].x, -130);
  assert.ok(band.at(-1).x + PIECE.w >= 1000);
  band.slice(1).forEach(({ x }, i) => assert.equal(x, band[i].x + PIECE.w));
  assert.deepEqual(band[0].rows.map(({ id }) => id), [3, 4]);
  assert.deepEqual([...new Set(pieces.map(({ y }) => y))], [0, PIECE.h]);
});

test("what the pieces show is what a whole picture would", () => {
  for (const [every, length] of [[8, 2], [2, 1], [50, 30], [700, 500]]) {
    const tile = tileOf({ from: -600, to: 2000, every, length });
    const scene = sceneOf({ tile, from: 0, width: 960 });
    const fillsOf = (offset, { from, to, rows: shown }, width) => {
      const { getContext, drawn } = canvasOf();
      paintBars(getContext(), { ...scene, from, to, rows: shown, width });
      return drawn.fills.flatMap(([fill, x, y, w, h]) => {
        const pixels = []; // of the whole picture, so that bars may be cut anywhere
        for (let at = Math.ceil(Math.max(x, 0)); at < Math.min(x + w, width); at += 1) {
          pixels.push([fill, Math.round(at + offset), y, h].join(" "));
        }
        return pixels;
      });
    };
    const whole = fillsOf(0, { from: 0, to: 960, rows: rows.slice(0, 2) }, 960);
    const pieces = piecesIn(scene).filter(({ y }) => y === 0);
    const joined = pieces.flatMap((piece) => fillsOf(piece.x, piece, PIECE.w));
    assert.deepEqual([...new Set(joined)].sort(), [...new Set(whole)].sort());
  }
});

test("a window that moves paints only what comes in", () => {
  const tile = tileOf({ from: -2000, to: 4000 });
  const pieces = new Pieces();
  const made = withCanvases(() => {
    pieces.draw(canvasOf().getContext(), sceneOf({ tile, from: 5 }));
    pieces.draw(canvasOf().getContext(), sceneOf({ tile, from: 5.5 }));
  });
  const first = made.length;
  const fills = () => made.reduce((sum, { drawn }) => sum + drawn.fills.length, 0);
  const before = fills();
  const more = withCanvases(() => {
    pieces.draw(canvasOf().getContext(), sceneOf({ tile, from: 150 }));
    pieces.draw(canvasOf().getContext(), sceneOf({ tile, from: 250, scroll: 7 }));
  });
  assert.equal(fills(), before);
  assert.ok(more.length > 0 && more.length < first / 2);
});

test("another scale, layout or theme paints all anew", () => {
  const tile = tileOf({ from: -2000, to: 4000 });
  const scene = sceneOf({ tile, from: 0 });
  for (const change of [{ scale: 1.01 }, { patterns: {} }, { ratio: 2 },
    { layout: { ...layout, key: "other" } }]) {
    const pieces = new Pieces();
    const made = withCanvases(() => {
      pieces.draw(canvasOf().getContext(), scene);
      pieces.draw(canvasOf().getContext(), { ...scene, ...change });
    });
    assert.ok(made.every(({ drawn }) => drawn.fills.length > 0));
    const painted = [...pieces.painted.values()];
    assert.ok(painted.length > 0 && pieces.scene.scale === (change.scale ?? 1));
  }
});

test("a piece stays as long as its tile says all that can be seen of it", () => {
  const sharp = tileOf({ from: -2000, to: 4000 });
  const blurred = { ...tileOf({ from: -2000, to: 4000 }), asked: 100 };
  const better = { ...sharp };
  const tilesAfter = (first, second) => {
    const pieces = new Pieces();
    withCanvases(() => {
      pieces.draw(canvasOf().getContext(), sceneOf({ tile: first, from: 0 }));
      first.isOld = first.isExpired;
      pieces.draw(canvasOf().getContext(), sceneOf({ tile: second, from: 0 }));
    });
    return new Set([...pieces.painted.values()].map(({ tile }) => tile));
  };
  assert.deepEqual(tilesAfter(sharp, better), new Set([sharp]));
  assert.deepEqual(tilesAfter(blurred, sharp), new Set([sharp]));
  assert.deepEqual(tilesAfter({ ...sharp, isExpired: true }, better), new Set([better]));
  assert.ok(!isSharp(sharp, { from: 3900, to: 4100, rows }, 1));
});

test("pieces that were left behind are let go", () => {
  const tile = tileOf({ from: -2000, to: 90_000, every: 100 });
  const pieces = new Pieces();
  const made = withCanvases(() => {
    for (let from = 0; from < 80_000; from += 500) {
      pieces.draw(canvasOf().getContext(), sceneOf({ tile, from }));
    }
  });
  assert.ok(pieces.painted.size <= 40);
  assert.ok(made.length <= 60);
});
