// What happens at an instant, in one sentence; pure. `words` are those of the catalogue.

import { fill, formatBytes, formatNs, grouped } from "./core.mjs";
import { FLAG, NO_LOOP, endOf, keyHas, upTo } from "./replay_model.mjs";

/** What tells most, if several things happen at one instant. */
const WORTH = [
  "failed", "lost", "taken", "sent", "asked", "dead", "start", "end", "turn_begin", "turn_end",
  "frame_begin", "frame_end", "ready", "call", "serve", "served", "answered",
];

/** "worker:0", or "worker:0 GPU:1" where a task has several devices. */
export function placeName({ places }, place) {
  const { task, device } = places[place];
  const isAlone = places.filter((one) => one.task === task && one.device).length < 2;
  return isAlone || !device ? task : `${task} ${device}`;
}

/** Events [from, to) that are those of the last instant up to `time`. */
export function instantAt({ event }, time) {
  const to = upTo(event.time, time);
  let from = to;
  while (from > 0 && event.time[from - 1] === event.time[to - 1]) from -= 1;
  return [from, to];
}

/** What happens now: the event that tells most, and how many others there are. */
export function sentence(replay, time, words) {
  const [from, to] = instantAt(replay, time);
  if (from === to) return opening(replay, words);
  const { event } = replay;
  const worth = (at) => WORTH.indexOf(replay.events[event.what[at]]);
  const all = Array.from({ length: to - from }, (_, i) => from + i);
  const best = all.reduce((a, b) => (worth(b) < worth(a) ? b : a));
  const starts = startedWith(replay, best, all);
  const rest = all.length - 1 - (starts === null ? 0 : 1);
  const said = starts === null ? tell(replay, best, words)
    : tell(replay, best, words, "taken_start", { op: nameOf(replay, starts) });
  return rest > 0 ? said + words.others.replace("{count}", grouped(rest)) : said;
}

function opening({ end, event }, words) {
  return words.opening.replace("{count}", grouped(event.count)).replace("{time}", formatNs(end));
}

/** The op that starts where a value is taken, at the same instant. */
function startedWith(replay, best, all) {
  const { event, item, key, keyOf, events } = replay;
  if (events[event.what[best]] !== "taken") return null;
  const place = key.to[keyOf[event.item[best]]];
  const found = all.find((at) => events[event.what[at]] === "start"
    && item.place[event.item[at]] === place);
  return found === undefined ? null : event.item[found];
}

export const nameOf = ({ item, names }, i) => names[item.name[i]];
export const tensorOf = ({ key, tensors }, row) => tensors[key.key[row]];

/** The end of a name, which tells it from its neighbours. */
export const shortName = (name) => name.split("/").slice(-2).join("/");

/** The sentence of one event. */
export function tell(replay, at, words, form = "", more = {}) {
  const { event, events, keyOf, item } = replay;
  const i = event.item[at];
  const name = events[event.what[at]];
  const row = ["sent", "asked", "taken", "lost"].includes(name) ? keyOf[i] : -1;
  const values = row < 0 ? valuesOfItem(replay, i) : valuesOfKey(replay, row, event.time[at]);
  const text = words.events[form || formOf(replay, name, row, i)];
  const said = fill(text, { ...values, ...more });
  return item.loop[i] === NO_LOOP || item.iteration[i] < 0 || name.startsWith("turn")
    ? said : said + words.in_iteration.replace("{iteration}", item.iteration[i]);
}

/** Which of its sentences an event has. */
function formOf(replay, name, row, i) {
  if (row >= 0) return keyForm(replay, name, row);
  return name === "end" && replay.item.end[i] === replay.item.start[i] ? "end_at_once" : name;
}

function keyForm(replay, name, row) {
  const { key } = replay;
  if (name === "sent") {
    if (keyHas(replay, row, FLAG.DEAD)) return "sent_dead";
    return key.asked[row] <= key.sent[row] ? "sent_awaited" : "sent";
  }
  if (name === "asked" && keyHas(replay, row, FLAG.DEFERRED)) return "asked_deferred";
  if (name === "asked") return key.sent[row] <= key.asked[row] ? "asked_late" : "asked";
  if (name !== "taken") return name;
  if (keyHas(replay, row, FLAG.DEAD)) return "taken_dead";
  return keyHas(replay, row, FLAG.CONTROL) ? "taken_control" : name;
}

function valuesOfItem(replay, i) {
  const { item, loops } = replay;
  return {
    place: placeName(replay, item.place[i]), name: nameOf(replay, i),
    time: formatNs(item.end[i] - item.start[i]), iteration: item.iteration[i],
    loop: item.loop[i] === NO_LOOP ? "" : loops[item.loop[i]].name,
  };
}

function valuesOfKey(replay, row, now) {
  const { key, item } = replay;
  const recv = key.recv[row];
  return {
    name: tensorOf(replay, row), from: placeName(replay, key.from[row]),
    to: placeName(replay, key.to[row]),
    bytes: formatBytes(item.bytes[recv >= 0 ? recv : endOf(replay, row)]),
    waited: formatNs(now - key.asked[row]), lay: formatNs(now - key.sent[row]),
    way: formatNs(now - key.met[row]),
  };
}
