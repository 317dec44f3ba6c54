// The transport of the replay: buttons, keys, unit, speed, scrubber with a stripe for every
// iteration, and the sentence. The view is told what to do; it says what to show.

import {
  Surface, fill, font, formatNs, gestures, grouped, onThemeChange, readTheme,
} from "./core.mjs";
import { markChoice } from "./graph_controls.mjs";
import { colourOf } from "./replay_draw.mjs";
import { OP, endOfReplay } from "./replay_model.mjs";
import { make } from "./replay_panels.mjs";
import { placeName, sentence } from "./replay_words.mjs";
import { roundRect } from "./shapes.mjs";

const MOST_LANES = 4;
const SAY_MS = 900; // a screen reader is told the sentence once it rests
const element = (name) => document.getElementById(`replay-${name}`);

/** Stripes side by side where they overlap: each in the first lane that is free, in order. */
export function lanesOf(turns, most = MOST_LANES) {
  const ends = [];
  return turns.map((turn) => {
    let lane = ends.findIndex((end) => end <= turn.begin);
    if (lane < 0) lane = ends.length < most ? ends.length : turn.iteration % most;
    ends[lane] = Math.max(ends[lane] ?? 0, turn.end);
    return { ...turn, lane };
  });
}

/** Where several workers run a step of this number, each has a replay of its own. A list that has
 *  not changed stays as it is, as it may be open or hold the focus. */
export function showClients(host, { tasks, task }, words, choose) {
  const names = tasks.length > 1 ? tasks.join(" ") : "";
  if ((host.dataset.tasks ?? "") !== names) {
    host.dataset.tasks = names;
    host.replaceChildren(...(names ? [clientChoice(tasks, words, choose)] : []));
  }
  const select = host.querySelector("select");
  if (select && select.value !== task) select.value = task;
}

function clientChoice(tasks, words, choose) {
  const options = tasks.map((task) => make("option", { value: task }, task));
  const select = make("select", { "aria-label": words.of_step }, ...options);
  select.addEventListener("change", () => choose(select.value));
  return make("span", { class: "client" }, select);
}

export class Transport {
  constructor(view) {
    this.view = view;
    this.player = view.player;
    this.unit = "event";
    this.root = element("transport");
    this.theme = readTheme();
    this.stripes = new Surface(element("stripes"), {
      label: "", draw: (ctx, width, height) => this.drawStripes(ctx, width, height),
    });
    this.stripes.canvas.tabIndex = -1;
    this.stripes.canvas.setAttribute("aria-hidden", "true");
    this.track = new Surface(element("scrub"), {
      label: element("scrub").getAttribute("aria-label"),
      draw: (ctx, width, height) => this.drawTrack(ctx, width, height),
    });
    this.track.canvas.setAttribute("role", "slider");
    this.track.canvas.setAttribute("aria-valuemin", "0");
    this.listen();
  }

  listen() {
    const click = (event) => {
      const action = event.target.closest?.("[data-replay]")?.dataset.replay;
      if (action) this.act(action);
      const choice = event.target.closest?.("[role=radio]");
      if (choice) this.choose(choice);
    };
    const chosen = (event) => { // arrow keys move the choice of a group, wherever that is told
      if (event.target.matches?.("[role=radio]")) this.choose(event.target);
    };
    const key = (event) => this.key(event);
    this.root.addEventListener("click", click);
    this.root.addEventListener("focusin", chosen);
    document.addEventListener("keydown", key, true); // before the keys of the shell
    const drag = (x) => this.player.scrub(this.timeAt(x));
    let at = 0;
    const scrubbing = {
      hover: (x) => { at = x ?? at; },
      click: drag,
      drag: (dx) => { at += dx; drag(at); },
    };
    const stops = [
      gestures(this.track.canvas, scrubbing),
      onThemeChange(() => {
        this.theme = readTheme();
        this.paint();
      }),
      () => document.removeEventListener("keydown", key, true),
      () => this.root.removeEventListener("click", click),
      () => this.root.removeEventListener("focusin", chosen),
      () => clearTimeout(this.sayTimer),
      () => this.stripes.destroy(), () => this.track.destroy(),
    ];
    this.stop = () => stops.forEach((stop) => stop());
  }

  choose(button) {
    const group = button.closest("[data-choices]").id;
    markChoice(group, button.dataset.value);
    if (group === "replay-unit") this.unit = button.dataset.value;
    else this.player.speed = Number(button.dataset.value);
  }

  act(action) {
    const { player, unit } = this;
    if (!player.replay) return;
    ({
      home: () => player.goHome(), play: () => player.toggle(),
      forward: () => player.step(1, unit), backward: () => player.step(-1, unit),
      table: () => this.view.toggleTable(),
    })[action]?.();
  }

  key(event) {
    const isTyping = event.target.closest?.("input, textarea, select, dialog");
    if (!this.root.getClientRects().length) return; // another page of a file is shown
    if (!this.player.replay || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    const onSlider = event.target === this.track.canvas;
    const onPicture = event.target === this.view.surface.canvas;
    const takesSpace = event.target.closest?.("button, a, [role=radio]")
      || (onPicture && this.view.focus);
    const { player, unit, view } = this;
    const [back, forth] = [() => player.step(-1, unit), () => player.step(1, unit)];
    const actions = {
      "[": back, "]": forth, Home: () => player.goHome(), End: () => player.goEnd(),
      l: () => view.toggleTable(), L: () => view.toggleTable(),
      ...(takesSpace ? {} : { " ": () => player.toggle() }),
      ...(onSlider ? {
        ArrowLeft: back, ArrowRight: forth, ArrowDown: back, ArrowUp: forth,
        PageDown: () => player.skip(-0.1), PageUp: () => player.skip(0.1),
      } : {}),
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    event.stopPropagation();
    action();
  }

  // ---- scrubber ----

  get range() {
    const { replay } = this.player;
    return [Math.min(0, replay.instants[0] ?? 0), Math.max(1, endOfReplay(replay))];
  }

  xAt(time, width) {
    const [from, to] = this.range;
    return 8 + ((time - from) / (to - from)) * (width - 16);
  }

  timeAt(x) {
    const [from, to] = this.range;
    const share = (x - 8) / Math.max(1, this.track.width - 16);
    return Math.round(from + Math.min(1, Math.max(0, share)) * (to - from));
  }

  drawTrack(ctx, width, height) {
    if (!this.player?.replay) return;
    const { theme, player: { replay: { instants }, time } } = this;
    const y = height / 2;
    const x = this.xAt(time, width);
    ctx.fillStyle = theme.line2;
    ctx.fillRect(8, y - 0.75, width - 16, 1.5);
    const every = Math.max(1, Math.ceil((instants.length * 3) / width));
    for (let i = 0; i < instants.length; i += every) {
      ctx.fillRect(this.xAt(instants[i], width), y + 3, 1, 4);
    }
    ctx.fillStyle = theme.ink;
    ctx.fillRect(8, y - 1.5, x - 8, 3);
    ctx.beginPath();
    ctx.arc(x, y, 7, 0, 7);
    ctx.fillStyle = theme.mark;
    ctx.fill();
    ctx.lineWidth = 1.6;
    ctx.strokeStyle = theme.ink;
    ctx.stroke();
  }

  drawStripes(ctx, width, height) {
    const { player, theme } = this;
    if (!player?.replay) return;
    const { ratio } = this.stripes;
    const key = JSON.stringify([width, height, ratio, theme.bg, theme.ink]);
    if (key !== this.keptKey) this.keep(width, height, ratio);
    this.keptKey = key;
    ctx.drawImage(this.kept, 0, 0, width, height);
    const x = this.xAt(player.time, width);
    ctx.fillStyle = theme.ink;
    ctx.fillRect(x - 0.75, 0, 1.5, height);
  }

  /** The stripes themselves change only with the replay. */
  keep(width, height, ratio) {
    this.kept ??= document.createElement("canvas");
    Object.assign(this.kept, { width: width * ratio, height: height * ratio });
    const ctx = this.kept.getContext("2d");
    ctx.scale(ratio, ratio);
    const step = (height - 2) / MOST_LANES;
    if (this.player.replay.turns.length) this.drawTurns(ctx, width, step);
    else this.drawBusy(ctx, width, step);
  }

  drawTurns(ctx, width, step) {
    const { player, theme } = this;
    const [, last] = this.range;
    this.lanes ??= lanesOf(player.replay.outerTurns);
    ctx.font = font(10.5, 650);
    ctx.textAlign = "right";
    ctx.textBaseline = "middle";
    for (const { begin, end, iteration, lane } of this.lanes) {
      const x = this.xAt(begin, width);
      const w = Math.max(2, this.xAt(Math.min(end, last), width) - x);
      roundRect(ctx, x, 1 + lane * step, w, step - 2.5, 3);
      ctx.fillStyle = colourOf(theme, iteration);
      ctx.fill();
      ctx.lineWidth = 1;
      ctx.strokeStyle = theme["compute-s"];
      if (w > 6) ctx.stroke();
      if (this.lanes.length > 40) continue;
      ctx.fillStyle = theme.ink2;
      ctx.fillText(String(iteration), x - 3, 1 + lane * step + step / 2 - 1);
    }
  }

  /** Without a loop: when ops ran, a line for each of the first places. */
  drawBusy(ctx, width, step) {
    const { player: { replay }, theme } = this;
    const { item } = replay;
    const lanes = new Map(replay.opPlaces.slice(0, MOST_LANES).map((place, lane) => [place, lane]));
    ctx.fillStyle = theme.compute;
    for (let i = 0; i < item.count; i += 1) {
      const lane = item.kind[i] === OP ? lanes.get(item.place[i]) : undefined;
      if (lane === undefined) continue;
      const x = this.xAt(item.start[i], width);
      const w = this.xAt(Math.min(item.end[i], this.range[1]), width) - x;
      ctx.fillRect(x, 2 + lane * step, Math.max(1, w), step - 5);
    }
  }

  paint() {
    this.stripes.invalidate();
    this.track.invalidate();
  }

  // ---- words ----

  /** Another replay has come: its stripes are found anew. */
  renew(replay) {
    this.lanes = this.keptKey = null;
    const { words } = this.view;
    this.track.canvas.setAttribute("aria-valuemax", String(Math.round(endOfReplay(replay))));
    const names = replay.opPlaces.slice(0, MOST_LANES).map((place) => placeName(replay, place));
    element("lanes").textContent = replay.turns.length ? words.iterations : names.join("\n");
    showClients(element("client"), replay, words, (task) => this.view.chooseClient(task));
  }

  show() {
    const { player: { replay, now, isPlaying }, view: { words } } = this;
    const said = sentence(replay, now.time, words);
    element("sentence").textContent = said;
    element("sentence").title = said;
    element("time").textContent = formatNs(now.time);
    element("count").textContent = fill(words.counter, {
      at: grouped(now.count), count: grouped(replay.event.count),
    });
    this.showFlight();
    this.track.canvas.setAttribute("aria-valuenow", String(Math.round(now.time)));
    this.track.canvas.setAttribute("aria-valuetext", `${formatNs(now.time)}: ${said}`);
    this.showPlay(isPlaying);
    this.paint();
    clearTimeout(this.sayTimer);
    if (isPlaying) return;
    this.sayTimer = setTimeout(() => { element("said").textContent = said; }, SAY_MS);
  }

  showFlight() {
    const { player: { replay, now }, view: { words } } = this;
    if (!replay.turns.length) {
      element("flight").textContent = "";
      return;
    }
    const count = replay.outerTurns
      .filter(({ begin, end }) => begin <= now.time && now.time < end).length;
    element("flight").textContent = count ? fill(words.in_flight, { count }) : words.none_in_flight;
  }

  showPlay(isPlaying) {
    const button = this.root.querySelector("[data-replay=play]");
    const { words } = this.view;
    const label = isPlaying ? words.pause : words.play;
    if (button.title === label) return;
    button.title = label;
    button.setAttribute("aria-label", label);
    button.firstElementChild.className = `icon icon-${isPlaying ? "pause" : "play"}`;
  }
}
