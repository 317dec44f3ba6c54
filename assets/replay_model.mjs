// What the replay knows of a step: its items, keys and events, and the state at any instant.
// Pure, and a frame is a function of (replay, time) alone: what all events up to an instant, those
// of the instant itself among them, have left behind.
//
// A reply of /replay has three tables as columns. `item`: spans by start; `key`: a row for every
// key; `event`: by time. Times are ns from the start of the step, Infinity if they never come.

const ARRAYS = {
  float64: Float64Array, uint32: Uint32Array, uint16: Uint16Array, uint8: Uint8Array,
  int32: Int32Array,
};

export const [OP, SEND, RECV, CALL, SERVE, FRAME, TURN] = [0, 1, 2, 3, 4, 5, 6];
export const NO_LOOP = 0xffff;
const MACHINE = ["Enter", "Merge", "Switch", "NextIteration"]; // nodes of a control loop
const CONTROL_LOOP = "_cloop"; // what their names begin with
export const FLAG = { ERROR: 1, DEAD: 4, CONTROL: 16, DEFERRED: 128, CLIENT: 256 };

/** What is so with a key; the words for them are in the catalogue. */
export const STATES = ["none", "early", "waiting", "flight", "taken", "lost"];
export const [NONE, EARLY, WAITING, FLIGHT, TAKEN, LOST] = [0, 1, 2, 3, 4, 5];

/** The unit in which the viewer goes on: which events count. */
export const UNITS = {
  event: null,
  tensor: ["sent", "asked", "taken", "lost"],
  rpc: ["call", "answered", "serve", "served"],
  iteration: ["turn_begin", "turn_end", "frame_begin", "frame_end"],
};

// ---- reading ----

export function decode(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const replay = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  for (const { name, dtype, offset } of replay.columns) {
    const [table, column] = name.split(".");
    replay[table] ??= { count: replay.counts[table] };
    replay[table][column] = new ARRAYS[dtype](buffer, 4 + length + offset, replay.counts[table]);
  }
  return index(replay);
}

/** Looks up once what every frame needs. */
export function index(replay) {
  replay.instants = distinct(replay.event.time);
  replay.units = {};
  replay.keyOf = new Int32Array(replay.item.count).fill(-1);
  for (let row = 0; row < replay.key.count; row += 1) {
    for (const end of [replay.key.send[row], replay.key.recv[row]]) {
      if (end >= 0) replay.keyOf[end] = row;
    }
  }
  replay.turns = turnsOf(replay);
  replay.turnOfItem = turnOfItem(replay);
  const inner = innerLoops(replay.turns);
  replay.outerTurns = replay.turns.filter(({ loop }) => !inner.has(loop));
  replay.machines = machinesOf(replay);
  replay.isDead = Uint8Array.from(
    replay.key.key, (_, row) => (keyHas(replay, row, FLAG.DEAD) ? 1 : 0),
  );
  replay.opPlaces = placesOf(replay);
  return replay;
}

/** Where ops ran, or would have once a value had come. */
function placesOf({ item, key }) {
  const found = new Set();
  for (let i = 0; i < item.count; i += 1) if (item.kind[i] === OP) found.add(item.place[i]);
  for (let row = 0; row < key.count; row += 1) {
    const recv = key.recv[row];
    if (recv >= 0 && !(item.flags[recv] & FLAG.CLIENT)) found.add(item.place[recv]);
  }
  return [...found].sort((a, b) => a - b);
}

/** The control loops, one for each loop and device, with what their nodes ran, in order. */
function machinesOf({ item, names, ops }) {
  const nodes = names.map((name) => (name.startsWith(CONTROL_LOOP) ? name.split("/")[0] : null));
  const places = ops.map((op) => MACHINE.indexOf(op));
  const found = new Map();
  for (let i = 0; i < item.count; i += 1) {
    const name = nodes[item.name[i]];
    const at = places[item.op[i]];
    if (name === null || at < 0 || item.kind[i] !== OP) continue;
    const id = `${item.place[i]} ${name}`;
    if (!found.has(id)) {
      found.set(id, { id, name, place: item.place[i], runs: MACHINE.map(() => []) });
    }
    found.get(id).runs[at].push(i);
  }
  return [...found.values()];
}

function distinct(times) {
  const found = [];
  for (const time of times) if (time !== found.at(-1)) found.push(time);
  return Float64Array.from(found);
}

/** How many of the sorted values are at most `value`. */
export function upTo(values, value) {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Every iteration of every loop, over all devices that take part, by its begin. */
function turnsOf({ item }) {
  const turns = new Map();
  for (let i = 0; i < item.count; i += 1) {
    if (item.kind[i] !== TURN) continue;
    const id = `${item.loop[i]}:${item.iteration[i]}`;
    const turn = turns.get(id);
    if (turn) {
      turn.end = Math.max(turn.end, item.end[i]);
    } else {
      const { start, end, loop, iteration } = item;
      turns.set(id, {
        id, loop: loop[i], iteration: iteration[i], begin: start[i], end: end[i],
      });
    }
  }
  return [...turns.values()].sort((a, b) => a.begin - b.begin || a.iteration - b.iteration);
}

/** The place among the turns of what every item is part of, -1 outside loops. */
function turnOfItem({ item, turns }) {
  const at = new Map(turns.map(({ loop, iteration }, i) => [loop * 2 ** 32 + iteration, i]));
  return Int32Array.from(item.loop, (loop, i) => (
    loop === NO_LOOP ? -1 : at.get(loop * 2 ** 32 + item.iteration[i]) ?? -1
  ));
}

/** Loops that lie wholly in one turn of another loop; turns come by their begin. */
export function innerLoops(turns) {
  const extents = new Map();
  for (const { loop, begin, end } of turns) {
    const known = extents.get(loop) ?? [Infinity, -Infinity];
    extents.set(loop, [Math.min(known[0], begin), Math.max(known[1], end)]);
  }
  const found = new Set();
  let [at, longest] = [0, []];
  for (const [loop, [begin, end]] of [...extents].sort(([, a], [, b]) => a[0] - b[0])) {
    for (; turns[at]?.begin <= begin; at += 1) longest = lastTwo([...longest, turns[at]]);
    if (longest.some((turn) => turn.loop !== loop && turn.end >= end)) found.add(loop);
  }
  return found;
}

/** The turn that ends last, and the last one of any other loop. */
function lastTwo(turns) {
  const [first, ...others] = turns.sort((a, b) => b.end - a.end);
  return [first, ...others.filter(({ loop }) => loop !== first.loop).slice(0, 1)];
}

// ---- the state at an instant ----

/** What is so with the key of a row at an instant. */
export function keyState({ key }, row, time) {
  if (key.taken[row] <= time) return TAKEN;
  if (key.lost[row] <= time) return LOST;
  const isSent = key.sent[row] <= time;
  if (key.asked[row] <= time) return isSent ? FLIGHT : WAITING;
  return isSent ? EARLY : NONE;
}

/** The state at an instant: items that run and that are ready, calls under way, keys by state.
 *
 *  `begun` items have begun; `count` events have happened; `last` is when the latest did. */
export function frame(replay, time) {
  const { item, key, event } = replay;
  const begun = upTo(item.start, time);
  const found = {
    time, begun, count: upTo(event.time, time), running: [], ready: [], calls: [],
    states: new Uint8Array(key.count),
  };
  found.last = found.count ? event.time[found.count - 1] : -Infinity;
  for (let i = 0; i < begun; i += 1) {
    if (item.end[i] <= time) continue;
    const kind = item.kind[i];
    if (kind === OP) found.running.push(i);
    else if (kind === CALL || kind === SERVE) found.calls.push(i);
  }
  for (let i = begun; i < item.count; i += 1) {
    if (item.ready[i] <= time && item.kind[i] <= SEND) found.ready.push(i);
  }
  for (let row = 0; row < key.count; row += 1) found.states[row] = keyState(replay, row, time);
  return found;
}

/** How far the value of a key has come: 0 at its Send, 1 at its Recv; null where no value is. */
export function shareOf({ key }, row, { time, last, states }) {
  switch (states[row]) {
    case EARLY: return 0;
    case FLIGHT: {
      const length = key.taken[row] - key.met[row];
      return length > 0 && length < Infinity ? (time - key.met[row]) / length : 0;
    }
    case TAKEN: return key.taken[row] === last ? 1 : null; // as long as nothing else happens
    default: return null;
  }
}

/** Rows of keys that a value or a receiver is at, and those just taken. */
export function openKeys(replay, now) {
  const rows = [];
  for (let row = 0; row < replay.key.count; row += 1) {
    const state = now.states[row];
    const isNews = state === TAKEN && replay.key.taken[row] === now.last;
    if (state === EARLY || state === WAITING || state === FLIGHT || isNews) rows.push(row);
    if (state === LOST) rows.push(row);
  }
  return rows;
}

export const countStates = ({ states }) => {
  const counts = new Array(STATES.length).fill(0);
  for (const state of states) counts[state] += 1;
  return counts;
};

/** The end of a key that was recorded: its Send, else its Recv. */
export const endOf = ({ key }, row) => (key.send[row] >= 0 ? key.send[row] : key.recv[row]);

/** Whether the value of a key is dead, or only says that its source is done. */
export const keyHas = (replay, row, flag) =>
  [replay.key.send[row], replay.key.recv[row]]
    .some((end) => end >= 0 && (replay.item.flags[end] & flag) !== 0);

/** Whether there is a value: before that nobody knows whether it will be dead. */
export const isThere = (state) => state === TAKEN || state === FLIGHT || state === EARLY;

export const isDeadAt = (replay, now, row) =>
  isThere(now.states[row]) && keyHas(replay, row, FLAG.DEAD);

/** The wires over which the last value of every tensor was dead, given the wire of every row: they
 *  stay so, whatever became of the value. */
export function deadWires(replay, now, wireOf) {
  const { key, tensors, isDead } = replay;
  const last = new Map(); // wire → tensor → the row sent last
  for (let row = 0; row < key.count; row += 1) {
    if (wireOf[row] === undefined || !isThere(now.states[row])) continue;
    if (!last.has(wireOf[row])) last.set(wireOf[row], new Map());
    const own = last.get(wireOf[row]);
    const tensor = tensors[key.key[row]];
    const before = own.get(tensor);
    if (before === undefined || key.sent[before] <= key.sent[row]) own.set(tensor, row);
  }
  const isGone = (own) => [...own.values()].every((row) => isDead[row]);
  return new Set([...last.keys()].filter((wire) => isGone(last.get(wire))));
}

/** Running, ready and awaited by place, for all places that run ops, in the order of the header. */
export function queues(replay, now) {
  const { item, key } = replay;
  const found = new Map();
  const at = (place) => {
    if (!found.has(place)) found.set(place, { place, running: [], ready: [], awaited: [] });
    return found.get(place);
  };
  replay.opPlaces.forEach(at);
  for (const i of now.running) at(item.place[i]).running.push(i);
  for (const i of now.ready) at(item.place[i]).ready.push(i);
  for (let row = 0; row < key.count; row += 1) {
    const isAwaited = now.states[row] === WAITING && !keyHas(replay, row, FLAG.CLIENT);
    if (isAwaited && found.has(key.to[row])) at(key.to[row]).awaited.push(row);
  }
  return [...found.values()].sort((a, b) => a.place - b.place);
}

/** Begun turns with what is so with each: `state`, ops that run, tensors under way, the dead. */
export function turnStates(replay, now) {
  const { key, turns, turnOfItem } = replay;
  const [ops, tensors, dead] = [0, 1, 2].map(() => new Int32Array(turns.length));
  for (const i of now.running) if (turnOfItem[i] >= 0) ops[turnOfItem[i]] += 1;
  for (let row = 0; row < key.count; row += 1) {
    const turn = turnOfItem[endOf(replay, row)];
    if (turn < 0 || key.sent[row] > now.time) continue;
    if (now.states[row] < TAKEN) tensors[turn] += 1;
    dead[turn] += replay.isDead[row];
  }
  const found = [];
  for (let at = 0; at < turns.length && turns[at].begin <= now.time; at += 1) {
    const state = turns[at].end <= now.time ? "done" : "running";
    found.push({ ...turns[at], state, ops: ops[at], tensors: tensors[at], dead: dead[at] });
  }
  return found;
}

/** How many dead values were sent so far. */
export function deadSent({ key, isDead }, { time }) {
  let count = 0;
  for (let row = 0; row < key.count; row += 1) count += isDead[row] && key.sent[row] <= time;
  return count;
}

/** The control loops: the iteration that each of their nodes ran last, of those that ran. */
export function machines({ item, machines: known }, now) {
  const of = (runs, at) => {
    const i = runs[upTo(runs, now.begun - 1) - 1];
    return i === undefined ? null : {
      op: MACHINE[at], iteration: item.iteration[i], item: i,
      isDead: (item.flags[i] & FLAG.DEAD) !== 0, isNews: item.end[i] >= now.last,
    };
  };
  return known.filter(({ runs }) => runs.some(([first]) => first < now.begun))
    .map(({ id, name, place, runs }) => ({ id, name, place, nodes: runs.map(of) }));
}

// ---- going on ----

/** The instants at which something of a unit happens, in order. */
export function instantsOf(replay, unit) {
  const wanted = UNITS[unit]?.map((name) => replay.events.indexOf(name));
  if (!wanted) return replay.instants;
  replay.units[unit] ??= distinct(
    replay.event.time.filter((_, at) => wanted.includes(replay.event.what[at])),
  );
  return replay.units[unit];
}

/** The next or previous instant of a unit; the step's ends beyond the last. */
export function stepFrom(replay, time, way, unit) {
  const instants = instantsOf(replay, unit);
  if (way > 0) return instants[upTo(instants, time)] ?? endOfReplay(replay);
  let at = upTo(instants, time) - 1;
  if (instants[at] === time) at -= 1;
  return instants[at] ?? 0;
}

/** When the first op runs: before that the picture shows next to nothing. */
export function firstRun({ item, instants }) {
  const starts = item.start.filter((_, i) => item.kind[i] === OP);
  return starts[0] ?? instants[0] ?? 0; // items come by their start
}

/** The last instant there is: the step's end, or that of what outlives it. */
export const endOfReplay = ({ end, instants }) => Math.max(end, instants.at(-1) ?? 0);

/** A place between instants, 0 … their number, as time, and back: played at an even pace. */
export function timeAt({ instants }, position) {
  const at = Math.min(instants.length - 1, Math.max(0, Math.floor(position)));
  const next = instants[Math.min(instants.length - 1, at + 1)];
  return instants[at] + (next - instants[at]) * Math.min(1, Math.max(0, position - at));
}

export function positionOf({ instants }, time) {
  const at = upTo(instants, time) - 1;
  if (at < 0) return 0;
  const length = (instants[at + 1] ?? Infinity) - instants[at];
  return at + (length < Infinity ? (time - instants[at]) / length : 0);
}

// ---- selection ----

/** The id of an item's span as 16 hex digits. */
export function spanOf({ item }, i) {
  const hex = (n) => n.toString(16).padStart(8, "0");
  return hex(item.span_hi[i]) + hex(item.span_lo[i]);
}

export const keyText = ({ key, keys }, row) => keys[key.key[row]];

/** What a selection of the page means here: {item}, {row} of a key, {name} of nodes, or null; of a
 *  stall what was awaited, and what ran next as `then`. */
export function find(replay, selection) {
  if (!selection) return null;
  const { type, id } = selection;
  if (type === "stall") {
    const [first, then] = id.split(",").map((span) => find(replay, { type: "span", id: span }))
      .filter(Boolean);
    return then ? { ...first, then } : first ?? null;
  }
  if (type === "span" || type === "rpc") {
    for (let i = 0; i < replay.item.count; i += 1) {
      if (spanOf(replay, i) === id) return replay.keyOf[i] < 0 ? { item: i } : rowOf(replay, i);
    }
    return null;
  }
  if (type === "key") {
    const code = replay.keys.indexOf(id);
    const row = code < 0 ? -1 : replay.key.key.indexOf(code);
    return row < 0 ? null : { row };
  }
  const wanted = type === "edge" ? id.split("→") : [id];
  const codes = wanted.map((name) => replay.names.indexOf(name)).filter((code) => code >= 0);
  const item = replay.item.name.findIndex((code) => codes.includes(code));
  if (item < 0) return null;
  return type === "edge" && replay.keyOf[item] >= 0 ? rowOf(replay, item) : { item, name: id };
}

const rowOf = (replay, item) => ({ row: replay.keyOf[item], item });

/** When a found thing begins. */
export function beginOf({ item, key }, { item: i, row }) {
  if (row === undefined) return item.start[i];
  return Math.min(key.sent[row], key.asked[row]);
}
