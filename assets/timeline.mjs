// The timeline canvas: what is looked at, what is drawn, what was chosen. Inputs are data-*
// attributes of its host: trace, step, chosen, words. Its outputs are the stores "sel" and "step".

import {
  Surface, animate, expose, font, formatNs, mount, onThemeChange, publishSelection, readTheme,
  textWidth,
} from "./core.mjs";
import { offerPicture } from "./picture.mjs";
import { visit } from "./selection.mjs";
import { textures } from "./shapes.mjs";
import { sourceOf } from "./sources.mjs";
import { Loader, spanId } from "./timeline_data.mjs";
import { drawBody } from "./timeline_draw.mjs";
import { Findings } from "./timeline_findings.mjs";
import { Hands } from "./timeline_hands.mjs";
import { Lights } from "./timeline_lights.mjs";
import { Growth } from "./timeline_live.mjs";
import {
  boxAt, clampWindow, devicesOf, leadingSteps, outstandingStep, ownerOf, stepOfTask, ticksOf,
} from "./timeline_model.mjs";
import { ModeChoice } from "./timeline_modes.mjs";
import { timelinePicture } from "./timeline_picture.mjs";
import { Pieces } from "./timeline_pieces.mjs";
import { probe } from "./timeline_probe.mjs";
import { RowStack } from "./timeline_rows.mjs";
import { AXIS_PX, drawAxis, drawStrip, fullShare, stripSize } from "./timeline_strip.mjs";
import { SpanTable } from "./timeline_table.mjs";

const NARROW = 700; // below it one task is shown at a time
const LEFT = { wide: 140, narrow: 100 };
const RIGHT = 16;
const MOVE_MS = 200;
const SETTLE_MS = 160;

export class TimelineView {
  constructor(host) {
    this.host = host;
    this.words = JSON.parse(host.dataset.words);
    this.window = { from: 0, to: 1 };
    this.mode = "step";
    this.problem = "";
    this.drawMs = 0;
    this.head = this.focus = this.cursor = this.step = null;
    this.steps = [];
    this.stack = new RowStack(this);
    this.pieces = new Pieces();
    this.asked = {};
    this.source = sourceOf(host.dataset.trace);
    this.loader = new Loader(this.source, () => this.arrived(), (error) => this.fail(error));
    this.tip = piece("canvas-tip");
    this.note = piece("canvas-note");
    this.look();
    this.surface = new Surface(host, {
      label: this.words.label, draw: (ctx, w, h) => this.draw(ctx, w, h),
    });
    host.append(this.tip, this.note);
    this.table = new SpanTable(host, this.words, {
      choose: (i) => this.choose({ tile: this.tile, i }),
      closed: () => this.surface.canvas.focus(),
    });
    this.modes = new ModeChoice(this.words.window, (mode) => this.showMode(mode));
    this.hands = new Hands(this);
    this.lights = new Lights(this);
    this.findings = new Findings(this);
    this.growth = new Growth(this);
    this.stopPictures = offerPicture(() => this.head && timelinePicture(this));
    this.stopThemes = onThemeChange(() => {
      this.look();
      this.surface.invalidate();
    });
    this.toggle = () => this.toggleTable();
    document.getElementById("timeline-list")?.addEventListener("click", this.toggle);
    expose(probe(this));
    this.open();
  }

  look() {
    this.theme = readTheme();
    this.patterns = textures(document.createElement("canvas").getContext("2d"), this.theme);
  }

  destroy() {
    this.isGone = true;
    this.stopThemes();
    this.stopMove?.();
    clearTimeout(this.settling);
    document.getElementById("timeline-list")?.removeEventListener("click", this.toggle);
    this.modes.stop();
    this.hands.stop();
    this.lights.stop();
    this.findings.stop();
    this.growth.stop();
    this.stopPictures();
    this.loader.stop();
    this.surface.destroy();
  }

  // ---- inputs ----

  async open() {
    this.host.dataset.state = "loading";
    let head = null;
    try {
      head = await this.source.head();
    } catch (error) {
      this.fail(error);
      return;
    }
    if (this.isGone) return;
    this.takeHead(head);
    this.asked = {};
    this.update(this.host.dataset);
    const query = new URLSearchParams(location.search);
    const [from, to] = [query.get("t0"), query.get("t1")].map(Number.parseFloat);
    if (to > from) this.show(from, to, "window");
    else if (query.get("window") === "run") this.showMode("run");
    this.load(true);
    this.growth.ask();
    this.findings.askRun();
  }

  /** Rows, steps and strip of the run as far as it is known. */
  takeHead(head, shift = 0) {
    this.head = head;
    this.steps = leadingSteps(this.head.steps);
    this.outstanding = outstandingStep(this.steps);
    this.stepsByStart = new Map(head.steps.start.map((at, i) => [at, head.steps.number[i]]));
    this.rowsById = new Map(this.head.rows.map((row) => [row.id, row]));
    this.devices = devicesOf(this.head.rows);
    this.fullShare = fullShare(head.strip);
    this.stack.take(this.head);
    this.host.style.maxHeight = `${this.area.y + this.stack.fullHeight}px`;
    if (this.step) {
      const { number, task, start, end } = this.step;
      const moved = { ...this.step, start: start + shift, end: end + shift };
      this.setStep(stepOfTask(head.steps, number, task) ?? moved);
    }
    const { step } = this.asked;
    if (step && Number(step) !== this.step?.number) this.goToStep(Number(step));
  }

  /** A step of the leading task; of one that is not known yet, the last before it. */
  stepAt(number) {
    return this.steps.findLast((s) => s.number <= number);
  }

  update({ step, chosen }) {
    if (!this.head) return;
    const isNewStep = step !== this.asked.step;
    const isNewChoice = chosen !== this.asked.chosen;
    this.asked = { step, chosen };
    if (isNewStep) this.goToStep(Number(step));
    if (isNewChoice || isNewStep) this.lights.ask(chosen);
  }

  setStep(step) {
    this.step = step;
    this.findings.ask(step);
  }

  goToStep(number) {
    if (this.findings.land(number)) return;
    const before = this.step;
    this.setStep(this.stepAt(number) ?? this.steps[0] ?? null);
    if (!this.step) this.showMode("run");
    else if (this.mode === "window" && before) {
      const shift = this.step.start - before.start;
      this.moveTo(this.window.from + shift, this.window.to + shift, "window");
    } else this.showMode(this.mode);
  }

  // ---- window ----

  /** The selected spans and what is linked to them, as a tile; null for none. */
  get lit() {
    return this.lights.lit;
  }

  get isNarrow() {
    return this.surface.width < NARROW;
  }

  get stripHeight() {
    return stripSize(this.head.strip.tasks.length).height;
  }

  /** Where bars are: right of the names, below strip and axis. */
  get area() {
    const x = this.isNarrow ? LEFT.narrow : LEFT.wide;
    const y = this.stripHeight + AXIS_PX;
    return {
      x, y, w: Math.max(16, this.surface.width - x - RIGHT),
      h: Math.max(1, this.surface.height - y),
    };
  }

  /** px per ns */
  get scale() {
    return this.area.w / (this.window.to - this.window.from);
  }

  get sixth() {
    return (this.window.to - this.window.from) / 6;
  }

  /** Whether more than steps is looked at. */
  get isWhole() {
    const { from, to } = this.head.strip;
    const middle = (this.window.from + this.window.to) / 2;
    return this.mode === "run" || !this.steps.length || middle < from || middle > to;
  }

  timeAt(x) {
    return this.window.from + (x - this.area.x) / this.scale;
  }

  /** What the axis counts from: the step, or the run when all of it is looked at. */
  get origin() {
    return this.mode === "run" || !this.step ? 0 : this.step.start;
  }

  show(from, to, mode) {
    [this.window.from, this.window.to] = clampWindow(from, to, this.head.end);
    this.mode = mode;
    this.hideTip();
    this.surface.invalidate();
    this.load();
    clearTimeout(this.settling);
    this.settling = setTimeout(() => this.settle(), SETTLE_MS);
  }

  moveTo(from, to, mode) {
    this.stopMove?.();
    const old = { ...this.window };
    const between = (a, b, share) => a + (b - a) * share;
    this.stopMove = animate(this.stack.layout ? MOVE_MS : 0, (share) => {
      this.show(between(old.from, from, share), between(old.to, to, share), mode);
    });
  }

  showMode(mode) {
    if (mode === "step" && this.step) this.moveTo(...around(this.step, 0.006), mode);
    else if (mode === "window") this.show(this.window.from, this.window.to, mode);
    else this.moveTo(...around({ start: 0, end: this.head.end }, 0.01), "run");
  }

  panBy(ns) {
    this.growth.release();
    this.show(this.window.from + ns, this.window.to + ns, "window");
  }

  /** Stretches the window by a factor; what lies under x stays there. */
  zoomBy(factor, x = this.area.x + this.area.w / 2) {
    this.growth.release();
    const at = this.timeAt(Math.max(this.area.x, x));
    const { from, to } = this.window;
    this.show(at - (at - from) * factor, at + (to - at) * factor, "window");
  }

  fitBoxes(tile, first, last) {
    const begin = tile.start[first];
    const length = Math.max(tile.start[last] + tile.duration[last] - begin, 500);
    this.moveTo(begin - length * 0.2, begin + length * 1.2, "window");
  }

  fit() {
    if (this.lit?.selected) this.fitBoxes(this.lit, 0, this.lit.selected - 1);
    else this.showMode(this.step ? "step" : "run");
  }

  /** A click on the mark that says how far away the selection is. */
  goToChoice() {
    if (this.lit?.selected) this.fit();
  }

  /** The window came to rest: it goes into the address, and rows without a span in it go. */
  settle() {
    const { from, to } = this.window;
    const isWindow = this.mode === "window";
    this.modes.show(this.mode, isWindow ? formatNs(to - from) : "", this.steps.length > 0);
    visit({
      t0: isWindow ? Math.round(from) : null, t1: isWindow ? Math.round(to) : null,
      window: this.mode === "run" && this.steps.length ? "run" : null,
    }, { replace: true });
    this.stack.settle();
    this.load(); // rows may have come
    this.host.dataset.rest = `${this.mode} ${Math.round(this.origin)}`;
    this.surface.invalidate();
  }

  load(isAtOnce = false) {
    if (!this.head?.rows.length || !this.surface.width) return;
    const { from, to } = this.window;
    this.loader.want(from, to, this.area.w, this.stack.near(), isAtOnce);
    if (this.loader.isBusy) this.host.dataset.state = "loading";
  }

  // ---- picture ----

  /** The tile to draw from. */
  get tile() {
    const { from, to } = this.window;
    return this.loader.best(from, to, this.area.w, this.stack.near())?.tile ?? null;
  }

  arrived() {
    this.host.dataset.state = "ready";
    this.problem = "";
    this.tell();
    this.surface.invalidate();
    this.table.refresh(this);
  }

  fail(error) {
    this.host.dataset.state = "error";
    this.problem = this.words.failed.replace("{reason}", error.message);
    this.tell();
  }

  /** Says what did not come: spans first, then what the analyses found. */
  tell() {
    this.note.textContent = this.problem || this.findings.problem;
    this.note.hidden = !this.note.textContent;
  }

  scene(width, height) {
    const { from, to } = this.window;
    const { area, tile, origin } = this;
    const widthOf = (text) => textWidth(this.surface.ctx, text, font(12));
    return {
      width, height, area, from, to, origin, scale: this.scale, tile,
      theme: this.theme, patterns: this.patterns, words: this.words,
      layout: this.stack.rows(), scroll: this.stack.scroll,
      pieces: this.pieces, ratio: this.surface.ratio,
      ticks: ticksOf(from, to, area.w, origin, widthOf),
      arrows: this.loader.arrows, lit: this.lit, litIds: this.lights.ids,
      focus: this.focus, cursor: this.cursor, unfolded: this.stack.unfolded,
      rowsById: this.rowsById, devices: this.devices,
      strip: this.head.strip, fullShare: this.fullShare,
      steps: this.steps, step: this.step?.number ?? null, stepsByStart: this.stepsByStart,
      stepsOf: ownerOf(this.head.steps, this.steps),
      outstanding: this.outstanding, isNarrow: this.isNarrow,
      task: this.isNarrow ? this.stack.task : null, ...this.findings.shown,
    };
  }

  draw(ctx, width, height) {
    if (!this.head) return;
    const begun = performance.now();
    if (this.sizeSeen !== `${width} ${height}`) {
      this.sizeSeen = `${width} ${height}`;
      this.stack.drop();
      this.load();
    }
    this.counts = this.paint(ctx, this.scene(width, height));
    this.drawMs = performance.now() - begun;
  }

  /** On the canvas or on whatever else takes ink. */
  paint(ctx, scene) {
    const counts = drawBody(ctx, scene);
    drawAxis(ctx, scene, this.stripHeight);
    drawStrip(ctx, scene);
    return counts;
  }

  /** The box under a point of the canvas: {tile, i}; lit ones first, as they lie on top. */
  hitAt(x, y) {
    const { area } = this;
    if (x < area.x || x > area.x + area.w || y < area.y) return null;
    const row = this.stack.rowAt(y);
    if (!row) return null;
    for (const tile of [this.lit, this.tile]) {
      const order = tile?.orders.get(row.id);
      const i = order ? boxAt(tile, order, this.timeAt(x), this.scale) : -1;
      if (i >= 0) return { tile, i };
    }
    return null;
  }

  placeOf(tile, id) {
    for (let i = 0; i < tile.count; i += 1) if (spanId(tile, i) === id) return i;
    return -1;
  }

  // ---- choices and what is said of them ----

  /** `other` is selected where no bar was hit. */
  choose(hit, other = null) {
    publishSelection(hit ? { type: "span", id: spanId(hit.tile, hit.i) } : other);
  }

  chooseStep(step) {
    this.mode = "step";
    globalThis.dash_clientside?.set_props?.("step", { data: step.number });
    if (step === this.step) this.showMode("step");
  }

  pointAt(time) {
    this.cursor = time;
    this.surface.invalidate();
  }

  showTip(words, x, y) {
    this.tip.textContent = words;
    this.tip.hidden = false;
    const { width, height } = this.surface;
    this.tip.style.left = `${Math.max(6, Math.min(x + 14, width - this.tip.offsetWidth - 8))}px`;
    this.tip.style.top = `${y + 44 > height ? y - 36 : y + 18}px`;
  }

  hideTip() {
    this.tip.hidden = true;
  }

  toggleTable() {
    if (this.head) this.table.toggle(this);
  }
}

function around({ start, end }, share) {
  const air = Math.max((end - start) * share, 50);
  return [start - air, end + air];
}

function piece(name) {
  const made = document.createElement("div");
  made.className = name;
  made.hidden = true;
  return made;
}

mount("#timeline-canvas", (host) => new TimelineView(host));

/** Callback of pages/timeline.py: hands the page's stores to the canvas; `usual` is the step of a
 *  page whose address names none. */
export function show(step, sel, usual) {
  const host = document.getElementById("timeline-canvas");
  if (!host) return null;
  Object.assign(host.dataset, {
    step: step ?? usual ?? "", chosen: sel ? JSON.stringify(sel) : "",
  });
  return null;
}
