// Where the words of a sequence of calls stand: on no line, no lifeline, no bar and no other word.

const LABEL = 13; // px of height that a label takes
const AIR = 4; // between words and what they stand beside
/** Places along a line, the first that is free. */
const SHARES = [
  0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8, 0.45, 0.55, 0.35, 0.65, 0.25, 0.75, 0.15, 0.85, 0.1, 0.9,
];
const THICK = { value: 3 }; // half of what a line takes; others take a pixel

/** What opens and folds says so by its sign. */
export function labelText({ text, kind }, { calls, isOpen }) {
  const names = kind === "name" || kind === "toggle";
  return calls.length && names ? `${isOpen ? "−" : "+"} ${text}` : text;
}

/** Each label at the first place along its line, else beside one of its ends, where it touches
 *  nothing, the heaviest first. One without such a place is said in brief once all others stand;
 *  one without any is left out: its words are in the title.
 *  What is lit is never wordless: it may stand over lines, though over no other label.
 *  `room` is {top, width, height, foot, lanes: xs of lifelines}. */
export function placeLabels(units, room, measure) {
  const wanted = units.flatMap((unit) => unit.labels.map((one) => ({ one, unit })));
  wanted.sort((a, b) => weightOf(a) - weightOf(b));
  const drawn = obstaclesOf(units, room);
  const taken = [];
  const put = ({ one, unit }) => {
    const wide = measure(labelText(one, unit), unit.isLit);
    const spots = spotsOf(one, wide).filter(({ box }) => isInside(box, room) && !meets(box, taken));
    const free = spots.find(({ box }) => !crosses(box, drawn))
      ?? (unit.isLit ? spots[0] : undefined);
    one.at = free?.at ?? null;
    if (free) taken.push(free.box);
  };
  wanted.forEach(put);
  for (const { one, unit } of wanted.filter((each) => !each.one.at && each.one.brief)) {
    put({ one: Object.assign(one, { text: one.brief }), unit });
  }
  for (const unit of units) unit.labels = unit.labels.filter(({ at }) => at);
}

const weightOf = ({ one, unit }) => (unit.isLit ? 0 : one.weight);

function obstaclesOf(units, { lanes, foot }) {
  return {
    lines: [
      ...units.flatMap(({ lines }) => lines),
      ...lanes.map((x) => ({ from: [x, 0], to: [x, foot] })),
    ],
    bars: units.flatMap(({ bars }) => bars)
      .map(({ x, y, width, height }) => ({ x, y, right: x + width, bottom: y + height })),
  };
}

/** Places of a label, the best first. */
function spotsOf({ from, anchor, line, below }, wide) {
  if (from) return [spot(from[0], from[1], anchor, wide)];
  const reach = AIR + thickOf(line);
  const along = SHARES.map((share) => {
    const x = line.from[0] + (line.to[0] - line.from[0]) * share;
    return { x, ys: [x - wide / 2, x + wide / 2].map((at) => heightAt(line, at)) };
  });
  const over = ({ x, ys }) => spot(x, Math.min(...ys) - reach - 2 + below, "middle", wide);
  const under = ({ x, ys }) => spot(x, Math.max(...ys) + reach + LABEL - 4 + below, "middle", wide);
  return [...along.map(over), ...along.map(under), ...besides(line, below, wide)];
}

/** Before the line begins, and behind its end. */
function besides({ from, to }, below, wide) {
  const way = Math.sign(to[0] - from[0]) || 1;
  const beside = ([x, y], side) => spot(
    x + side * 14, y + 4 + below, side > 0 ? "start" : "end", wide,
  );
  return [beside(from, -way), beside(to, way)];
}

/** Where a line is at an x; beyond its ends it is as high as there. */
function heightAt({ from: [x0, y0], to: [x1, y1] }, x) {
  const share = x1 === x0 ? 0 : Math.min(1, Math.max(0, (x - x0) / (x1 - x0)));
  return y0 + (y1 - y0) * share;
}

function spot(x, y, anchor, wide) {
  const left = x - wide * { start: 0, middle: 0.5, end: 1 }[anchor];
  const box = { x: left, y: y - LABEL + 3, right: left + wide, bottom: y + 3 };
  return { at: { x, y, anchor }, box };
}

const isInside = (box, { top, width, height }) =>
  box.x >= 0 && box.right <= width && box.y >= top && box.bottom <= height;

const meets = (box, others) => others.some((other) => box.x < other.right && other.x < box.right
  && box.y < other.bottom && other.y < box.bottom);

const thickOf = ({ kind }) => THICK[kind] ?? 1;

const crosses = (box, { lines, bars }) =>
  meets(box, bars) || lines.some((line) => passes(line, box, thickOf(line)));

/** Whether a straight line comes within `reach` of a box (Liang and Barsky's clipping). */
export function passes({ from: [x0, y0], to: [x1, y1] }, box, reach = 0) {
  const [dx, dy] = [x1 - x0, y1 - y0];
  let [enters, leaves] = [0, 1];
  for (const [step, room] of [
    [-dx, x0 - box.x + reach], [dx, box.right + reach - x0],
    [-dy, y0 - box.y + reach], [dy, box.bottom + reach - y0],
  ]) {
    if (step === 0 && room < 0) return false;
    if (step < 0) enters = Math.max(enters, room / step);
    if (step > 0) leaves = Math.min(leaves, room / step);
  }
  return enters <= leaves;
}
