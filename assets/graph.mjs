// The graph canvas: fetches a stage, draws it, moves, and tells the page what was chosen.
// Inputs are data-* attributes of its host: base, step, stage, task, heat, chosen, words.

import {
  Surface, Viewport, animate, direction, expose, gestures, mount, onThemeChange, pointIn, pointOf,
  publishSelection, readTheme,
} from "./core.mjs";
import { STUB, drawGraph, halfTile } from "./graph_draw.mjs";
import {
  buildModel, hitGrid, interpolate, levelOf, litBy, overview, resolve, selectionOf,
} from "./graph_model.mjs";
import {
  markChoice, showBoxChoice, showLegend, startControls, toggleTable,
} from "./graph_controls.mjs";
import { mountMinimap } from "./graph_minimap.mjs";
import { drawOverview } from "./graph_overview.mjs";
import { tipText } from "./graph_words.mjs";
import { prefix } from "./selection.mjs";

const MORPH_MS = 240;
const HOVER_MS = 80;
const MARGIN = { top: 34, side: 10, bottom: 12 };
const ZOOM = { least: 0.08, alone: 0.8, most: 4 };
const NARROW = 700; // below it one box is shown at a time
const BOX_CHOICE = 48; // height of the buttons that choose it

export class GraphView {
  constructor(host) {
    this.host = host;
    this.words = JSON.parse(host.dataset.words ?? "{}");
    this.asked = "";
    this.state = { heat: "time", sel: null, opened: new Set() };
    this.model = this.morph = this.hover = this.focus = null;
    this.port = new Viewport();
    this.isHome = true; // nobody moved the picture yet: it may fit itself
    this.theme = readTheme();
    this.tip = document.createElement("div");
    this.tip.className = "canvas-tip";
    this.tip.hidden = true;
    this.note = document.createElement("div");
    this.note.className = "canvas-note";
    this.surface = new Surface(host, {
      label: this.words.label ?? "", draw: (ctx, w, h) => this.draw(ctx, w, h),
    });
    this.choice = document.createElement("div");
    this.choice.className = "canvas-boxes";
    this.choice.hidden = true;
    host.append(this.tip, this.note, this.choice);
    this.stops = [
      gestures(this.surface.canvas, this.handlers()),
      onThemeChange(() => {
        this.theme = readTheme();
        this.repaint();
      }),
    ];
    this.surface.canvas.addEventListener("blur", () => this.setFocus(null));
    this.mini = mountMinimap(this);
    expose(this.api());
  }

  destroy() {
    this.stops.forEach((stop) => stop());
    this.request?.abort();
    this.surface.destroy();
    this.mini?.stop();
    this.mini?.surface.destroy();
  }

  // ---- inputs ----

  update({ base, step, stage, task, heat, chosen }) {
    this.state.heat = heat || "time";
    this.state.sel = chosen ? JSON.parse(chosen) : null;
    if (!base) return;
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries({ step, stage, task })) {
      if (value) query.set(name, value);
    }
    for (const id of this.state.opened) query.append("opened", id);
    const url = `${base}?${query}`;
    if (url !== this.asked) this.load(url);
    else this.select();
  }

  async load(url) {
    this.asked = url;
    this.request?.abort();
    this.request = new AbortController();
    this.host.dataset.state = "loading";
    try {
      const reply = await fetch(url, { signal: this.request.signal });
      const payload = await reply.json();
      if (!reply.ok) throw new Error(payload.error ?? reply.statusText);
      this.show(payload);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.asked = "";
      this.say(this.words.failed.replace("{reason}", error.message));
      this.host.dataset.state = "error";
    }
  }

  /** Puts a payload on the canvas; another stage grows out of the one before. */
  show(payload) {
    const before = this.model?.payload;
    this.model = buildModel(payload);
    this.grid = hitGrid(payload);
    this.say(payload.nodes.length ? "" : this.words.nothing);
    this.stopMorph?.();
    this.morph = null;
    const from = { ...this.port };
    if (this.isHome) this.fit();
    const to = { ...this.port };
    if (before && before.stage !== payload.stage) {
      this.stopMorph = animate(MORPH_MS, (share) => {
        this.morph = share < 1 ? { ...interpolate(before, payload, share), share } : null;
        if (this.isHome) {
          for (const key of ["x", "y", "scaleX", "scaleY"]) {
            this.port[key] = from[key] + (to[key] - from[key]) * share;
          }
        }
        this.repaint();
      });
    }
    showBoxChoice(this);
    markChoice("graph-stages", payload.stage);
    this.host.dataset.state = "ready";
    this.select();
  }

  say(text) {
    this.note.textContent = text;
    this.note.hidden = !text;
  }

  /** Lights what the page has selected; brings it into view if it is outside. */
  select() {
    if (!this.model) return;
    const before = this.found;
    this.found = resolve(this.model, this.state.sel);
    this.lit = litBy(this.model, this.found);
    const isNew = JSON.stringify(before) !== JSON.stringify(this.found);
    if (this.found && isNew && !this.isOnScreen(this.found)) this.centre(this.found);
    showLegend(this.model, this.state.heat);
    this.repaint();
  }

  // ---- picture ----

  get zoom() {
    return this.port.scaleX;
  }

  repaint() {
    this.surface.invalidate();
    this.mini?.surface.invalidate();
  }

  scene() {
    const { payload } = this.model;
    const only = this.onlyBox?.id;
    const boxOf = new Map(payload.bands.map((band) => [band.id, band.box]));
    return {
      payload, model: this.model, theme: this.theme, words: this.words,
      zoom: this.zoom, x: this.port.x, y: this.port.y,
      heat: this.state.heat, found: this.found, lit: this.lit,
      hover: this.hover, focus: this.focus,
      alpha: this.morph ? this.morph.share : 1,
      tiles: (this.morph?.tiles ?? payload.tiles)
        .filter((tile) => !only || boxOf.get(tile.band) === only),
      boxes: (this.morph?.boxes ?? payload.boxes).filter((box) => !only || box.id === only),
      only,
    };
  }

  draw(ctx, width, height) {
    if (!this.model) return;
    if (this.isHome && !this.morph && this.sizeSeen !== `${width} ${height}`) this.fit();
    if (this.sizeSeen !== `${width} ${height}`) showBoxChoice(this);
    this.sizeSeen = `${width} ${height}`;
    const scene = this.scene();
    this.over = null;
    if (levelOf(this.zoom).name === "overview") {
      this.over = overview(this.model, width, height);
      const room = Math.max(0, this.over.height - height);
      this.overShift = Math.min(room, Math.max(0, this.overShift ?? 0));
      drawOverview(ctx, scene, this.over, this.overShift);
    } else drawGraph(ctx, scene, width, height);
  }

  /** The box that a narrow screen shows alone. */
  get onlyBox() {
    if (this.surface.width >= NARROW || !this.model) return null;
    const { boxes } = this.model.payload;
    return boxes.find((box) => box.id === this.state.box) ?? boxes[0] ?? null;
  }

  /** What is to be seen from top to bottom, in layout pixels, and the margin above it on screen. */
  get extent() {
    const box = this.onlyBox;
    const { height, wires } = this.model.payload;
    if (!box) return { top: 0, tall: height, margin: MARGIN.top };
    const ends = wires.filter(({ from, to }) => from === box.id || to === box.id)
      .map(({ from, points }) => (from === box.id ? points[0] : points.at(-1))[1]);
    const above = ends.some((y) => y < box.y + box.h / 2) ? STUB : MARGIN.side;
    const below = ends.some((y) => y > box.y + box.h / 2) ? STUB : MARGIN.side;
    return { top: box.y - above, tall: box.h + above + below, margin: BOX_CHOICE };
  }

  /** The largest zoom up to 1 that fits the height; on a narrow screen that of one box. */
  fit() {
    const { width, height } = this.surface;
    const { payload } = this.model;
    const box = this.onlyBox;
    const { top, tall, margin } = this.extent;
    const room = height - margin - MARGIN.bottom;
    const least = box ? ZOOM.alone : ZOOM.least;
    const zoom = Math.min(1, Math.max(least, room / Math.max(1, tall)));
    const spare = Math.max(0, room - tall * zoom) / 2;
    const above = margin + Math.min(spare, 60);
    Object.assign(this.port, {
      scaleX: zoom, scaleY: zoom,
      x: -Math.max(MARGIN.side, (width - payload.width * zoom) / 2) / zoom,
      y: top - above / zoom,
    });
    this.overShift = 0;
    this.isHome = true;
  }

  moved() {
    this.isHome = false;
    this.hideTip();
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

  /** Layout point in the middle of a found thing. */
  middleOf(found) {
    if (found.tile) {
      const tile = this.model.tiles.get(found.tile);
      return [tile.x, tile.y];
    }
    const { points } = this.model.wires.get(found.wire);
    const [a, b] = [points[0], points.at(-1)];
    return [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
  }

  isOnScreen(found) {
    if (levelOf(this.zoom).name === "overview") return true;
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
    const along = (middle, size, start, length, before, after) => {
      const seen = size / zoom;
      const least = start - before / zoom;
      const most = start + length + after / zoom - seen;
      if (most < least) return (least + most) / 2;
      return Math.min(most, Math.max(least, middle - seen / 2));
    };
    const from = { ...this.port };
    const to = {
      scaleX: zoom, scaleY: zoom,
      x: along(x, width, 0, payload.width, MARGIN.side, MARGIN.side),
      y: along(y, height, top, tall, margin, MARGIN.bottom),
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
    const tile = this.model.tiles.get(found.tile);
    const band = tile && payload.bands.find((one) => one.id === tile.band);
    const id = band ? band.box : this.model.wires.get(found.wire)?.from;
    if (id === undefined || id === this.onlyBox.id) return;
    this.chooseBox(id);
  }

  chooseBox(id) {
    this.state.box = id;
    this.fit();
    showBoxChoice(this);
    this.repaint();
  }

  // ---- pointer and keys ----

  handlers() {
    return {
      drag: (dx, dy) => this.panBy(dx, dy),
      pinch: (x, y, factor) => this.zoomBy(factor, x, y),
      wheel: (x, y, event) => {
        if (event.shiftKey) this.panBy(-(event.deltaY || event.deltaX), 0);
        else if (this.over && !event.ctrlKey) this.panBy(0, -event.deltaY);
        else this.zoomBy(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), x, y);
      },
      hover: (x, y) => this.hoverAt(x, y),
      click: (x, y) => this.choose(this.hitAt(x, y)),
      key: (event) => this.key(event),
    };
  }

  /** What lies under a point of the canvas: {type: tile | wire | frame | bundle, id}. */
  hitAt(x, y) {
    if (!this.model) return null;
    if (this.over) return this.hitOverview(x, y + this.overShift);
    const reach = Math.max(1, 8 / this.zoom / 17);
    const [wx, wy] = this.port.toWorld(x, y);
    const hit = this.grid.at(wx, wy);
    if (hit || reach <= 1) return hit;
    return this.grid.at(wx + 6 / this.zoom, wy) ?? this.grid.at(wx - 6 / this.zoom, wy);
  }

  hitOverview(x, y) {
    const inside = (r) => x >= r.x && x <= r.x + r.w && y >= r.y && y <= r.y + r.h;
    for (const frame of this.over.frames) {
      const square = frame.squares.find((s) => inside({ x: s.x - 1, y: s.y - 1, w: 8, h: 8 }));
      if (square) return { type: "tile", id: square.node.tile };
      if (inside(frame)) return { type: "frame", id: frame.id, first: frame.nodes[0].id };
    }
    const near = this.over.bundles.find((bundle) => bundle.points.slice(1).some(([bx, by], i) => {
      const [ax, ay] = bundle.points[i];
      return inside({
        x: Math.min(ax, bx) - 4, y: Math.min(ay, by) - 4,
        w: Math.abs(ax - bx) + 8, h: Math.abs(ay - by) + 8,
      });
    }));
    return near ? { type: "bundle", id: near.id } : null;
  }

  /** First click selects; a click on a selected stack opens it, one on a frame goes there. */
  choose(hit) {
    if (hit?.type === "bundle") return;
    const selection = selectionOf(this.model, hit);
    const isAgain = hit?.type === "tile" && hit.id === this.found?.tile;
    if (isAgain && this.model.tiles.get(hit.id).count > 1) {
      this.toggle(hit.id);
      return;
    }
    if (this.over && isAgain) this.centre({ tile: hit.id }, 0.8);
    this.state.sel = selection;
    publishSelection(selection);
    this.select();
  }

  toggle(id) {
    if (!this.state.opened.delete(id)) this.state.opened.add(id);
    this.update(this.host.dataset);
  }

  hoverAt(x, y) {
    const hit = x === null ? null : this.hitAt(x, y);
    this.surface.canvas.style.cursor = hit ? "pointer" : "grab";
    if (hit?.id === this.hover?.id) return;
    clearTimeout(this.hoverTimer);
    this.hideTip();
    this.hover = null;
    this.repaint();
    if (!hit) return;
    this.hoverTimer = setTimeout(() => {
      this.hover = hit;
      this.showTip(hit, x, y);
      this.repaint();
    }, HOVER_MS);
  }

  showTip(hit, x, y) {
    this.tip.textContent = tipText(this, hit);
    this.tip.hidden = false;
    const w = this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(6, Math.min(x + 14, this.surface.width - w - 8))}px`;
    this.tip.style.top = `${y + 34 > this.surface.height ? y - 36 : y + 16}px`;
  }

  hideTip() {
    this.tip.hidden = true;
  }

  key(event) {
    const way = direction(event);
    if (way && event.key.startsWith("Arrow") && !event.shiftKey) return this.moveFocus(...way);
    if (way) {
      this.panBy(-60 * way[0], -60 * way[1]);
      return true;
    }
    const actions = {
      Enter: () => this.focus && this.choose(this.focus),
      " ": () => this.focus && this.choose(this.focus),
      Escape: () => this.choose(null),
      "+": () => this.zoomBy(1.25), "=": () => this.zoomBy(1.25), "-": () => this.zoomBy(0.8),
      l: toggleTable, L: toggleTable,
      f: () => this.fitKey(), F: () => this.fitKey(), 0: () => this.fitKey(true),
    };
    const action = event.ctrlKey || event.metaKey ? null : actions[event.key];
    action?.();
    return Boolean(action);
  }

  fitKey(whole = false) {
    if (this.found && !whole) this.centre(this.found, Math.max(0.8, Math.min(1, this.zoom)));
    else this.fit();
    this.repaint();
  }

  /** Moves the ring to the nearest tile or tag in a direction. */
  moveFocus(dx, dy) {
    if (!this.model || this.over) return false;
    const from = this.focus ?? (this.found && (this.found.tile
      ? { type: "tile", id: this.found.tile } : { type: "wire", id: this.found.wire }));
    const start = from ? this.middleOf({ [from.type]: from.id }) : [this.port.x - 1, 0];
    const next = this.grid.nearest(...start, dx, dy, (item) => item.id !== from?.id
      && (item.type === "tile" || this.model.wires.get(item.id).isPair));
    if (next) this.setFocus(next);
    return true;
  }

  setFocus(item) {
    this.focus = item;
    const found = item && { [item.type]: item.id };
    if (found && !this.isOnScreen(found)) this.centre(found);
    this.repaint();
  }

  // ---- for tests ----

  api() {
    const { canvas } = this.surface;
    return {
      hit: (x, y) => {
        const hit = this.hitAt(...pointIn(canvas, x, y));
        return hit && { ...hit, selection: selectionOf(this.model, hit) };
      },
      select: (selection) => {
        this.state.sel = selection;
        publishSelection(selection);
        this.select();
      },
      state: () => ({
        view: "graph", ready: this.host.dataset.state === "ready", zoom: this.zoom,
        level: levelOf(this.zoom).name, stage: this.model?.payload.stage,
        tiles: this.model?.payload.tiles.length ?? 0,
        wires: this.model?.payload.wires.length ?? 0,
        found: this.found ?? null, morphing: Boolean(this.morph), half: halfTile(this.zoom),
      }),
      where: (selection) => {
        const found = resolve(this.model, selection);
        if (!found) return null;
        return pointOf(canvas, ...this.port.toScreen(...this.middleOf(found)));
      },
    };
  }
}

mount("#graph-canvas", (host) => new GraphView(host));
startControls();

/** Callback of pages/graph.py: hands the page's stores to the canvas. */
export function show(step, stage, task, sel) {
  const host = document.getElementById("graph-canvas");
  if (!host) return null;
  host.dataset.base = `${prefix()}api/traces/${host.dataset.trace}/graph`;
  Object.assign(host.dataset, {
    step: step ?? "", stage: stage ?? "", task: task ?? "", chosen: sel ? JSON.stringify(sel) : "",
  });
  return null;
}
