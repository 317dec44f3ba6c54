// What the timeline knows without a canvas: rows and their heights, time ticks, levels of detail,
// hits, steps. Pure, so that `node --test` can ask it everything. Times are ns from the run's
// start.

export const FLAG = { error: 1, unfinished: 2, dead: 4, control: 16 };
export const MERGE_PX = 3; // narrower spans become a share of a column this wide
export const LABEL_PX = 40; // narrower bars carry no name
export const HUE_PX = 12; // one colour for so many pixels of columns: less flickers like static
const REACH_PX = 4; // how far beside a thin bar a pointer still means it
export const LEAST_WINDOW_NS = 200;

// ---- time ----

const UNITS = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];

/** The largest unit in which something so long is at least 1. */
export const unitOf = (ns) => UNITS.find(([, size]) => Math.abs(ns) >= size) ?? UNITS.at(-1);

/** 1, 2 or 5 times a power of ten: the least that is at least `ns`, and never below 1 ns. */
export function niceStep(ns) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, ns)));
  return [1, 2, 5, 10].map((f) => f * power).find((step) => step >= ns * (1 - 1e-9)) ?? power * 10;
}

/** Ticks of a window, counted from `origin`, one unit for all: {unit, ticks: [{at, text}]}.
 *  `widthOf(text)` is used so that no two texts come near each other. */
export function ticksOf(from, to, width, origin, widthOf) {
  const [unit, size] = unitOf(Math.max(Math.abs(from - origin), Math.abs(to - origin)));
  const perPx = (to - from) / width;
  let step = niceStep(perPx * 88);
  for (let tries = 0; tries < 6; tries += 1) {
    const ticks = ticksAt(from, to, origin, step, size);
    const widest = Math.max(0, ...ticks.map(({ text }) => widthOf(text)));
    if (widest + 28 <= step / perPx) return { unit, ticks };
    step = niceStep(step * 1.01);
  }
  return { unit, ticks: [] };
}

function ticksAt(from, to, origin, step, size) {
  const digits = Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9));
  const ticks = [];
  for (let n = Math.ceil((from - origin) / step); n * step <= to - origin; n += 1) {
    const text = ((n * step) / size).toFixed(digits).replace("-", "−");
    ticks.push({ at: origin + n * step, text: n === 0 ? "0" : text });
  }
  return ticks;
}

/** An instant as the cursor says it: three digits below what the window is measured in. */
export function instantText(at, origin, length) {
  const [unit, size] = unitOf(Math.max(Math.abs(at - origin), length));
  const digits = Math.min(6, Math.max(0, Math.ceil(Math.log10(size / length)) + 3));
  return `${((at - origin) / size).toFixed(digits).replace("-", "−")} ${unit}`;
}

/** Which way and how far [start, end] lies from a window: {isBefore, ns}; null if it is in. */
export function awayFrom(start, end, from, to) {
  if (end < from) return { isBefore: true, ns: from - end };
  return start > to ? { isBefore: false, ns: start - to } : null;
}

/** The window [from, to] moved and stretched so that its middle lies in the run. */
export function clampWindow(from, to, end) {
  const run = Math.max(end, LEAST_WINDOW_NS);
  const length = Math.min(Math.max(to - from, LEAST_WINDOW_NS), run * 1.1);
  const middle = Math.min(Math.max((from + to) / 2, 0), run);
  return [middle - length / 2, middle + length / 2];
}

// ---- steps ----

/** Steps by number: [{number, task, start, end}]; where every worker runs each, the first one's. */
export function leadingSteps(steps) {
  const seen = new Map();
  steps.number.forEach((number, i) => {
    if (!seen.has(number)) seen.set(number, stepOf(steps, i));
  });
  return [...seen.values()];
}

/** One of the steps that a head tells column by column. */
export const stepOf = ({ number, task, start, end }, i) =>
  ({ number: number[i], task: task[i], start: start[i], end: end[i] });

/** Whose steps those that lead are, where several tasks run steps; null where one alone does. */
export function ownerOf({ task }, leading) {
  const owners = new Set(leading.map((step) => step.task));
  return new Set(task).size > 1 && owners.size === 1 ? leading[0].task : null;
}

/** The step of this number of a task; null where a head does not tell of it. */
export function stepOfTask(steps, number, task) {
  const at = steps.number.findIndex((one, i) => one === number && steps.task[i] === task);
  return at < 0 ? null : stepOf(steps, at);
}

/** The number of the step that stands out: the longest, if it took over twice the median. */
export function outstandingStep(steps) {
  if (steps.length < 3) return null;
  const byLength = [...steps].sort((a, b) => (a.end - a.start) - (b.end - b.start));
  const lengthOf = (step) => step.end - step.start;
  const longest = byLength.at(-1);
  const median = lengthOf(byLength[byLength.length >> 1]);
  return lengthOf(longest) > 2 * median ? longest.number : null;
}

/** Which step numbers have room for their text: the chosen, the outstanding, then every n-th. */
export function stepLabels(steps, place, widthOf, chosen, outstanding) {
  const taken = [];
  const put = (step, isFirst = false) => {
    const [left, right] = place(step);
    const middle = (left + right) / 2;
    const half = widthOf(String(step.number)) / 2 + (isFirst ? 2 : 5);
    if (taken.some((t) => Math.abs(t.middle - middle) < half + t.half)) return;
    taken.push({ number: step.number, middle, half });
  };
  steps.filter((s) => s.number === chosen).forEach((s) => put(s, true));
  steps.filter((s) => s.number === outstanding).forEach((s) => put(s));
  const every = niceCount(steps, place, widthOf);
  steps.filter((s) => s.number % every === 0 || every === 1).forEach((s) => put(s));
  return taken;
}

function niceCount(steps, place, widthOf) {
  if (steps.length < 2) return 1;
  const span = place(steps.at(-1))[1] - place(steps[0])[0];
  const room = span / steps.length;
  const need = widthOf(String(steps.at(-1).number)) + 12;
  return niceStep(Math.max(1, need / Math.max(room, 1e-6)));
}

// ---- rows ----

const DENSITIES = [
  { rail: 34, op: 96, deep: 32, recv: [72, 40, 28], rpc: [60, 34, 28], aside: 26, apart: 11,
    inset: 12, boxes: 20 },
  { rail: 28, op: 60, deep: 24, recv: [48, 28, 20], rpc: [40, 24, 20], aside: 22, apart: 9,
    inset: 9, boxes: 18 },
  { rail: 24, op: 42, deep: 20, recv: [36, 24, 18], rpc: [32, 20, 18], aside: 18, apart: 7,
    inset: 7, boxes: 16 },
  { rail: 19, op: 32, deep: 17, recv: [24, 18, 15], rpc: [22, 16, 15], aside: 15, apart: 5,
    inset: 6, boxes: 11 },
  { rail: 16, op: 24, deep: 15, recv: [18, 15, 14], rpc: [18, 14, 14], aside: 14, apart: 4,
    inset: 5, boxes: 8 },
];
const RAILS = new Set(["client", "partition"]);
const ASIDE = new Set(["feeds", "fetches", "master", "worker"]);
const THIN_PX = 7; // a row of calls that nobody asked to see one by one
const TITLE_PX = { alone: 32, withDevice: 48, line: 20 };

export const laneWord = (lane) => lane.split(" ")[0];

/** A lane's name in the language of the page; names of gRPC, TensorFlow and the user stay. */
export const laneTitle = (label, words) =>
  [words.lanes?.[laneWord(label)] ?? laneWord(label), ...label.split(" ").slice(1)].join(" ");

/** Calls are told by the transfers they carry: many at once are thin lines until unfolded. */
export const isFolded = (lane, count, unfolded, task) =>
  laneWord(lane) === "rpc" && count > 2 && !unfolded.has(`${task} ${lane}`);

function heightOf({ lane, task }, count, size, unfolded) {
  const word = laneWord(lane);
  if (isFolded(lane, count, unfolded, task)) return THIN_PX;
  if (RAILS.has(word)) return size.rail;
  if (ASIDE.has(word)) return size.aside;
  if (word === "recv" || word === "rpc") return size[word][Math.min(count, 3) - 1];
  return count > 1 ? size.deep : size.op;
}

/** Rows under one another in a box per task, in the loosest density that fits `room`.
 *  {boxes: [{task, y, h}], lanes: [{lane, label, task, count, y, h}], rows: [{…row, y, h}],
 *  key, height}; layouts of equal keys have the same rows at the same places. */
export function layoutRows(rows, room, { unfolded = new Set(), isNarrow = false } = {}) {
  const layouts = DENSITIES.map((size) => layoutAt(rows, size, unfolded, isNarrow));
  return layouts.find((layout) => layout.height <= room) ?? layouts.at(-2);
}

function layoutAt(rows, size, unfolded, isNarrow) {
  const devices = devicesOf(rows);
  const boxes = [];
  const lanes = [];
  const placed = [];
  let y = 0;
  for (const group of groupBy(rows, (row) => row.task)) {
    const { task } = group[0];
    const top = y;
    y += size.inset + (needsTitleLine(group[0], isNarrow) ? TITLE_PX.line : 0);
    for (const lane of groupBy(group, (row) => row.lane)) {
      const h = heightOf(lane[0], lane.length, size, unfolded);
      const gap = h === THIN_PX ? 1 : 2;
      const { label } = lane[0];
      lanes.push({
        lane: lane[0].lane, label, task, count: lane.length, y, h: lane.length * (h + gap) - gap,
      });
      for (const row of lane) {
        placed.push({ ...row, y, h });
        y += h + gap;
      }
      y += size.apart - gap;
    }
    y += size.inset - size.apart;
    const least = devices.get(task) ? TITLE_PX.withDevice : TITLE_PX.alone;
    boxes.push({ task, y: top, h: Math.max(y - top, least) });
    y = top + boxes.at(-1).h + size.boxes;
  }
  const key = placed.map((row) => `${row.id} ${row.y} ${row.h}`).join();
  return { boxes, lanes, rows: placed, key, height: Math.max(0, y - size.boxes) };
}

/** A task's name shares the line of its first lane if it is short, or if that lane has no name. */
const needsTitleLine = ({ task, lane }, isNarrow) =>
  lane !== "client" && (isNarrow || task.length > 7);

function groupBy(items, keyOf) {
  const groups = [];
  for (const item of items) {
    if (groups.length && keyOf(groups.at(-1)[0]) === keyOf(item)) groups.at(-1).push(item);
    else groups.push([item]);
  }
  return groups;
}

/** Rows that hold a span somewhere in the window; the rest would be empty lines. What no step is
 *  part of (processes coming up) is shown with `isWhole` only: in a step it says nothing. */
export const rowsInWindow = (rows, from, to, isWhole) =>
  rows.filter((row) => row.last >= from && row.first <= to && (isWhole || row.stepped));

/** The device of each task that has one only, as its lanes name it: `CPU:0`. */
export function devicesOf(rows) {
  const found = new Map();
  for (const { task, lane } of rows) {
    const words = lane.split(" ").slice(1).filter((word) => word.includes(":"));
    found.set(task, new Set([...(found.get(task) ?? []), ...words]));
  }
  return new Map([...found].map(([task, set]) => [task, set.size === 1 ? [...set][0] : ""]));
}

/** "fc1/weight/Read_S1" → "fc1/weight": what a person calls the tensor of a Send or Recv. */
export const tensorName = (name) => name.replace(/_[SG]\d+$/, "").replace(/\/Read$/, "");

// ---- level of detail ----

/** Walks the boxes of a row from left to right and tells `sink` what to draw:
 *  bar(i, x, w) for one span, column(x, w, share, hue, stood, queued) for several that share
 *  MERGE_PX pixels; `stood` and `queued` are shares of it too.
 *
 *  `scale` is px per ns, `nsPerPixel` what one box of the tile stands for. Columns are cut on a
 *  grid of time, so that they keep still while the window moves. The first bar after the window is
 *  told too: it may have queued within it. */
export function walkRow(tile, order, from, to, scale, nsPerPixel, sink) {
  const groupNs = HUE_PX / scale;
  const group = new Group(tile, scale, from, nsPerPixel, sink);
  let isIn = true;
  for (let k = firstAt(tile, order, from); isIn && k < order.length; k += 1) {
    const i = order[k];
    const start = tile.start[i];
    const duration = tile.duration[i];
    if (start + duration < from || isFault(tile, i)) continue;
    isIn = start <= to;
    if (duration * scale >= MERGE_PX) {
      group.flush();
      sink.bar(i, (start - from) * scale, duration * scale);
    } else if (isIn) {
      const number = Math.floor(start / groupNs);
      if (number !== group.number) group.begin(number, groupNs);
      group.add(i, start, duration);
    }
  }
  group.flush();
}

/** What lies over the bars of a row: fault(i, x, w) for errors and what never ended, so that
 *  nothing hides them, and name(i, x, w) for bars wide enough to carry one. */
export function walkMarks(tile, order, from, to, scale, sink) {
  for (let k = firstAt(tile, order, from); k < order.length; k += 1) {
    const i = order[k];
    const start = tile.start[i];
    if (start > to) break;
    const width = tile.duration[i] * scale;
    const isAsked = width >= LABEL_PX || isFault(tile, i);
    if (!isAsked || start + tile.duration[i] < from) continue;
    sink[isFault(tile, i) ? "fault" : "name"](i, (start - from) * scale, width);
  }
}

/** What failed, what never ended, and the blow of a fault that was asked for. */
export const isFault = (tile, i) => (tile.flags[i] & (FLAG.error | FLAG.unfinished)) !== 0
  || tile.hues[tile.hue[i]] === "error";

/** The narrow spans of HUE_PX pixels: columns of MERGE_PX, one hue for all. */
class Group {
  constructor(tile, scale, from, nsPerPixel, sink) {
    Object.assign(this, { tile, scale, from, nsPerPixel, sink, number: null });
    this.columns = HUE_PX / MERGE_PX;
    this.busy = new Float64Array(this.columns);
    this.stood = new Float64Array(this.columns);
    this.queued = new Float64Array(this.columns);
    this.count = new Int32Array(this.columns);
    this.only = new Int32Array(this.columns);
    this.hues = new Float64Array(16);
    this.used = 0;
  }

  begin(number, ns) {
    this.flush();
    this.number = number;
    this.start = number * ns;
    this.columnNs = ns / this.columns;
  }

  /** A span, and what the server merged into its pixel: at work, standing still, ready. */
  add(i, start, duration) {
    const { tile, nsPerPixel } = this;
    const column = Math.min(this.columns - 1, Math.floor((start - this.start) / this.columnNs));
    const work = duration - tile.wait[i];
    const covered = Math.max(work, tile.share[i] * nsPerPixel);
    const stood = Math.max(tile.stood[i], tile.stood_share[i] * nsPerPixel);
    this.busy[column] += covered;
    this.stood[column] += stood;
    this.queued[column] += Math.max(tile.queue[i], tile.queue_share[i] * nsPerPixel);
    const isMerged = covered > work * 1.05 + 1 || stood > tile.stood[i] * 1.05 + 1;
    this.count[column] += isMerged ? 2 : 1;
    this.only[column] = i;
    this.hues[tile.hue[i]] += covered || 1;
    this.used += 1;
  }

  flush() {
    if (!this.used) {
      this.number = null;
      return;
    }
    const hue = this.hues.indexOf(Math.max(...this.hues));
    for (let c = 0; c < this.columns; c += 1) {
      if (this.count[c] === 1) {
        const i = this.only[c];
        this.sink.bar(i, (this.tile.start[i] - this.from) * this.scale,
          this.tile.duration[i] * this.scale);
      } else if (this.count[c]) {
        const x = (this.start + c * this.columnNs - this.from) * this.scale;
        const [share, stood, queued] = [this.busy, this.stood, this.queued]
          .map((ns) => Math.min(1, ns[c] / this.columnNs));
        this.sink.column(x, MERGE_PX, share, hue, stood, queued);
      }
    }
    for (const sums of [this.busy, this.stood, this.queued, this.count, this.hues]) sums.fill(0);
    this.used = 0;
    this.number = null;
  }
}

/** Where in a row's order to begin: the last box that starts before an instant, or the first. */
export function firstAt(tile, order, at) {
  let low = 0;
  let high = order.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (tile.start[order[middle]] < at) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}

// ---- hits ----

/** The box of a row under an instant, or the nearest one within a few pixels; -1 for none. */
export function boxAt(tile, order, at, scale) {
  let best = -1;
  let bestGap = REACH_PX / scale;
  for (let k = Math.max(0, firstAt(tile, order, at) - 2); k < order.length; k += 1) {
    const i = order[k];
    if (tile.start[i] - at > bestGap) break;
    const beside = Math.max(tile.start[i] - at, at - tile.start[i] - tile.duration[i], 0);
    const isOnTop = isFault(tile, i) && beside <= MERGE_PX / scale;
    const gap = isOnTop ? -1 : beside;
    if (gap < bestGap || (gap === bestGap && best >= 0)) {
      best = i;
      bestGap = gap;
    }
  }
  return best;
}

/** The next box from box `i` in a direction: along the row, or the nearest in the rows beside. */
export function neighbour(tile, rows, orders, i, dx, dy) {
  const at = rows.findIndex((row) => row.id === tile.row[i]);
  if (dx) {
    const order = orders.get(tile.row[i]) ?? [];
    return order[order.indexOf(i) + dx] ?? i;
  }
  const middle = tile.start[i] + tile.duration[i] / 2;
  for (let r = at + dy; r >= 0 && r < rows.length; r += dy) {
    const order = orders.get(rows[r].id);
    if (order?.length) return nearestTo(tile, order, middle);
  }
  return i;
}

function nearestTo(tile, order, at) {
  const k = firstAt(tile, order, at);
  const gap = (i) => Math.max(tile.start[i] - at, at - tile.start[i] - tile.duration[i], 0);
  return [order[k], order[k + 1]].filter((i) => i !== undefined)
    .reduce((a, b) => (gap(b) < gap(a) ? b : a));
}
