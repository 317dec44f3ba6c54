// The replay: the graph of a step with its tensors under way, at one instant. Inputs are those of
// the graph canvas; the instant stands in the address as `at`, ns from the start of the step.

import { animate, expose, mount, publishSelection, reducedMotion } from "./core.mjs";
import { GraphView } from "./graph.mjs";
import { isFollowing } from "./live.mjs";
import { drawReplay, tileStates } from "./replay_draw.mjs";
import {
  beginOf, decode, endOfReplay, find, frame, keyText, openKeys, positionOf, shareOf,
  stepFrom, timeAt,
} from "./replay_model.mjs";
import { ReplayHands } from "./replay_hands.mjs";
import { eventTable, make, panels } from "./replay_panels.mjs";
import { replayProbe } from "./replay_probe.mjs";
import { Transport } from "./replay_transport.mjs";
import { amend } from "./selection.mjs";
import { textures } from "./shapes.mjs";
import { sourceOf } from "./sources.mjs";

const LEAST_ZOOM = 0.5;
const TOKEN_MS = 180; // for a wire, when the viewer steps
const PACE = 5; // instants a second
const LONGEST_S = 60; // that playing a step takes
const PANEL_MS = 90; // between two states of the lists while it plays
const ADDRESS_MS = 250; // browsers refuse an address that changes more often
const LIVE_MS = 1000; // between two questions while the run goes on

export class ReplayView extends GraphView {
  constructor(host) {
    super(host);
    this.time = 0;
    this.spots = [];
    this.hands.stop();
    this.hands.tip.remove();
    this.hands = new ReplayHands(this);
    this.facts = document.getElementById("replay-facts");
    this.table = make("section", { class: "timeline-table", hidden: true, tabindex: "-1" });
    host.append(this.table);
    this.transport = new Transport(this);
    const live = ({ detail }) => this.grow(detail);
    addEventListener("live", live);
    this.stops.push(() => this.transport.stop(), () => this.pause(),
      () => removeEventListener("live", live), () => this.replayRequest?.abort());
    expose(replayProbe(this));
  }

  // ---- inputs ----

  update(data) {
    super.update(data);
    if (data.step === undefined) return;
    if (askedBy(data) !== this.replayAsked) this.fetchReplay(data);
  }

  async fetchReplay(data) {
    const { trace, step, task } = data;
    const asked = askedBy(data);
    this.replayAsked = asked;
    this.replayRequest?.abort();
    this.replayRequest = new AbortController();
    if (!this.replay) this.host.dataset.replay = "loading";
    const query = Object.fromEntries(Object.entries({ step, task }).filter(([, value]) => value));
    try {
      const found = await sourceOf(trace).replay(query, this.replayRequest.signal);
      if (asked === this.replayAsked) this.take(decode(found));
    } catch (error) {
      if (error.name === "AbortError") return;
      this.replayAsked = null;
      this.say(this.words.failed.replace("{reason}", error.message));
      this.host.dataset.replay = "error";
    }
  }

  /** A replay has come: of another step, or more of the one that is shown. */
  take(replay) {
    const before = this.replay;
    const isSame = before && before.step === replay.step && before.task === replay.task;
    const wasAtEnd = isSame && this.time >= endOfReplay(before);
    this.isSettled = isSame && replay.isWhole && replay.item.count === before.item.count;
    this.replay = replay;
    this.bind();
    this.transport.renew();
    this.host.dataset.replay = "ready";
    if (isSame) this.seek(wasAtEnd ? endOfReplay(replay) : this.time);
    else this.open(before);
  }

  /** Where a step opens: where the address says, at what is selected, at the end of a run that is
   *  followed, else before its first event. */
  open(before) {
    this.pause();
    const at = before ? null : readAt(location.search);
    const found = find(this.replay, this.state.sel);
    this.chosen = found;
    if (at !== null) this.seek(at);
    else if (found) this.seek(beginOf(this.replay, found));
    else this.seek(isFollowing() ? endOfReplay(this.replay) : this.start);
  }

  /** Before anything happened. */
  get start() {
    const first = this.replay.instants[0] ?? 0;
    return first > 0 ? 0 : first - 1;
  }

  /** Another stage of the graph has come; its tiles and wires are where tokens go. */
  show(payload) {
    super.show(payload);
    this.bind();
  }

  bind() {
    if (!this.model || !this.replay) return;
    const { item, key, names, places } = this.replay;
    const nodes = new Map();
    for (const { id, box, device, tile } of this.model.payload.nodes) {
      const name = id.split(" @ ")[0];
      nodes.set(`${name}\n${box}\n${device}`, tile);
      if (!nodes.has(name)) nodes.set(name, tile);
    }
    const known = new Map();
    const tileAt = (i) => {
      const code = item.name[i] * 65536 + item.place[i];
      if (!known.has(code)) {
        const name = names[item.name[i]];
        const { task, device } = places[item.place[i]];
        known.set(code, nodes.get(`${name}\n${task}\n${device}`) ?? nodes.get(name));
      }
      return known.get(code);
    };
    this.tileOf = Array.from(item.kind, (kind, i) => (kind ? undefined : tileAt(i)));
    const wires = new Map();
    for (const wire of this.model.payload.wires) {
      for (const part of wire.parts) {
        for (const [end, box] of [[part.send, wire.from], [part.recv, wire.to]]) {
          if (end) wires.set(`${end.split(" @ ")[0]}\n${box}`, wire.id);
        }
      }
    }
    const wireAt = (i) => (i < 0 ? undefined
      : wires.get(`${names[item.name[i]]}\n${places[item.place[i]].task}`));
    this.wireOf = Array.from({ length: key.count },
      (_, row) => wireAt(key.send[row]) ?? wireAt(key.recv[row]));
    if (this.now) this.seek(this.time);
  }

  /** What is selected is ringed, and nothing else is dimmed: the action is in the others too. */
  select() {
    super.select();
    this.lit = null;
    if (!this.replay) return;
    const before = this.chosen;
    this.chosen = find(this.replay, this.state.sel);
    const isNews = JSON.stringify(before) !== JSON.stringify(this.chosen);
    const isOwn = JSON.stringify(this.state.sel) === JSON.stringify(this.published);
    if (this.chosen && isNews && !isOwn) this.scrub(beginOf(this.replay, this.chosen));
    else if (this.now) this.showPanels(true);
  }

  // ---- time ----

  /** The state at an instant, everywhere at once. */
  seek(time) {
    this.time = Math.min(endOfReplay(this.replay), Math.max(this.start, time));
    const begun = performance.now();
    this.now = frame(this.replay, this.time);
    this.shares = new Map();
    for (const row of openKeys(this.replay, this.now)) {
      const share = shareOf(this.replay, row, this.now);
      if (share !== null) this.shares.set(row, share);
    }
    if (this.tileOf) this.tileStates = tileStates(this.replay, this.now, this.tileOf);
    this.frameMs = performance.now() - begun;
    this.transport.show();
    this.showPanels(!this.isPlaying);
    this.repaint();
    this.writeAt();
  }

  /** The viewer goes to an instant: what plays, stops. */
  scrub(time) {
    this.pause();
    this.stopTokens?.();
    this.seek(time);
  }

  goHome() { this.scrub(this.start); }

  goEnd() { this.scrub(endOfReplay(this.replay)); }

  skip(share) { this.scrub(this.time + share * endOfReplay(this.replay)); }

  /** To the next or previous event of a unit; tokens move there along their wires. */
  step(way, unit) {
    if (!this.replay) return;
    const before = this.shares;
    this.scrub(stepFrom(this.replay, this.time, way, unit));
    const after = new Map(this.shares);
    this.stopTokens = animate(TOKEN_MS / this.transport.speed, (share) => {
      for (const [row, end] of after) {
        const begin = before.get(row) ?? (way > 0 ? 0 : end);
        this.shares.set(row, begin + (end - begin) * share);
      }
      this.repaint();
    });
  }

  togglePlay() {
    if (this.isPlaying) this.pause();
    else this.play();
  }

  /** At an even pace from event to event: most of a step's time nothing happens. */
  play() {
    if (!this.replay) return;
    if (this.time >= endOfReplay(this.replay)) this.seek(this.start);
    this.stopTokens?.();
    this.isPlaying = true;
    const isBefore = this.time < (this.replay.instants[0] ?? 0);
    this.position = isBefore ? -1 : positionOf(this.replay, this.time);
    this.playedAt = performance.now();
    this.playFrame = requestAnimationFrame((now) => this.tick(now));
    this.transport.showPlay(true);
  }

  pause() {
    if (!this.isPlaying) return;
    this.isPlaying = false;
    cancelAnimationFrame(this.playFrame);
    this.seek(this.time);
  }

  tick(now) {
    const { instants } = this.replay;
    const pace = Math.max(PACE, instants.length / LONGEST_S) * this.transport.speed;
    this.position += (pace * Math.max(0, now - this.playedAt)) / 1000;
    this.playedAt = now;
    const at = reducedMotion() ? Math.floor(this.position) : this.position;
    if (this.position >= instants.length - 1) {
      this.isPlaying = false;
      this.seek(endOfReplay(this.replay));
      return;
    }
    if (at >= 0) this.seek(timeAt(this.replay, at));
    this.playFrame = requestAnimationFrame((next) => this.tick(next));
  }

  /** A run that goes on: what came since is asked for, until nothing of the step is missing. */
  grow({ spans, outcome }) {
    const isOver = this.isSettled || (this.replay?.isWhole && outcome !== "running");
    if (!this.replay || isOver || spans === this.spansSeen || this.growTimer) return;
    this.growTimer = setTimeout(() => {
      this.growTimer = 0;
      this.spansSeen = spans;
      this.fetchReplay(this.host.dataset);
    }, LIVE_MS);
  }

  // ---- address ----

  writeAt() {
    clearTimeout(this.addressTimer);
    if (this.isPlaying) return;
    this.addressTimer = setTimeout(() => {
      const search = amend(location.search, { at: String(Math.round(this.time)) });
      if (this.host.isConnected && search !== location.search) {
        history.replaceState(history.state, "", location.pathname + search + location.hash);
      }
    }, ADDRESS_MS);
  }

  followAddress() {
    super.followAddress();
    const at = readAt(location.search);
    if (at !== null && this.replay && at !== Math.round(this.time)) this.scrub(at);
  }

  destroy() {
    clearTimeout(this.addressTimer);
    clearTimeout(this.growTimer);
    super.destroy();
  }

  // ---- picture ----

  /** The whole graph, as long as its signs are seen. */
  fit() {
    super.fit(true);
    if (this.zoom < LEAST_ZOOM) super.fit();
  }

  scene() {
    return { ...super.scene(), found: null, lit: null };
  }

  draw(ctx, width, height) {
    if (!this.model) return;
    const key = this.baseKey(width, height);
    if (key !== this.drawnKey) this.drawBase(width, height, this.surface?.ratio ?? 1);
    this.drawnKey = this.morph ? null : key;
    ctx.drawImage(this.base, 0, 0, width, height);
    if (!this.now || this.over || !this.tileStates) return;
    const begun = performance.now();
    this.textures ??= textures(ctx, this.theme);
    this.spots = drawReplay(ctx, {
      ...this.scene(), replay: this.replay, now: this.now, tileStates: this.tileStates,
      wireOf: this.wireOf, shares: this.shares, textures: this.textures, chosen: this.chosen,
    });
    this.drawRing(ctx);
    this.overlayMs = performance.now() - begun;
  }

  /** The graph itself changes only where the viewer moves it. */
  drawBase(width, height, ratio) {
    this.base ??= document.createElement("canvas");
    this.base.width = Math.round(width * ratio);
    this.base.height = Math.round(height * ratio);
    const ctx = this.base.getContext("2d");
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    super.draw(ctx, width, height);
    this.textures = null; // the theme may be another
  }

  baseKey(width, height) {
    const { port, theme, hover, focus, state } = this;
    this.modelCount = this.model === this.modelSeen ? this.modelCount : (this.modelCount ?? 0) + 1;
    this.modelSeen = this.model;
    return JSON.stringify([width, height, port, theme.bg, theme.ink, hover, focus, state.box,
      this.overShift, this.modelCount, this.surface?.ratio]);
  }

  /** The ring of the selection round a tile, as the graph draws it. */
  drawRing(ctx) {
    const id = this.found?.tile ?? this.tileOf[this.chosen?.item];
    const tile = this.model.tiles.get(id);
    if (!tile) return;
    const [x, y] = this.port.toScreen(tile.x, tile.y);
    const half = 17 * this.zoom + 3.5;
    for (const [style, width] of [[this.theme.outline, 6], [this.theme.mark, 3.4]]) {
      ctx.beginPath();
      ctx.roundRect(x - half, y - half, 2 * half, 2 * half, 8);
      ctx.lineWidth = width;
      ctx.strokeStyle = style;
      ctx.stroke();
    }
  }

  // ---- lists ----

  showPanels(isAtOnce) {
    const now = performance.now();
    clearTimeout(this.panelTimer);
    if (!isAtOnce && now - (this.panelAt ?? 0) < PANEL_MS) {
      this.panelTimer = setTimeout(() => this.showPanels(true), PANEL_MS);
      return;
    }
    this.panelAt = now;
    const focused = this.facts.contains(document.activeElement)
      ? document.activeElement.dataset.sel : null;
    this.facts.replaceChildren(...panels(this.replay, this.now, this.words, this.chosen));
    if (focused) this.facts.querySelector(`[data-sel="${CSS.escape(focused)}"]`)?.focus();
    if (!this.table.hidden) this.fillTable();
  }

  toggleTable() {
    this.table.hidden = !this.table.hidden;
    const button = document.getElementById("replay-table");
    button?.setAttribute("aria-pressed", String(!this.table.hidden));
    if (this.table.hidden) this.surface.canvas.focus();
    else {
      this.fillTable();
      this.table.querySelector("[aria-current]")?.scrollIntoView({ block: "center" });
      this.table.focus();
    }
  }

  fillTable() {
    if (!this.replay) return;
    const hands = { go: (time) => this.scrub(time), close: () => this.toggleTable() };
    this.table.setAttribute("aria-label", this.words.table.title);
    this.table.replaceChildren(...eventTable(this.replay, this.now, this.words, hands));
  }

  // ---- tokens ----

  /** The key whose token lies under a point of the canvas; -1 if there is none. */
  tokenAt(x, y) {
    const hit = this.spots.findLast((spot) => Math.hypot(spot.x - x, spot.y - y) <= spot.r + 3);
    return hit ? hit.row : -1;
  }

  /** The viewer chooses a token: the instant stays. */
  chooseRow(row) {
    this.published = { type: "key", id: keyText(this.replay, row) };
    this.state.sel = this.published;
    publishSelection(this.published);
    this.select();
  }
}

const askedBy = ({ trace, step, task }) => `${trace} ${step} ${task ?? ""}`;

function readAt(search) {
  const at = Number.parseFloat(new URLSearchParams(search).get("at") ?? "");
  return Number.isNaN(at) ? null : at;
}

mount("#replay-canvas", (host) => new ReplayView(host));

/** Callback of pages/replay.py: hands the page's stores to the canvas. */
export function show(step, sel) {
  const host = document.getElementById("replay-canvas");
  if (!host) return null;
  Object.assign(host.dataset, { step: step ?? "", chosen: sel ? JSON.stringify(sel) : "" });
  return null;
}
