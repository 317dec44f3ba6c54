// The graph canvas: fetches a stage, draws it, moves, and tells the page what was chosen.
// Inputs are data-* attributes of its host: trace, step, stage, task, heat, mark, chosen, named and
// words; it asks once it has a step, which may be "".

import { Surface, Viewport, animate, expose, mount, onThemeChange, readTheme } from "./core.mjs";
import { STUB, drawGraph } from "./graph_draw.mjs";
import {
  buildModel, hitGrid, levelOf, litBy, openingX, overview, resolve,
} from "./graph_model.mjs";
import {
  markChoice, showBoxChoice, showLegend, showOpened, showTwo, startControls,
} from "./graph_controls.mjs";
import {
  close, open, readFolds, readTwo, visitSearch, writeFolds, writeTwo,
} from "./graph_folds.mjs";
import { Hands } from "./graph_hands.mjs";
import { addedIn } from "./graph_marks.mjs";
import { mountMinimap } from "./graph_minimap.mjs";
import { planMorph } from "./graph_morph.mjs";
import { drawOverview } from "./graph_overview.mjs";
import { GraphPath } from "./graph_path.mjs";
import { graphPicture } from "./graph_picture.mjs";
import { Play } from "./graph_play.mjs";
import { probe } from "./graph_probe.mjs";
import { offerPicture } from "./picture.mjs";
import { fillTable } from "./graph_table.mjs";
import { sourceOf } from "./sources.mjs";
import { cutsBetween, drawTwo, layTwo, saidOf } from "./graph_two.mjs";

const MORPH_MS = 240;
const MARGIN = { top: 34, side: 10, bottom: 12 };
const ZOOM = { least: 0.08, names: 0.8, alone: 0.8, most: 4 };
const READABLE = 0.6; // a picture that fits at less than this opens as a whole
const STRETCH = 1.5; // rows of what is as wide as the canvas stand this much farther apart at most
const NEARLY = 0.88; // what is hardly wider than the canvas is shown as a whole
const NARROW = 700; // below it one box is shown at a time
const BOX_CHOICE = 48; // height of the buttons that choose it

export class GraphView {
  constructor(host) {
    this.host = host;
    this.words = JSON.parse(host.dataset.words ?? "{}");
    this.asked = null;
    this.state = {
      heat: "time", mark: "", sel: null, names: [], folds: readFolds(location.search),
      isTwo: this.mayShowTwo && readTwo(location.search),
    };
    this.model = this.upper = this.plan = this.morph = this.hover = this.focus = null;
    this.play = new Play(this);
    this.path = new GraphPath(this);
    this.port = new Viewport();
    this.isHome = true; // nobody moved the picture yet: it may fit itself
    this.theme = readTheme();
    this.note = document.createElement("div");
    this.note.className = "canvas-note";
    this.surface = new Surface(host, {
      label: this.words.label ?? "", draw: (ctx, w, h) => this.draw(ctx, w, h),
    });
    this.choice = document.createElement("div");
    this.choice.className = "canvas-boxes";
    this.choice.hidden = true;
    this.opened = document.createElement("div");
    this.opened.className = "canvas-opened";
    host.append(this.note, this.choice, this.opened);
    this.hands = new Hands(this);
    this.stops = [
      () => this.hands.stop(),
      () => this.path.stop(),
      offerPicture(() => this.model && graphPicture(this)),
      onThemeChange(() => {
        this.theme = readTheme();
        this.repaint();
      }),
    ];
    const toggleTwo = () => this.showTwo(!this.state.isTwo);
    host.addEventListener("two", toggleTwo);
    const playOrStop = () => this.play.toggle();
    host.addEventListener("morph", playOrStop);
    const fill = () => fillTable(this);
    host.addEventListener("table", fill);
    this.stops.push(() => {
      host.removeEventListener("two", toggleTwo);
      host.removeEventListener("morph", playOrStop);
      host.removeEventListener("table", fill);
      this.play.stop();
    });
    const followAddress = () => this.followAddress();
    addEventListener("popstate", followAddress);
    this.stops.push(() => removeEventListener("popstate", followAddress));
    const toggle = (event) => this.toggle(event.detail);
    host.addEventListener("scope", toggle);
    this.stops.push(() => host.removeEventListener("scope", toggle));
    this.mini = mountMinimap(this);
    expose(probe(this));
  }

  destroy() {
    this.stops.forEach((stop) => stop());
    this.request?.abort();
    this.surface.destroy();
    this.mini?.stop();
    this.mini?.surface.destroy();
  }

  // ---- inputs ----

  update({ trace, step, stage, task, heat, mark, chosen, named }) {
    this.state.heat = heat || "time";
    this.state.sel = chosen ? JSON.parse(chosen) : null;
    const { of, names } = named ? JSON.parse(named) : {};
    this.state.names = of && of === this.state.sel?.id ? names : []; // not those of another
    this.source = sourceOf(trace);
    if (step === undefined) return;
    const query = this.queryOf({ step, stage, task });
    this.state.mark = mark ?? "";
    const isNews = `${query}` !== this.wanted;
    this.wanted = `${query}`;
    if (isNews) this.play.stop();
    if (isNews && this.wanted !== this.asked) this.load(this.source, query);
    else {
      this.path.ask();
      this.select();
    }
  }

  /** What is asked of the source for a picture. */
  queryOf({ step, stage, task }) {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries({ step, stage, task })) {
      if (value) query.set(name, value);
    }
    for (const [name, ids] of Object.entries(this.state.folds)) {
      for (const id of ids) query.append(name, id);
    }
    if (this.state.isTwo) query.set("two", "true");
    return query;
  }

  /** Two stages are for the Graph page; another that shows a graph shows one. */
  get mayShowTwo() {
    return this.host.id === "graph-canvas" && Boolean(this.words.two);
  }

  async load(source, query) {
    this.asked = `${query}`;
    this.request?.abort();
    this.request = new AbortController();
    this.host.dataset.state = "loading";
    try {
      const text = await source.graph(query, this.request.signal);
      const begun = performance.now();
      this.show(JSON.parse(text));
      this.shownMs = performance.now() - begun;
    } catch (error) {
      if (error.name === "AbortError") return;
      this.asked = null;
      this.say(this.words.failed.replace("{reason}", error.message));
      this.host.dataset.state = "error";
    }
  }

  /** Puts a payload on the canvas; another stage grows out of the one before. */
  show(payload, ms = MORPH_MS) {
    const before = this.model?.payload;
    const wasTwo = Boolean(this.upper);
    this.model = buildModel(payload);
    this.grid = hitGrid(payload);
    this.takeUpper(payload.upper ?? null);
    this.path.renew();
    this.say(payload.nodes.length ? "" : this.words.nothing);
    this.stopMorph?.();
    this.morph = null;
    const from = { ...this.port };
    if (this.isHome) this.fit();
    const to = { ...this.port };
    const isOther = before?.stage !== payload.stage
      || before?.tiles.length !== payload.tiles.length;
    const isTurning = before && isOther && !wasTwo && !this.upper;
    this.plan = isTurning ? planMorph(before, payload) : null;
    if (isTurning) {
      const turn = (share) => {
        this.morph = share < 1 ? this.plan.at(share) : null;
        if (this.isHome) {
          for (const key of ["x", "y", "scaleX", "scaleY"]) {
            this.port[key] = from[key] + (to[key] - from[key]) * share;
          }
        }
        this.repaint();
      };
      turn(0); // what is painted before the first frame is the stage before
      this.stopMorph = animate(ms, turn);
    }
    showBoxChoice(this);
    showOpened(this);
    markChoice("graph-stages", payload.stage);
    showTwo(this);
    fillTable(this);
    this.host.dataset.state = "ready";
    this.select();
    this.surface.paint();
  }

  say(text) {
    this.note.textContent = text;
    this.note.hidden = !text;
  }

  /** Lights what the page has selected; brings it into view if it is outside. */
  select() {
    if (!this.model) return;
    const before = this.found;
    const { sel, names } = this.state;
    this.found = resolve(this.model, sel, names);
    this.lit = litBy(this.model, this.found);
    if (this.upper) {
      this.upper.found = resolve(this.upper.model, sel, names);
      this.upper.lit = litBy(this.upper.model, this.upper.found);
    }
    const isNew = JSON.stringify(before) !== JSON.stringify(this.found);
    if (this.found && isNew && !this.isOnScreen(this.found)) this.centre(this.found);
    this.repaint();
  }

  // ---- two stages ----

  takeUpper(payload) {
    this.upper = payload && { model: buildModel(payload), grid: hitGrid(payload) };
    this.layTwo();
    this.cuts = this.upper ? cutsBetween(this.upper.model, this.model) : [];
    this.said = this.upper ? saidOf(this.words, this.upper.model, this.model) : null;
  }

  /** The upper picture stands over the lower as the canvas has room. */
  layTwo() {
    if (!this.upper) return;
    const { model } = this.upper;
    Object.assign(this.upper, layTwo(this.surface, this.model.payload, model.payload, ZOOM.names));
  }

  showTwo(isTwo) {
    this.state.isTwo = isTwo;
    this.isHome = true;
    this.update(this.host.dataset);
    visitSearch(writeTwo(location.search, isTwo));
  }

  // ---- picture ----

  get zoom() {
    return this.port.scaleX;
  }

  repaint() {
    this.surface.invalidate();
    this.mini?.surface.invalidate();
    this.mini?.follow();
  }

  scene() {
    const { payload } = this.model;
    const only = this.onlyBox?.id;
    const { bands, links, wires, tiles, boxes } = this.morph ?? payload;
    const boxOf = new Map(bands.map((band) => [band.id, band.box]));
    const { mark } = this.state;
    return {
      payload, model: this.model, theme: this.theme, words: this.words,
      zoom: this.zoom, zoomY: this.port.scaleY, x: this.port.x, y: this.port.y,
      heat: this.state.heat, found: this.found,
      lit: this.lit ?? (mark === "added" ? addedIn(this.model) : null),
      path: mark === "path" ? this.path.lit : null,
      hover: this.hover, focus: this.focus,
      alpha: this.morph ? this.morph.share : 1,
      bands, links, wires,
      tiles: only ? tiles.filter((tile) => boxOf.get(tile.band) === only) : tiles,
      boxes: only ? boxes.filter((box) => box.id === only) : boxes,
      only,
    };
  }

  /** The same of the earlier stage, which stands above. */
  upperScene() {
    const { model, rise, found, lit } = this.upper;
    const { bands, links, wires, tiles, boxes } = model.payload;
    const hover = this.hover?.isUpper ? this.hover : null;
    return {
      ...this.scene(), isTwo: true, payload: model.payload, model, y: this.port.y + rise, found,
      lit: lit ?? (this.state.mark === "added" ? addedIn(model) : null), path: null,
      hover, focus: null, bands, links, wires, tiles, boxes,
    };
  }

  draw(ctx, width, height) {
    if (!this.model) return;
    if (this.isHome && !this.morph && this.sizeSeen !== `${width} ${height}`) this.fit();
    if (this.sizeSeen !== `${width} ${height}`) showBoxChoice(this);
    this.sizeSeen = `${width} ${height}`;
    const begun = performance.now();
    this.over = null;
    if (levelOf(this.zoom).name === "overview" && !this.upper) {
      this.over = overview(this.model, width, height);
      const room = Math.max(0, this.over.height - height);
      this.overShift = Math.min(room, Math.max(0, this.overShift ?? 0));
    }
    this.paint(ctx, width, height);
    this.drawMs = performance.now() - begun;
    showLegend(this);
  }

  /** The picture itself, on the canvas or on whatever else takes ink. */
  paint(ctx, width, height) {
    if (this.over) drawOverview(ctx, this.scene(), this.over, this.overShift);
    else if (this.upper) {
      const lower = { ...this.scene(), isTwo: true, ...(this.hover?.isUpper && { hover: null }) };
      drawTwo(ctx, this.upperScene(), lower, this, width, height);
    } else drawGraph(ctx, this.scene(), width, height);
  }

  /** The box that a narrow screen shows alone. */
  get onlyBox() {
    if (this.surface.width >= NARROW || !this.model || this.upper) return null;
    const { boxes } = this.model.payload;
    return boxes.find((box) => box.id === this.state.box) ?? boxes[0] ?? null;
  }

  /** What is to be seen from top to bottom, in layout pixels, and the margin above it on screen. */
  get extent() {
    const box = this.onlyBox;
    const { height, wires } = this.model.payload;
    if (this.upper) {
      const { rise, above: margin } = this.upper;
      return { top: -rise, tall: height + rise, margin };
    }
    if (!box) return { top: 0, tall: height, margin: MARGIN.top };
    const ends = wires.filter(({ from, to }) => from === box.id || to === box.id)
      .map(({ from, points }) => (from === box.id ? points[0] : points.at(-1))[1]);
    const above = ends.some((y) => y < box.y + box.h / 2) ? STUB : MARGIN.side;
    const below = ends.some((y) => y > box.y + box.h / 2) ? STUB : MARGIN.side;
    return { top: box.y - above, tall: box.h + above + below, margin: BOX_CHOICE };
  }

  /** The largest zoom up to 1 that fits the height, on a narrow screen that of one box; where a
   *  little more shows the names, they are worth it. */
  fit(isWhole = false) {
    const { width, height } = this.surface;
    const { payload } = this.model;
    const box = this.onlyBox;
    this.layTwo();
    const { top, tall, margin } = this.extent;
    const room = height - margin - MARGIN.bottom;
    const least = box ? ZOOM.alone : ZOOM.least;
    const high = Math.min(1, Math.max(least, room / Math.max(1, tall)));
    const wide = (width - 2 * MARGIN.side) / Math.max(1, payload.width);
    const whole = !box && wide < high && (isWhole || wide > NEARLY * high)
      ? Math.max(least, wide) : high;
    const one = isWhole || whole < READABLE ? whole : Math.max(ZOOM.names, whole);
    const [zoom, zoomY] = this.upper && !isWhole
      ? this.upper.scales
      : [one, Math.min(Math.max(one, high), STRETCH * one)];
    const spare = Math.max(0, room - tall * zoomY) / 2;
    const above = margin + Math.min(spare, 60);
    const home = -Math.max(MARGIN.side, (width - payload.width * zoom) / 2) / zoom;
    Object.assign(this.port, {
      scaleX: zoom, scaleY: zoomY,
      x: box ? openingX(payload, box, home, width / zoom) : home,
      y: top - above / zoomY,
    });
    this.overShift = 0;
    this.isHome = true;
  }

  moved() {
    this.isHome = false;
    this.hands.hideTip();
    this.repaint();
  }

  zoomBy(factor, x = this.surface.width / 2, y = this.surface.height / 2) {
    const to = Math.min(ZOOM.most, Math.max(ZOOM.least, this.zoom * factor));
    this.port.zoomAt(x, y, to / this.zoom);
    this.moved();
  }

  panBy(dx, dy) {
    if (this.over) this.overShift = (this.overShift ?? 0) - dy;
    else this.port.panBy(dx, dy);
    this.moved();
  }

  /** Layout point in the middle of a found thing; of several, of the first. */
  middleOf({ all, ...one }) {
    const found = all?.[0] ?? one;
    if (found.tile) {
      const tile = this.model.tiles.get(found.tile);
      return [tile.x, tile.y];
    }
    if (found.bands) {
      const band = this.model.payload.bands.find((one) => one.id === found.bands[0]);
      return [band.x + band.w / 2, band.y + band.h / 2];
    }
    if (found.tiles) {
      const tile = this.model.tiles.get(found.tiles[0]);
      return [tile.x, tile.y];
    }
    const { points } = this.model.wires.get(found.wire);
    const [a, b] = [points[0], points.at(-1)];
    return [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
  }

  isOnScreen(found) {
    if (this.over || found.bands) return true;
    const [x, y] = this.port.toScreen(...this.middleOf(found));
    return x > 30 && y > 30 && x < this.surface.width - 30 && y < this.surface.height - 30;
  }

  /** Moves a found thing to the middle, but shows no more void than there is at home. */
  centre(found, wanted = 0) {
    if (this.onlyBox) this.showBoxOf(found);
    const zoom = wanted || this.zoom;
    const [x, y] = this.middleOf(found);
    const { width, height } = this.surface;
    const { payload } = this.model;
    const { top, tall, margin } = this.extent;
    const zoomY = zoom * (this.port.scaleY / this.zoom);
    const along = (middle, size, start, length, before, after, scale = zoom) => {
      const seen = size / scale;
      const least = start - before / scale;
      const most = start + length + after / scale - seen;
      if (most < least) return (least + most) / 2;
      return Math.min(most, Math.max(least, middle - seen / 2));
    };
    const from = { ...this.port };
    const to = {
      scaleX: zoom, scaleY: zoomY,
      x: along(x, width, 0, payload.width, MARGIN.side, MARGIN.side),
      y: along(y, height, top, tall, margin, MARGIN.bottom, zoomY),
    };
    this.isHome = false;
    animate(MORPH_MS, (share) => {
      for (const key of Object.keys(to)) {
        this.port[key] = from[key] + (to[key] - from[key]) * share;
      }
      this.repaint();
    });
  }

  /** On a narrow screen: turns to the box that holds a found thing. */
  showBoxOf(found) {
    const { payload } = this.model;
    const first = found.all?.[0] ?? found;
    const tile = this.model.tiles.get(first.tile ?? first.tiles?.[0]);
    const bandId = tile?.band ?? first.bands?.[0];
    const band = payload.bands.find((one) => one.id === bandId);
    const id = band ? band.box : this.model.wires.get(first.wire)?.from;
    if (id === undefined || id === this.onlyBox.id) return;
    this.chooseBox(id);
  }

  chooseBox(id) {
    this.state.box = id;
    this.fit();
    showBoxChoice(this);
    this.repaint();
  }

  // ---- scopes ----

  /** Opens a folded scope, folds an open one; the address says so. */
  toggle(id) {
    const { folds } = this.state;
    this.setFolds(this.model.tiles.get(id)?.count > 1 ? open(folds, id) : close(folds, id));
    visitSearch(writeFolds(location.search, this.state.folds));
  }

  setFolds(folds) {
    this.state.folds = folds;
    this.update(this.host.dataset);
  }

  /** Back and Forward. */
  followAddress() {
    this.state.isTwo = this.mayShowTwo && readTwo(location.search);
    this.setFolds(readFolds(location.search));
  }
}

mount("#graph-canvas", (host) => new GraphView(host));
startControls();

const tell = (data) => {
  Object.assign(document.getElementById("graph-canvas")?.dataset ?? {}, data);
  return null;
};

/** Callbacks of pages/graph.py: hand the page's stores to the canvas. */
export const show = (step, stage, task, sel) => tell({
  step: step ?? "", stage: stage ?? "", task: task ?? "", chosen: sel ? JSON.stringify(sel) : "",
});

/** The names of the spans that are selected, which come after the selection. */
export const name = (found) => tell({ named: found ? JSON.stringify(found) : "" });
