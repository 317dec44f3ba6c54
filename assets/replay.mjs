// The replay: the graph of a step with its tensors under way, at one instant. Inputs are those of
// the graph canvas; what happens when is the Player's.

import { expose, mount, publishSelection } from "./core.mjs";
import { keepFocus } from "./focus.mjs";
import { GraphView } from "./graph.mjs";
import { drawReplay, drawRing, tileStates } from "./replay_draw.mjs";
import { ReplayHands } from "./replay_hands.mjs";
import { atAnInstant, tilesAndWires } from "./replay_map.mjs";
import { beginOf, deadWires, decode, find, keyText } from "./replay_model.mjs";
import { eventTable, make, panels } from "./replay_panels.mjs";
import { Player } from "./replay_player.mjs";
import { replayProbe } from "./replay_probe.mjs";
import { Transport } from "./replay_transport.mjs";
import { parseSelection, taskIn, visit } from "./selection.mjs";
import { textures } from "./shapes.mjs";
import { sourceOf } from "./sources.mjs";

const LEAST_ZOOM = 0.5;
const PANEL_MS = 90; // between two states of the lists while it plays
const LIVE_MS = 1000; // between two questions while the run goes on

export class ReplayView extends GraphView {
  constructor(host) {
    super(host);
    host.dataset.task = taskIn(location.search);
    this.spots = [];
    this.dead = new Set(); // wires
    this.hands.stop();
    this.hands.tip.remove();
    this.hands = new ReplayHands(this);
    this.player = new Player({
      shown: (isAtOnce) => this.showFrame(isAtOnce), moved: () => this.repaint(),
    });
    this.facts = document.getElementById("replay-facts");
    const chosen = (event) => { // the shell carries it to the store
      const name = event.target.closest?.("[data-sel]")?.dataset.sel;
      if (name) this.published = parseSelection(name);
    };
    this.facts.addEventListener("click", chosen);
    this.table = make("section", { class: "timeline-table", hidden: true, tabindex: "-1" });
    host.append(this.table);
    this.transport = new Transport(this);
    const live = ({ detail }) => this.grow(detail);
    addEventListener("live", live);
    this.stops.push(() => this.transport.stop(), () => this.player.stop(),
      () => removeEventListener("live", live), () => this.replayRequest?.abort(),
      () => clearTimeout(this.growTimer), () => clearTimeout(this.panelTimer));
    expose(replayProbe(this));
  }

  get replay() {
    return this.player?.replay;
  }

  get now() {
    return this.player?.now;
  }

  // ---- inputs ----

  update(data) {
    super.update(data);
    if (data.step !== undefined && askedBy(data) !== this.replayAsked) this.fetchReplay(data);
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
      if (asked === this.replayAsked) this.takeReplay(decode(found));
    } catch (error) {
      if (error.name === "AbortError") return;
      this.replayAsked = null;
      this.say(this.words.failed.replace("{reason}", error.message));
      this.host.dataset.replay = "error";
    }
  }

  takeReplay(replay) {
    const before = this.replay;
    const isSame = before?.step === replay.step && before?.task === replay.task;
    this.isSettled = isSame && replay.isWhole && replay.item.count === before.item.count;
    this.places = this.model ? tilesAndWires(this.model, replay) : null;
    this.chosen = find(replay, this.state.sel);
    this.transport.renew(replay);
    this.player.take(replay, this.chosen);
    this.host.dataset.replay = "ready";
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

  /** The graph has come, or is folded in another way: tokens go along its wires. */
  show(payload, ...rest) {
    super.show(atAnInstant(payload), ...rest);
    if (!this.replay) return;
    this.places = tilesAndWires(this.model, this.replay);
    this.showFrame(true);
  }

  /** What is selected is ringed. Who chose it here stays at the instant; who comes with it from
   *  elsewhere, or from the search, goes to where it begins. */
  select() {
    super.select();
    if (!this.replay) return;
    const before = this.chosen;
    this.chosen = find(this.replay, this.state.sel);
    const isNews = JSON.stringify(before) !== JSON.stringify(this.chosen);
    const isOwn = this.isChoosing
      || JSON.stringify(this.state.sel) === JSON.stringify(this.published);
    if (this.chosen && isNews && !isOwn) this.player.scrub(beginOf(this.replay, this.chosen));
    else if (this.now && isNews) this.showPanels(true);
  }

  /** The client whose step is shown is in the address, so that a link opens the same. */
  chooseClient(task) {
    this.host.dataset.task = task;
    visit({ task }, { replace: true });
  }

  followAddress() {
    this.host.dataset.task = taskIn(location.search);
    super.followAddress();
    this.player.followAddress();
  }

  // ---- picture ----

  showFrame(isAtOnce) {
    if (this.places) {
      this.tileStates = tileStates(this.replay, this.now, this.places);
      this.dead = deadWires(this.replay, this.now, this.places.wireOf);
    }
    this.transport.show();
    this.showPanels(isAtOnce);
    this.repaint();
  }

  /** The whole graph, as long as its signs are seen. */
  fit() {
    super.fit(true);
    if (this.zoom < LEAST_ZOOM) super.fit();
  }

  /** Nothing is dimmed beside the selection: the action is in the others too. */
  scene() {
    return { ...super.scene(), found: null, lit: null, dead: this.dead };
  }

  draw(ctx, width, height) {
    if (!this.model) return;
    const ratio = this.surface?.ratio ?? 1;
    const key = this.baseKey(width, height, ratio);
    if (key !== this.drawnKey) this.drawBase(width, height, ratio);
    this.drawnKey = this.morph ? null : key;
    ctx.drawImage(this.base, 0, 0, width, height);
    if (!this.now || this.over || !this.tileStates) return;
    const begun = performance.now();
    this.textures ??= textures(ctx, this.theme);
    const scene = {
      ...this.scene(), replay: this.replay, now: this.now, tileStates: this.tileStates,
      wireOf: this.places.wireOf, shares: this.player.shares, textures: this.textures,
      chosen: this.chosen,
    };
    this.spots = drawReplay(ctx, scene);
    for (const tile of this.ringed) drawRing(ctx, scene, tile);
    this.overlayMs = performance.now() - begun;
  }

  /** Tiles of what is selected: of a stall, two. */
  get ringed() {
    const { ids, tileOf } = this.places;
    const { item, then } = this.chosen ?? {};
    const own = then ? [ids[tileOf[item]], ids[tileOf[then.item]]]
      : [this.found?.tile ?? ids[tileOf[item]]];
    return [...new Set(own)].map((id) => this.model.tiles.get(id)).filter(Boolean);
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

  /** What the picture of the graph depends on. */
  baseKey(width, height, ratio) {
    if (this.model !== this.modelSeen) this.modelCount = (this.modelCount ?? 0) + 1;
    this.modelSeen = this.model;
    const { port, theme, hover, focus, state, overShift } = this;
    return JSON.stringify([width, height, ratio, port, theme.bg, theme.ink, hover, focus,
      state.box, overShift, this.modelCount, [...this.dead]]);
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
    const filled = panels(this.replay, this.now, this.words, this.chosen);
    keepFocus(this.facts, ["data-sel"], () => this.facts.replaceChildren(...filled));
    if (!this.table.hidden) this.fillTable();
  }

  toggleTable() {
    if (!this.replay) return;
    this.table.hidden = !this.table.hidden;
    const button = document.getElementById("replay-table");
    button?.setAttribute("aria-pressed", String(!this.table.hidden));
    if (this.table.hidden) {
      this.surface.canvas.focus();
      return;
    }
    this.fillTable();
    this.table.focus();
  }

  fillTable() {
    const hands = { go: (time) => this.player.scrub(time), close: () => this.toggleTable() };
    this.table.setAttribute("aria-label", this.words.table.title);
    const filled = eventTable(this.replay, this.now, this.words, hands);
    const names = ["data-event", "data-close"];
    keepFocus(this.table, names, () => this.table.replaceChildren(...filled));
    this.table.querySelector("[aria-current]")?.scrollIntoView({ block: "center" });
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

mount("#replay-canvas", (host) => new ReplayView(host));

/** Callback of pages/replay.py: hands the page's stores to the canvas. */
export function show(step, sel) {
  const host = document.getElementById("replay-canvas");
  if (!host) return null;
  Object.assign(host.dataset, { step: step ?? "", chosen: sel ? JSON.stringify(sel) : "" });
  return null;
}
