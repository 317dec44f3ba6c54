// How the graph is moved and asked: pointer, wheel, touch, keys, the ring that arrow keys carry.

import { direction, gestures, publishSelection } from "./core.mjs";
import { selectionOf } from "./graph_model.mjs";
import { toggleTable } from "./graph_controls.mjs";
import { tipLines } from "./graph_words.mjs";

const isSame = (a, b) => ["id", "node", "isUpper"].every((part) => a?.[part] === b?.[part]);

const HOVER_MS = 80;
const STEP = 60; // pixels that a key pans

export class Hands {
  constructor(view) {
    this.view = view;
    const { canvas } = view.surface;
    this.tip = document.createElement("div");
    this.tip.className = "canvas-tip";
    this.tip.hidden = true;
    view.host.append(this.tip);
    const blur = () => this.setFocus(null);
    canvas.addEventListener("blur", blur);
    const stop = gestures(canvas, this.handlers());
    this.stop = () => {
      stop();
      canvas.removeEventListener("blur", blur);
      clearTimeout(this.hoverTimer);
    };
  }

  handlers() {
    const { view } = this;
    return {
      drag: (dx, dy) => view.panBy(dx, dy),
      pinch: (x, y, factor) => view.zoomBy(factor, x, y),
      wheel: (x, y, event) => {
        if (event.shiftKey) view.panBy(-(event.deltaY || event.deltaX), 0);
        else if (view.over && !event.ctrlKey) view.panBy(0, -event.deltaY);
        else view.zoomBy(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), x, y);
      },
      hover: (x, y) => this.hoverAt(x, y),
      click: (x, y) => this.choose(this.hitAt(x, y)),
      key: (event) => this.key(event),
    };
  }

  // ---- pointer ----

  /** What lies under a point of the canvas: {type: tile | wire | link | frame | bundle, id}. */
  hitAt(x, y) {
    const { view } = this;
    if (!view.model) return null;
    if (view.over) return this.hitOverview(x, y + view.overShift);
    const reach = Math.max(1, 8 / view.zoom / 17);
    const [wx, wy] = view.port.toWorld(x, y);
    const { upper } = view;
    if (upper && wy < (upper.model.payload.height - upper.rise) / 2) {
      const above = view.upper.grid.at(wx, wy + view.upper.rise);
      return above && { ...above, isUpper: true };
    }
    const hit = view.grid.at(wx, wy);
    if (hit || reach <= 1) return hit;
    return view.grid.at(wx + 6 / view.zoom, wy) ?? view.grid.at(wx - 6 / view.zoom, wy);
  }

  hitOverview(x, y) {
    const { frames, bundles } = this.view.over;
    const inside = (r) => x >= r.x && x <= r.x + r.w && y >= r.y && y <= r.y + r.h;
    for (const frame of frames) {
      const square = frame.squares.find((s) => inside({ x: s.x - 1, y: s.y - 1, w: 8, h: 8 }));
      if (square) return { type: "tile", id: square.node.tile, node: square.node.id };
      if (inside(frame)) return { type: "frame", id: frame.id, first: frame.nodes[0].id };
    }
    const near = bundles.find((bundle) => bundle.points.slice(1).some(([bx, by], i) => {
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
    const { view } = this;
    if (hit?.type === "bundle" || hit?.type === "link") return;
    const isAgain = hit?.type === "tile" && hit.id === view.found?.tile;
    if (isAgain && !view.over && !hit.isUpper && view.model.tiles.get(hit.id).count > 1) {
      view.toggle(hit.id);
      return;
    }
    if (view.over && isAgain) view.centre({ tile: hit.id }, 0.8);
    const selection = selectionOf(this.modelOf(hit), hit);
    view.state.sel = selection;
    view.state.names = [];
    publishSelection(selection);
    view.select();
  }

  /** The picture that a hit lies in. */
  modelOf(hit) {
    return hit?.isUpper ? this.view.upper.model : this.view.model;
  }

  hoverAt(x, y) {
    const { view } = this;
    const hit = x === null ? null : this.hitAt(x, y);
    view.surface.canvas.style.cursor = hit ? "pointer" : "grab";
    if (isSame(hit, view.hover)) return;
    clearTimeout(this.hoverTimer);
    this.hideTip();
    view.hover = null;
    view.repaint();
    if (!hit) return;
    this.hoverTimer = setTimeout(() => {
      const still = this.hitAt(x, y); // another graph may have come meanwhile
      if (still?.id !== hit.id || still?.node !== hit.node) return;
      view.hover = hit;
      this.showTip(hit, x, y);
      view.repaint();
    }, HOVER_MS);
  }

  showTip(hit, x, y) {
    const { surface } = this.view;
    const { over, words, state, path } = this.view;
    const seen = { model: this.modelOf(hit), over, words, state, path };
    const [title, ...more] = tipLines(seen, hit);
    this.tip.replaceChildren(title, ...more.map((line) => {
      const row = document.createElement("small");
      row.textContent = line;
      return row;
    }));
    this.tip.hidden = false;
    const w = this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(6, Math.min(x + 14, surface.width - w - 8))}px`;
    const h = this.tip.offsetHeight;
    this.tip.style.top = `${y + h + 20 > surface.height ? y - h - 10 : y + 16}px`;
  }

  hideTip() {
    this.tip.hidden = true;
  }

  // ---- keys ----

  key(event) {
    const { view } = this;
    const way = direction(event);
    if (way && event.key.startsWith("Arrow") && !event.shiftKey) return this.moveFocus(...way);
    if (way) {
      view.panBy(-STEP * way[0], -STEP * way[1]);
      return true;
    }
    const actions = {
      Enter: () => view.focus && this.choose(view.focus),
      " ": () => view.focus && this.choose(view.focus),
      Escape: () => (view.play.isOn ? view.play.settle() : this.choose(null)),
      "+": () => view.zoomBy(1.25), "=": () => view.zoomBy(1.25), "-": () => view.zoomBy(0.8),
      l: toggleTable, e: () => this.foldKey(), f: () => this.fitKey(), 0: () => this.fitKey(true),
    };
    const isPlain = !(event.ctrlKey || event.metaKey);
    const action = isPlain ? actions[event.key] ?? actions[event.key.toLowerCase()] : null;
    action?.();
    return Boolean(action);
  }

  /** Opens the stack under ring or selection, or folds the scope of what is open there. */
  foldKey() {
    const { view } = this;
    const id = view.focus?.type === "tile" ? view.focus.id : view.found?.tile;
    const tile = view.model?.tiles.get(id);
    if (!tile) return;
    if (tile.count > 1) view.toggle(tile.id);
    else if (tile.within) view.toggle(tile.within);
  }

  fitKey(whole = false) {
    const { view } = this;
    if (view.found && !whole) view.centre(view.found, Math.max(0.8, Math.min(1, view.zoom)));
    else view.fit(whole);
    view.repaint();
  }

  /** Moves the ring to the nearest tile or tag in a direction. */
  moveFocus(dx, dy) {
    const { view } = this;
    if (!view.model || view.over) return false;
    const { found } = view;
    const from = view.focus ?? (found?.tile && { type: "tile", id: found.tile })
      ?? (found?.wire && { type: "wire", id: found.wire });
    const start = from ? view.middleOf({ [from.type]: from.id }) : [view.port.x - 1, 0];
    const next = view.grid.nearest(...start, dx, dy, (item) => item.id !== from?.id
      && (item.type === "tile"
        || (item.type === "wire" && view.model.wires.get(item.id).isPair)));
    if (next) this.setFocus(next);
    return true;
  }

  setFocus(item) {
    const { view } = this;
    view.focus = item;
    const found = item && { [item.type]: item.id };
    if (found && !view.isOnScreen(found)) view.centre(found);
    view.repaint();
  }
}
