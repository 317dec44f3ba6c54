// How the timeline is moved: pointer, wheel, touch, keys, and the ring that arrow keys carry.

import { gestures, pointIn } from "./core.mjs";
import { spanId } from "./timeline_data.mjs";
import { extent } from "./timeline_draw.mjs";
import { flagAt } from "./timeline_flags.mjs";
import { laneTitle, laneWord, neighbour } from "./timeline_model.mjs";
import { STRIP_HEAD, stripSize } from "./timeline_strip.mjs";
import { lineOf } from "./timeline_table.mjs";

const HOVER_MS = 80;

export class Hands {
  constructor(view) {
    this.view = view;
    this.holding = null;
    const { canvas } = view.surface;
    const zoomIn = (event) => this.zoomInto(...this.pointOf(event));
    const blur = () => this.setFocus(null);
    canvas.addEventListener("dblclick", zoomIn);
    canvas.addEventListener("blur", blur);
    const stop = gestures(canvas, {
      drag: (dx, dy, event) => view.head && this.drag(dx, dy, event),
      dragEnd: () => { this.holding = null; },
      pinch: (x, y, factor) => view.head && view.zoomBy(1 / factor, x),
      wheel: (x, y, event) => view.head && this.wheel(x, y, event),
      hover: (x, y) => view.head && this.hoverAt(x, y),
      click: (x, y) => view.head && this.click(x, y),
      key: (event) => view.head && this.key(event),
    });
    this.stop = () => {
      stop();
      canvas.removeEventListener("dblclick", zoomIn);
      canvas.removeEventListener("blur", blur);
      clearTimeout(this.hoverTimer);
    };
  }

  pointOf(event) {
    return pointIn(this.view.surface.canvas, event.clientX, event.clientY);
  }

  // ---- pointer ----

  /** In the strip the frame is dragged, elsewhere what it shows. */
  drag(dx, dy, event) {
    const { view } = this;
    this.holding ??= this.pointOf(event)[1] - dy < view.stripHeight ? "frame" : "bars";
    if (this.holding === "frame") {
      const { from, to } = view.head.strip;
      view.panBy((dx * (to - from)) / view.area.w);
      return;
    }
    view.panBy(-dx / view.scale);
    view.stack.scrollBy(-dy);
  }

  wheel(x, y, event) {
    const { view } = this;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      view.panBy((event.deltaX || event.deltaY) / view.scale);
    } else if (x < view.area.x && !event.ctrlKey) view.stack.scrollBy(event.deltaY);
    else view.zoomBy(Math.exp(event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), x);
  }

  /** Double click: onto the bar, or twice as near. */
  zoomInto(x, y) {
    const { view } = this;
    if (!view.head || y < view.area.y) return;
    const hit = view.hitAt(x, y);
    if (hit) view.fitBoxes(hit.tile, hit.i, hit.i);
    else view.zoomBy(0.5, x);
  }

  click(x, y) {
    if (y < this.view.stripHeight) this.clickStrip(x, y);
    else if (y < this.view.area.y) this.view.goToChoice();
    else if (x < this.view.area.x) this.clickName(y);
    else this.view.choose(this.view.hitAt(x, y) ?? null, this.view.findings.selectionAt(x, y));
  }

  /** A step's stretch chooses the step; on a phone a task's name shows that task. */
  clickStrip(x, y) {
    const { view } = this;
    const { area, head } = view;
    const { pitch } = stripSize(head.strip.tasks.length);
    const task = head.strip.tasks[Math.floor((y - STRIP_HEAD) / pitch)]?.task;
    if (x < area.x) {
      if (view.isNarrow && task) view.stack.showTask(task);
      return;
    }
    const flag = flagAt(view.findings.flags, x, y);
    if (flag >= 0) {
      view.findings.jump(flag);
      return;
    }
    const { from, to } = head.strip;
    const at = from + ((x - area.x) / area.w) * (to - from);
    const step = view.steps.find((s) => at >= s.start && at <= s.end);
    if (step) view.chooseStep(step);
  }

  hoverAt(x, y) {
    const { view } = this;
    const isInside = x !== null && x >= view.area.x && y >= view.stripHeight;
    const hit = isInside ? view.hitAt(x, y) : null;
    const isStrip = x !== null && y < view.stripHeight;
    const isStall = isInside && !hit && view.findings.selectionAt(x, y);
    view.surface.canvas.style.cursor = hit || isStrip || isStall ? "pointer" : "default";
    view.pointAt(isInside ? view.timeAt(x) : null);
    clearTimeout(this.hoverTimer);
    view.hideTip();
    const words = hit ? lineOf(view.words, hit.tile, hit.i) : x !== null && this.wordsAt(x, y);
    if (words) this.hoverTimer = setTimeout(() => view.showTip(words, x, y), HOVER_MS);
  }

  /** What is said of a place where no bar is. */
  wordsAt(x, y) {
    const { area, findings, fullShare, stack, stripHeight, words } = this.view;
    if (y < stripHeight) {
      const flag = flagAt(findings.flags, x, y);
      if (flag >= 0) return findings.saidOf(flag);
      return x < area.x && y < STRIP_HEAD ? words.full_says.replace("{share}", fullShare) : "";
    }
    if (y < area.y) return "";
    const lane = x < area.x ? stack.laneAt(y) : null;
    return lane ? this.wordsOf(lane) : findings.said(x, y);
  }

  /** Task and lane in full, as their place cuts long ones; and what a click on it does. */
  wordsOf({ task, lane, count }) {
    const { view } = this;
    const name = `${task} · ${laneTitle(lane, view.words)}`;
    if (laneWord(lane) !== "rpc" || count < 3) return name;
    const isOpen = view.stack.isUnfolded({ task, lane });
    return `${name} · ${view.words[isOpen ? "fold" : "unfold"]}`;
  }

  /** Unfolds the calls of a lane whose name was clicked, or folds them again. */
  clickName(y) {
    const { view } = this;
    const lane = view.stack.laneAt(y);
    if (lane && laneWord(lane.lane) === "rpc") view.stack.toggle(lane);
  }

  // ---- keys ----

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return false;
    const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const way = {
      ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1],
    }[name];
    if (way) this.arrow(way, event.shiftKey);
    else {
      const action = this.actions()[name];
      if (!action) return false;
      action();
    }
    return true;
  }

  actions() {
    const { view } = this;
    const choose = () => view.focus && view.choose(view.focus);
    return {
      w: () => view.zoomBy(0.8), s: () => view.zoomBy(1.25),
      "+": () => view.zoomBy(0.8), "=": () => view.zoomBy(0.8), "-": () => view.zoomBy(1.25),
      a: () => view.panBy(-view.sixth), d: () => view.panBy(view.sixth),
      f: () => view.fit(), 0: () => view.showMode("step"), l: () => view.toggleTable(),
      Enter: choose, " ": choose, Escape: () => view.choose(null),
      PageDown: () => view.stack.page(1), PageUp: () => view.stack.page(-1),
    };
  }

  arrow([dx, dy], isShift) {
    const { view } = this;
    if (!isShift) {
      this.moveFocus(dx, dy);
      return;
    }
    if (dx) view.panBy(dx * view.sixth);
    else view.stack.scrollBy(dy * 60);
  }

  moveFocus(dx, dy) {
    const { view } = this;
    const { tile, focus } = view;
    if (!tile) return;
    const held = focus ? view.placeOf(tile, spanId(focus.tile, focus.i)) : -1;
    const i = held >= 0 ? neighbour(tile, view.stack.rows().rows, tile.orders, held, dx, dy)
      : this.firstBox(tile);
    if (i !== undefined) this.setFocus({ tile, i });
  }

  /** The selected box, else the first of the window. */
  firstBox(tile) {
    const { view } = this;
    const chosen = view.lit?.selected ? view.placeOf(tile, spanId(view.lit, 0)) : -1;
    if (chosen >= 0) return chosen;
    for (const row of view.stack.rows().rows) {
      const found = tile.orders.get(row.id)?.find((i) => tile.start[i] >= view.window.from);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  setFocus(focus) {
    const { view } = this;
    view.focus = focus;
    if (focus) {
      this.bringIntoView(focus);
      view.table.say(lineOf(view.words, focus.tile, focus.i));
    }
    view.surface.invalidate();
  }

  bringIntoView({ tile, i }) {
    const { view } = this;
    const { from, to } = view.window;
    const [x, w] = extent(tile, i, { from, scale: view.scale });
    if (x + w < 20 || x > view.area.w - 20) {
      const half = (to - from) / 2;
      view.moveTo(tile.start[i] - half, tile.start[i] + half, "window");
    }
    view.stack.reveal(tile.row[i]);
  }
}
