// The instant that a replay stands at, and how it goes on: to an instant, by a unit, or playing.
// The instant is in the address as `at`, ns from the start of the step, so that a link opens it.

import { animate, reducedMotion } from "./core.mjs";
import { isFollowing, setFollow } from "./live.mjs";
import {
  beginOf, endOfReplay, firstRun, frame, openKeys, positionOf, shareOf, stepFrom, timeAt,
} from "./replay_model.mjs";
import { amend } from "./selection.mjs";

const TOKEN_MS = 180; // for a wire, when the viewer steps
const PACE = 5; // instants a second
const LONGEST_S = 60; // that playing a step takes
const ADDRESS_MS = 250; // browsers refuse an address that changes more often

export class Player {
  /** `shown(isAtOnce)` is called for every new frame, `moved()` while tokens go on to one. */
  constructor({ shown, moved }) {
    Object.assign(this, { shown, moved });
    this.replay = this.now = null;
    this.time = 0;
    this.speed = 1;
    this.shares = new Map();
    this.isPlaying = false;
  }

  /** A replay has come: of another step, or more of the one that is shown; the view stays at its
   *  end if it was there. Of another step it opens where the address says, at what is `found`
   *  to be selected, at the end of a run that is followed, else where its first op runs. */
  take(replay, found) {
    const before = this.replay;
    const isSame = before?.step === replay.step && before?.task === replay.task;
    const wasAtEnd = isSame && this.time >= endOfReplay(before);
    this.replay = replay;
    if (isSame) {
      this.seek(wasAtEnd ? endOfReplay(replay) : this.time);
      return;
    }
    this.pause();
    const at = before ? null : readAt(location.search);
    if (at !== null) this.seek(at);
    else if (found) this.seek(beginOf(replay, found));
    else this.seek(isFollowing() ? endOfReplay(replay) : firstRun(replay));
  }

  /** Before anything happened. */
  get start() {
    const first = this.replay.instants[0] ?? 0;
    return first > 0 ? 0 : first - 1;
  }

  get end() {
    return endOfReplay(this.replay);
  }

  /** Where each token is on its wire, by row of its key. */
  #findShares() {
    this.shares = new Map();
    for (const row of openKeys(this.replay, this.now)) {
      const share = shareOf(this.replay, row, this.now);
      if (share !== null) this.shares.set(row, share);
    }
  }

  /** The state at an instant, everywhere at once. */
  seek(time) {
    this.time = Math.min(this.end, Math.max(this.start, time));
    const begun = performance.now();
    this.now = frame(this.replay, this.time);
    this.#findShares();
    this.frameMs = performance.now() - begun;
    this.shown(!this.isPlaying);
    this.#writeAt();
  }

  /** The viewer goes to an instant: what plays, stops, and the newest step is not followed. */
  scrub(time) {
    this.pause();
    this.stopTokens?.();
    this.seek(time);
    if (this.time < this.end) setFollow(false);
  }

  goHome() { this.scrub(this.start); }

  goEnd() { this.scrub(this.end); }

  skip(share) { this.scrub(this.time + share * this.end); }

  /** To the next or previous event of a unit; tokens move there along their wires. */
  step(way, unit) {
    const before = this.shares;
    this.scrub(stepFrom(this.replay, this.time, way, unit));
    const after = new Map(this.shares);
    this.stopTokens = animate(TOKEN_MS / this.speed, (share) => {
      for (const [row, end] of after) {
        const begin = before.get(row) ?? (way > 0 ? 0 : end);
        this.shares.set(row, begin + (end - begin) * share);
      }
      this.moved();
    });
  }

  toggle() {
    if (this.isPlaying) this.pause();
    else this.play();
  }

  /** At an even pace from event to event: most of a step's time nothing happens. */
  play() {
    if (this.time >= this.end) this.seek(this.start);
    this.stopTokens?.();
    this.isPlaying = true;
    const isBefore = this.time < (this.replay.instants[0] ?? 0);
    this.position = isBefore ? -1 : positionOf(this.replay, this.time);
    this.playedAt = performance.now();
    this.frameId = requestAnimationFrame((now) => this.#tick(now));
    this.shown(true);
  }

  pause() {
    if (!this.isPlaying) return;
    this.isPlaying = false;
    cancelAnimationFrame(this.frameId);
    this.seek(this.time);
  }

  #tick(now) {
    const last = this.replay.instants.length - 1;
    const pace = Math.max(PACE, last / LONGEST_S) * this.speed;
    this.position += (pace * Math.max(0, now - this.playedAt)) / 1000;
    this.playedAt = now;
    if (this.position >= last) {
      this.isPlaying = false;
      this.seek(this.end);
      return;
    }
    const at = reducedMotion() ? Math.floor(this.position) : this.position;
    if (at >= 0) this.seek(timeAt(this.replay, at));
    this.frameId = requestAnimationFrame((next) => this.#tick(next));
  }

  // ---- address ----

  #writeAt() {
    clearTimeout(this.addressTimer);
    if (this.isPlaying) return;
    this.addressTimer = setTimeout(() => {
      const search = amend(location.search, { at: String(Math.round(this.time)) });
      if (search === location.search) return;
      history.replaceState(history.state, "", location.pathname + search + location.hash);
    }, ADDRESS_MS);
  }

  /** Back and Forward. */
  followAddress() {
    const at = readAt(location.search);
    if (at !== null && this.replay && at !== Math.round(this.time)) this.scrub(at);
  }

  stop() {
    clearTimeout(this.addressTimer);
    cancelAnimationFrame(this.frameId);
    this.stopTokens?.();
  }
}

function readAt(search) {
  const at = Number.parseFloat(new URLSearchParams(search).get("at") ?? "");
  return Number.isNaN(at) ? null : at;
}
