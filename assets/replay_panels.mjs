// What stands beside the picture, in words: mailboxes, ready queues, iterations, control loops;
// and all events as a table.

import { fill, formatBytes, formatNs, grouped } from "./core.mjs";
import {
  CALL, EARLY, FLAG, FLIGHT, SERVE, STATES, TAKEN, WAITING, countStates, deadSent, endOf,
  isDeadAt, isThere, keyHas, keyText, machines, openKeys, queues, spanOf, turnStates, upTo,
} from "./replay_model.mjs";
import { nameOf, placeName, shortName, tell, tensorOf } from "./replay_words.mjs";

const MOST_KEYS = 40;
const MOST_READY = 6;
const MOST_TURNS = 6; // of a loop, the latest
const MOST_LOOPS = 4; // the outer one and the latest
const MOST_ROWS = 200; // of the table, on either side of now

/** An element with text or children; `attributes` are set as they are, `data-sel` among them. */
export function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

/** A token as it stands in the list: its colour is a class, so that themes change it. */
function token(iteration, isDead, isAwaited = false) {
  const number = iteration >= 0 ? String(iteration) : "";
  const ramp = `ramp-${(iteration < 0 ? 1 : iteration) % 4}`;
  const kind = isAwaited ? "void" : isDead ? "dead" : ramp;
  return make("span", { class: `token ${kind}`, "aria-hidden": "true" }, number);
}

const tagged = (name, iteration) => (iteration >= 0 ? `${name}·${iteration}` : name);

/** Everything beside the picture, for one frame. */
export function panels(replay, now, words, chosen) {
  const counts = countStates(now);
  return [
    ...mailboxes(replay, now, words, chosen, counts),
    ...readyQueues(replay, now, words),
    ...deadNote(replay, now, words),
    ...loops(replay, now, words),
  ];
}

function mailboxes(replay, now, words, chosen, counts) {
  const open = counts[EARLY] + counts[WAITING] + counts[FLIGHT];
  const note = fill(words.open_taken, { open: grouped(open), taken: grouped(counts[TAKEN]) });
  const rows = openKeys(replay, now);
  if (chosen?.row !== undefined && !rows.includes(chosen.row)) rows.unshift(chosen.row);
  const shown = rows.slice(0, MOST_KEYS).map((row) => mailbox(replay, now, words, row, chosen));
  const said = !replay.key.count ? words.no_keys : rows.length ? "" : words.no_open;
  const more = rows.length - shown.length;
  return [
    make("h2", {}, words.mailboxes, make("small", {}, note)),
    said ? make("p", { class: "hint" }, said) : make("div", { class: "mailboxes" }, ...shown),
    ...(more > 0 ? [make("p", { class: "hint" }, fill(words.more_rows, { count: more }))] : []),
  ];
}

function mailbox(replay, now, words, row, chosen) {
  const state = now.states[row];
  const end = endOf(replay, row);
  const name = tensorOf(replay, row);
  const mark = keyHas(replay, row, FLAG.CONTROL) ? " ^" : "";
  const to = isOfClient(replay, replay.key.recv[row]) ? words.client
    : placeName(replay, replay.key.to[row]);
  const slot = `tag tag-recv${state === WAITING ? "" : " vacant"}`;
  const button = make(
    "button",
    {
      type: "button", class: "mailbox", "data-sel": `key:${keyText(replay, row)}`,
      "data-state": STATES[state], "aria-pressed": String(chosen?.row === row),
    },
    token(replay.item.iteration[end], isDeadAt(replay, now, row), !isThere(state)),
    make("span", { class: "letter" }, make("b", { title: name }, shortName(name) + mark),
      make("span", {}, `→ ${to}`)),
    make("span", { class: slot, "aria-hidden": "true" }),
    make("span", { class: "state" }, ...stateOf(replay, now, words, row)
      .map((text, at) => make(at ? "small" : "span", {}, text))),
  );
  return button;
}

const isOfClient = ({ item }, end) => end >= 0 && (item.flags[end] & FLAG.CLIENT) !== 0;

/** A key in one line: what travels from where to where, and what is so with it. */
export function keyLine(replay, now, words, row) {
  const iteration = replay.item.iteration[endOf(replay, row)];
  const [from, to] = [replay.key.from[row], replay.key.to[row]]
    .map((place) => placeName(replay, place));
  const state = stateOf(replay, now, words, row).join(" · ");
  return `${tagged(tensorOf(replay, row), iteration)} · ${from} → ${to} · ${state}`;
}

/** In words: what is so; then that it is dead or deferred, since when, and how much. */
function stateOf(replay, now, words, row) {
  const { key, item } = replay;
  const state = STATES[now.states[row]];
  const isDead = isDeadAt(replay, now, row);
  const isDeferred = now.states[row] === WAITING && keyHas(replay, row, FLAG.DEFERRED);
  const since = {
    early: now.time - key.sent[row], waiting: now.time - key.asked[row],
    flight: now.time - key.met[row], taken: key.taken[row] - key.met[row],
    lost: key.lost[row] - key.asked[row],
  }[state];
  const bytes = key.recv[row] >= 0 ? item.bytes[key.recv[row]] : 0;
  const facts = [
    isDead ? words.dead : "", isDeferred ? words.deferred : "",
    since > 0 && since < Infinity ? formatNs(since) : "",
    state === "flight" && bytes ? formatBytes(bytes) : "",
  ];
  return [words.states[state] ?? "", facts.filter(Boolean).join(" · ")].filter(Boolean);
}

function readyQueues(replay, now, words) {
  const rows = queues(replay, now).map((queue) => make(
    "div", { class: "queue" }, make("b", {}, placeName(replay, queue.place)),
    make("span", {}, ...queueOf(replay, queue, words)),
  ));
  const body = rows.length ? rows : [make("p", { class: "hint" }, words.no_ops)];
  return [make("h2", {}, words.queues), ...body, ...calls(replay, now)];
}

function queueOf(replay, { running, ready, awaited }, words) {
  const { item } = replay;
  const chip = (kind) => (i) => make(
    "button",
    {
      type: "button", class: `op ${kind}`, title: nameOf(replay, i),
      "data-sel": `span:${spanOf(replay, i)}`,
    },
    tagged(shortName(nameOf(replay, i)), item.iteration[i]),
  );
  const chips = [
    ...running.slice(0, MOST_READY).map(chip("running")),
    ...ready.slice(0, MOST_READY).map(chip("ready")),
  ];
  const more = running.length + ready.length - chips.length;
  const rest = fill(words.more_ready, { count: more });
  if (more > 0) chips.push(make("span", { class: "hint" }, rest));
  if (chips.length) return chips;
  return [make("span", { class: "hint" }, idleText(replay, awaited, words))];
}

/** What a place waits for that runs nothing: how much, and the newest of it where that is one. */
export function idleText(replay, awaited, words) {
  const { item, key } = replay;
  if (!awaited.length) return words.idle;
  const latest = Math.max(...awaited.map((row) => key.asked[row]));
  const [newest, ...alike] = awaited.filter((row) => key.asked[row] === latest);
  const name = tagged(tensorOf(replay, newest), item.iteration[endOf(replay, newest)]);
  if (awaited.length === 1) return fill(words.idle_for, { name });
  const count = grouped(awaited.length);
  return fill(alike.length ? words.idle_for_many : words.idle_for_newest, { count, name });
}

/** Calls under way: who asks, of what. */
function calls(replay, now) {
  const asked = now.calls.filter((i) => replay.item.kind[i] === CALL);
  const served = now.calls.filter((i) => replay.item.kind[i] === SERVE);
  if (!asked.length && !served.length) return [];
  const count = new Map();
  for (const i of [...asked, ...served]) {
    const text = `${placeName(replay, replay.item.place[i])} ${nameOf(replay, i)}`;
    count.set(text, (count.get(text) ?? 0) + (replay.item.kind[i] === CALL ? 1 : 0));
  }
  const shown = [...count].filter(([, number]) => number)
    .map(([text, number]) => (number > 1 ? `${text} ×${number}` : text)).slice(0, MOST_READY);
  return shown.length ? [make("div", { class: "queue" }, make("b", {}, "RPC"),
    make("span", { class: "hint" }, shown.join(", ")))] : [];
}

function deadNote(replay, now, words) {
  const count = deadSent(replay, now);
  return count ? [make("div", { class: "note", role: "note" }, make("b", {}, words.dead_title),
    make("p", {}, fill(words.dead_says, { count: grouped(count) })))] : [];
}

function loops(replay, now, words) {
  const turns = turnStates(replay, now);
  const found = [];
  const shown = [...new Set(turns.map((turn) => turn.loop))];
  const latest = shown.length > MOST_LOOPS ? [shown[0], ...shown.slice(1 - MOST_LOOPS)] : shown;
  for (const loop of latest) {
    const own = turns.filter((turn) => turn.loop === loop);
    const { name, parallel } = replay.loops[loop];
    const title = fill(parallel ? words.loop_parallel : words.loop, { name, count: parallel });
    found.push(make("h2", {}, title));
    const hidden = own.length - MOST_TURNS;
    if (hidden > 0) {
      found.push(make("p", { class: "hint" }, fill(words.more_turns, { count: grouped(hidden) })));
    }
    for (const turn of own.slice(-MOST_TURNS)) found.push(turnRow(turn, words));
  }
  const loopsOf = machines(replay, now);
  if (!loopsOf.length) return found;
  const rows = loopsOf.map((one) => machine(replay, one, words));
  return [...found, make("h2", {}, words.machines), ...rows];
}

function turnRow(turn, words) {
  const said = turn.state === "running"
    ? fill(words.turn_running, { ops: turn.ops, tensors: turn.tensors })
    : turn.dead ? fill(words.turn_dead, { count: turn.dead }) : words.turn_done;
  return make("div", { class: "turn", "data-state": turn.state }, token(turn.iteration, false),
    make("span", {}, said));
}

/** The state machine of one control loop: in which iteration each of its nodes ran last. */
function machine(replay, { place, nodes }, words) {
  const steps = nodes.filter(Boolean).map(({ op, iteration, isDead, isNews }) => make(
    "span", { class: "machine-node", "data-news": isNews },
    iteration >= 0 ? token(iteration, isDead) : make("span", { class: "token void" }), op,
  ));
  return make("div", { class: "machine" }, make("b", {}, placeName(replay, place)),
    make("span", {}, ...(steps.length ? steps : [words.not_run])));
}

/** All events around an instant, a line each; `go(time)` is told which was chosen. */
export function eventTable(replay, now, words, { go, close }) {
  const { event } = replay;
  const at = upTo(event.time, now.time);
  const [from, to] = [Math.max(0, at - MOST_ROWS), Math.min(event.count, at + MOST_ROWS)];
  const caption = fill(words.table.caption, {
    from: grouped(from + 1), to: grouped(to), count: grouped(event.count),
  });
  const head = ["time", "task", "event"]
    .map((name) => make("th", { scope: "col" }, words.table[name]));
  const rows = [];
  for (let i = from; i < to; i += 1) rows.push(eventRow(replay, i, at, words, go));
  const kind = { type: "button", class: "button", "data-close": true };
  const button = make("button", kind, words.table.close);
  button.addEventListener("click", close);
  return [button, make("table", {}, make("caption", {}, caption),
    make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows))];
}

function eventRow(replay, i, at, words, go) {
  const { event, item } = replay;
  const pick = make("button", { type: "button", "data-event": i }, formatNs(event.time[i]));
  pick.addEventListener("click", () => go(event.time[i]));
  return make("tr", { "aria-current": i === at - 1 ? "step" : null }, make("td", {}, pick),
    make("td", {}, placeName(replay, item.place[event.item[i]])),
    make("td", {}, tell(replay, i, words)));
}
