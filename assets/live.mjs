// A run that goes on: its events, told to the canvases as they come and to Dash as fast as it can
// draw them; and whether the newest step is kept in view. The Library has a stream of its own.
import { equal, parse, prefix, visit } from "./selection.mjs";

const LEAST_MS = 1000; // between two states that Dash is told
const MOST_MS = 8000; // after which it is told the next one whatever it shows
const AGAIN_MS = 200;
const FILL_MS = { main: 1000, rail: 8000 }; // between two tries, as the first may be too early
const RETRY_MS = [1000, 30_000]; // after a refused stream: at first, and at most

let source = null;
let address = "";
let isDone = false; // what this address shows will not change any more
let timer = 0;
let retryTimer = 0;
let refused = 0; // times in a row
let seen = 0; // states told to Dash
let toldAt = 0;
let shown = null; // what was told last
const filled = {};
const fillTimers = {};
const follow = { isOn: false, step: null };

/** What stream an address has: its path below the prefix, "" for none. */
export function streamOf(path) {
  if (path === "") return "api/library/live";
  const id = /^t\/([0-9a-f]{16})\//.exec(path)?.[1];
  return id ? `api/traces/${id}/live` : "";
}

/** Whether a view that shows these things is at the end of the run, so that it may follow. */
export const isAtEnd = (query) => !query.sel && query.step === null && query.t0 === null;

const queryNow = () => ({
  ...parse(location.search), t0: new URLSearchParams(location.search).get("t0"),
});

const tell = (name, data) => window.dash_clientside.set_props(name, { data });

export const isFollowing = () => follow.isOn;

export function setFollow(isOn) {
  if (follow.isOn === isOn) return;
  follow.isOn = isOn;
  follow.step = null;
  tell("follow", isOn);
  document.getElementById("follow-run")?.setAttribute("aria-pressed", String(isOn));
  if (isOn && shown) goOn(shown);
}

/** The switch in the header: what was selected or looked at gives way to the newest step. */
export function toggleFollow() {
  if (!follow.isOn) visit({ sel: null, t0: null, t1: null });
  setFollow(!follow.isOn);
  if (follow.isOn && shown) dispatchEvent(new CustomEvent("live", { detail: shown }));
}

/** The newest step into the address; Back does not stop at every one of them. */
function goOn({ step }) {
  if (!follow.isOn || !step || step === follow.step) return;
  follow.step = step;
  visit({ step }, { replace: true });
}

/** Whoever chooses another step or a thing stays with it. */
function onAddress() {
  const now = queryNow();
  if (follow.isOn && follow.step !== null && (now.sel || now.step !== follow.step)) {
    setFollow(false);
  }
}

function onState(state, isOver) {
  const isFirst = shown === null;
  shown = state;
  if (isFirst && state.outcome === "running") setFollow(isAtEnd(queryNow()));
  dispatchEvent(new CustomEvent("live", { detail: state }));
  clearTimeout(timer);
  if (isFirst && isOver) return; // it was over when the page came
  fillBare(state);
  publish(isOver);
}

/** A place that had nothing to show yet is made anew when there is; it says what it waits for. What
 *  comes too soon after the last try is tried later: it may be the last thing that comes. */
function fillBare(state) {
  for (const [place, everyMs] of Object.entries(FILL_MS)) {
    clearTimeout(fillTimers[place]);
    const waits = document.querySelector(`#${place} [data-bare]`)?.dataset.bare;
    if (!waits || !state?.[waits]) continue;
    const now = performance.now();
    const turn = `${location.pathname} ${Math.floor(now / everyMs)}`;
    if (filled[place] === turn) {
      fillTimers[place] = setTimeout(() => fillBare(shown), everyMs - (now % everyMs) + 1);
      continue;
    }
    filled[place] = turn;
    tell(`filled-${place}`, turn);
  }
}

/** Tells Dash once it shows what it was told before. */
function publish(isOver) {
  const age = performance.now() - toldAt;
  const isShown = document.querySelector("[data-seen]")?.dataset.seen === String(seen);
  if (!isOver && (age < LEAST_MS || (!isShown && age < MOST_MS))) {
    timer = setTimeout(() => publish(isOver), AGAIN_MS);
    return;
  }
  seen += 1;
  toldAt = performance.now();
  if (shown) goOn(shown);
  tell("live", { seen, over: isOver });
  if (isOver) setFollow(false);
}

function close() {
  source?.close();
  source = null;
  clearTimeout(timer);
  clearTimeout(retryTimer);
}

function end() {
  isDone = true;
  close();
}

/** A line that broke is taken up by the browser itself, a stream that was refused is not. */
function onError() {
  if (source?.readyState !== EventSource.CLOSED) return;
  source = null;
  const [least, most] = RETRY_MS;
  retryTimer = setTimeout(open, Math.min(most, least * 2 ** refused));
  refused += 1;
}

function open() {
  const path = streamOf(location.pathname.slice(prefix().length));
  if (path === address && (source || isDone)) return;
  const isSame = path === address;
  close();
  address = path;
  if (!isSame) {
    if (seen) tell("live", null);
    [shown, toldAt, seen, refused, isDone] = [null, 0, 0, 0, false];
    setFollow(false);
  }
  const isLost = document.querySelector("main .alone:not([data-bare])"); // no such run
  if (!path || isLost || document.hidden) return;
  source = new EventSource(prefix() + path);
  let last = null;
  source.onerror = onError;
  source.onmessage = ({ data }) => {
    const state = JSON.parse(data);
    refused = 0;
    if (equal(state, last)) return;
    last = state;
    onState(state, false);
    if (state.outcome === "") end(); // a foreign file: nobody knows whether it goes on
  };
  source.addEventListener("end", ({ data }) => {
    end();
    onState(JSON.parse(data), true);
  });
}

/** Called for every page that is shown; a hidden tab gives its connection to others. */
export function listen() {
  open();
}

export function startLive() {
  addEventListener("_dashprivate_pushstate", onAddress);
  addEventListener("popstate", onAddress);
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
}
