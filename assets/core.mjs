// What every canvas view shares: surface, viewport, theme, text, hits, gestures, mounting.
// Inputs of a view are the data-* attributes of its host; its one output is the store "sel".

export const TOKENS = [
  "bg", "panel", "sunk", "line", "line2", "ink", "ink2", "ink3", "mark",
  "compute", "send", "recv", "collective", "update", "error", "idle",
  "compute-s", "send-s", "recv-s", "collective-s", "update-s", "error-s", "idle-s",
  "on-hue", "on-compute", "on-update", "on-error", "outline",
];
export const TEXT_FONT = 'Inter, system-ui, "Segoe UI", "Helvetica Neue", "Noto Sans CJK SC", '
  + '"PingFang SC", "Microsoft YaHei", sans-serif';
export const CODE_FONT = '"JetBrains Mono", "SF Mono", Consolas, "Noto Sans Mono CJK SC", '
  + "monospace";

export const font = (size, weight = 400, family = TEXT_FONT) => `${weight} ${size}px ${family}`;

// ---- theme ----

/** Token → colour, as the page's style sheet says now (variables `--bg` … `--compute-s`). */
export function readTheme(element = document.documentElement) {
  const style = getComputedStyle(element);
  const theme = Object.fromEntries(
    TOKENS.map((token) => [token, style.getPropertyValue(`--${token}`).trim() || "#808080"]),
  );
  theme.isDark = luminance(theme.bg) < 0.2;
  return theme;
}

/** Calls back after the theme or the language changed; returns how to stop. */
export function onThemeChange(callback) {
  const observer = new MutationObserver(() => callback());
  observer.observe(document.documentElement, {
    attributes: true,
    attributeFilter: ["class", "style", "lang", "data-theme", "data-mantine-color-scheme"],
  });
  const media = matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", callback);
  return () => {
    observer.disconnect();
    media.removeEventListener("change", callback);
  };
}

export const reducedMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

// ---- colour (pure) ----

/** "#rrggbb" or "rgb(r, g, b)" → [r, g, b], 0 … 255. */
export function parseColour(text) {
  if (text.startsWith("#")) {
    const short = text.length === 4;
    const hex = short ? [...text.slice(1)].map((c) => c + c).join("") : text.slice(1, 7);
    return [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16));
  }
  return (text.match(/[\d.]+/g) ?? [0, 0, 0]).slice(0, 3).map(Number);
}

export function mix(from, to, share) {
  const a = parseColour(from);
  const b = parseColour(to);
  const hex = a.map((v, i) => Math.round(v + (b[i] - v) * share).toString(16).padStart(2, "0"));
  return `#${hex.join("")}`;
}

/** WCAG relative luminance, 0 … 1. */
export function luminance(colour) {
  const [r, g, b] = parseColour(colour).map((v) => {
    const c = v / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

export function contrast(a, b) {
  const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (high + 0.05) / (low + 0.05);
}

/** Whichever of ink and panel is better read on `fill`. */
export function inkOn(fill, theme) {
  return contrast(theme.ink, fill) >= contrast(theme.panel, fill) ? theme.ink : theme.panel;
}

/** A ramp from panel (10 %) to the hue (100 %); share 0 … 1. */
export const heat = (theme, hue, share) =>
  mix(theme.panel, theme[hue], 0.1 + 0.9 * Math.min(1, Math.max(0, share)));

/** Where a value lies in [low, high], 0 … 1; logarithmic above two decades. */
export function heatShare(value, low, high) {
  if (!(value > 0) || !(high > 0)) return 0;
  if (!(high > low)) return 1;
  const share = isLogScale(low, high)
    ? Math.log(value / low) / Math.log(high / low)
    : (value - low) / (high - low);
  return Math.min(1, Math.max(0, share));
}

export const isLogScale = (low, high) => low > 0 && high / low > 100;

// ---- words for numbers (pure) ----

export const grouped = (n) => Math.round(n).toString().replace(/\B(?=(\d{3})+$)/g, ",");

function threeFigures(value) {
  if (value >= 999.5) return grouped(value);
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return value.toFixed(digits);
}

/** ns → "830 µs", "9.24 ms", "1.20 s". */
export function formatNs(ns) {
  const sign = ns < 0 ? "−" : "";
  const value = Math.abs(ns);
  if (value < 1e3) return `${sign}${Math.round(value)} ns`;
  if (value < 1e4) return `${sign}${(value / 1e3).toFixed(1)} µs`;
  if (value < 999.5e3) return `${sign}${Math.round(value / 1e3)} µs`;
  if (value < 999.5e6) return `${sign}${threeFigures(value / 1e6)} ms`;
  return `${sign}${threeFigures(value / 1e9)} s`;
}

/** Bytes → "40 B", "1.0 KiB", "784 KiB", "12.8 MiB". */
export function formatBytes(bytes) {
  if (bytes < 1024) return `${Math.round(bytes)} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let value = bytes / 1024;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value >= 100 ? Math.round(value) : value.toFixed(value >= 10 ? 1 : 2)} ${units[unit]}`;
}

// ---- viewport (pure) ----

/** Maps world to screen: screen = (world − origin) · scale, each axis on its own. */
export class Viewport {
  constructor({ x = 0, y = 0, scaleX = 1, scaleY = 1 } = {}) {
    Object.assign(this, { x, y, scaleX, scaleY });
  }

  toScreen(x, y) {
    return [(x - this.x) * this.scaleX, (y - this.y) * this.scaleY];
  }

  toWorld(x, y) {
    return [x / this.scaleX + this.x, y / this.scaleY + this.y];
  }

  panBy(dx, dy) {
    this.x -= dx / this.scaleX;
    this.y -= dy / this.scaleY;
  }

  /** Zooms about a screen point, which stays where it is; a factor of 1 leaves an axis alone. */
  zoomAt(x, y, factorX, factorY = factorX) {
    const [wx, wy] = this.toWorld(x, y);
    this.scaleX *= factorX;
    this.scaleY *= factorY;
    this.x = wx - x / this.scaleX;
    this.y = wy - y / this.scaleY;
  }
}

// ---- hits (pure) ----

/** Finds the thing under a point: rectangles in a grid of cells; later ones lie on top. */
export class HitGrid {
  constructor(cell = 64) {
    this.cell = cell;
    this.cells = new Map();
    this.items = [];
  }

  /** The cells a rectangle touches. Very long ones are kept in one list of their own. */
  #keys(x, y, w, h) {
    const c = this.cell;
    const [x0, x1] = [Math.floor(x / c), Math.floor((x + w) / c)];
    const [y0, y1] = [Math.floor(y / c), Math.floor((y + h) / c)];
    if ((x1 - x0 + 1) * (y1 - y0 + 1) > 256) return ["large"];
    const keys = [];
    for (let i = x0; i <= x1; i += 1) for (let j = y0; j <= y1; j += 1) keys.push(`${i},${j}`);
    return keys;
  }

  add(item, x, y, w, h) {
    const entry = { item, x, y, w, h, order: this.items.length };
    this.items.push(entry);
    for (const key of this.#keys(x, y, w, h)) {
      const list = this.cells.get(key);
      if (list) list.push(entry);
      else this.cells.set(key, [entry]);
    }
  }

  at(x, y) {
    const key = `${Math.floor(x / this.cell)},${Math.floor(y / this.cell)}`;
    let best = null;
    for (const list of [this.cells.get(key), this.cells.get("large")]) {
      for (const e of list ?? []) {
        const inside = x >= e.x && x <= e.x + e.w && y >= e.y && y <= e.y + e.h;
        if (inside && (!best || e.order > best.order)) best = e;
      }
    }
    return best?.item ?? null;
  }

  /** The nearest item from a point in direction (dx, dy); straight ahead counts more than aside. */
  nearest(x, y, dx, dy, accepts = () => true) {
    let best = null;
    let bestCost = Infinity;
    for (const e of this.items) {
      if (!accepts(e.item)) continue;
      const vx = e.x + e.w / 2 - x;
      const vy = e.y + e.h / 2 - y;
      const ahead = vx * dx + vy * dy;
      if (ahead < 1) continue;
      const cost = ahead + 3 * Math.abs(vx * dy - vy * dx);
      if (cost < bestCost) [best, bestCost] = [e, cost];
    }
    return best?.item ?? null;
  }
}

// ---- text ----

const widths = new Map();

export function textWidth(ctx, text, fontText) {
  const key = `${fontText}\n${text}`;
  let width = widths.get(key);
  if (width === undefined) {
    if (widths.size > 20000) widths.clear();
    ctx.font = fontText;
    width = ctx.measureText(text).width;
    widths.set(key, width);
  }
  return width;
}

/** The longest form of `text` with an ellipsis that fits, cut at the "end" or the "start"; "" if
 *  none keeps `least` letters. `measure(text)` gives a width. */
export function ellipsis(text, measure, maxWidth, { cut = "end", least = 4 } = {}) {
  if (measure(text) <= maxWidth) return text;
  const letters = Array.from(text);
  const shorten = (n) => cut === "end"
    ? `${letters.slice(0, n).join("")}…`
    : `…${letters.slice(letters.length - n).join("")}`;
  let low = 0;
  let high = letters.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (measure(shorten(middle)) <= maxWidth) low = middle;
    else high = middle - 1;
  }
  return low >= least ? shorten(low) : "";
}

/** Text with a rim of `under`, so that a line behind it does not cut the letters. */
export function haloText(ctx, text, x, y, colour, under) {
  ctx.lineJoin = "round";
  ctx.lineWidth = 3;
  ctx.strokeStyle = under;
  ctx.strokeText(text, x, y);
  ctx.fillStyle = colour;
  ctx.fillText(text, x, y);
}

// ---- surface ----

/** How much larger than drawn an element is shown (the projector theme zooms the page). */
export const zoomOf = (element) => element.currentCSSZoom ?? 1;

/** A point of the window in the pixels that a canvas is drawn in. */
export function pointIn(canvas, x, y) {
  const box = canvas.getBoundingClientRect();
  const zoom = zoomOf(canvas);
  return [(x - box.left) / zoom, (y - box.top) / zoom];
}

/** The same the other way. */
export function pointOf(canvas, x, y) {
  const box = canvas.getBoundingClientRect();
  const zoom = zoomOf(canvas);
  return [box.left + x * zoom, box.top + y * zoom];
}

/** A canvas that fills its host: sharp on dense screens, drawn at most once a frame. */
export class Surface {
  /** `draw(ctx, width, height)` paints everything; `label` is what a screen reader is told. */
  constructor(host, { label, draw }) {
    this.host = host;
    this.draw = draw;
    this.canvas = document.createElement("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", label);
    this.canvas.style.cssText = "display:block;width:100%;height:100%;outline:none;"
      + "touch-action:none";
    this.ctx = this.canvas.getContext("2d");
    this.width = this.height = 0;
    this.frame = 0;
    host.append(this.canvas);
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(host);
    this.resize();
  }

  resize() {
    const ratio = this.ratio;
    this.width = this.host.clientWidth;
    this.height = this.host.clientHeight;
    this.canvas.width = Math.max(1, Math.round(this.width * ratio));
    this.canvas.height = Math.max(1, Math.round(this.height * ratio));
    this.paint(); // at once: a resized canvas is blank until then
  }

  /** Pixels of the screen per pixel drawn: dense screens, and a theme that is larger. */
  get ratio() {
    return (devicePixelRatio || 1) * zoomOf(this.canvas);
  }

  invalidate() {
    this.frame ||= requestAnimationFrame(() => this.paint());
  }

  paint() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    if (!this.width || !this.height) return;
    const { ratio } = this;
    this.ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.ctx.clearRect(0, 0, this.width, this.height);
    this.draw(this.ctx, this.width, this.height);
  }

  destroy() {
    this.observer.disconnect();
    cancelAnimationFrame(this.frame);
    this.canvas.remove();
  }
}

/** Runs `step(share)`, eased 0 … 1, for `ms`; at once with reduced motion. Returns how to stop. */
export function animate(ms, step, done = () => {}) {
  if (reducedMotion() || ms <= 0) {
    step(1);
    done();
    return () => {};
  }
  const begun = performance.now();
  let frame = 0;
  const tick = (now) => {
    const t = Math.min(1, Math.max(0, (now - begun) / ms));
    step(t < 0.5 ? 2 * t * t : 1 - (2 - 2 * t) ** 2 / 2);
    if (t < 1) frame = requestAnimationFrame(tick);
    else done();
  };
  frame = requestAnimationFrame(tick);
  return () => cancelAnimationFrame(frame);
}

// ---- pointer and keys ----

/** Turns pointer events on a canvas into drag, pinch, hover, click and wheel. Returns how to stop.
 *
 *  handlers: drag(dx, dy, event), dragEnd(), pinch(x, y, factor), hover(x, y) or hover(null),
 *  click(x, y, event), wheel(x, y, event), key(event) → true if it was used. Each may be absent. */
export function gestures(canvas, handlers) {
  const held = new Map();
  let moved = 0;
  const at = (event) => pointIn(canvas, event.clientX, event.clientY);
  const spread = () => {
    const [a, b] = [...held.values()];
    return [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2, Math.hypot(a[0] - b[0], a[1] - b[1])];
  };
  const listeners = {
    pointerdown(event) {
      held.set(event.pointerId, at(event));
      if (held.size === 1) moved = 0;
      canvas.setPointerCapture(event.pointerId);
    },
    pointermove(event) {
      const [x, y] = at(event);
      if (!held.has(event.pointerId)) {
        handlers.hover?.(x, y);
        return;
      }
      const [px, py] = held.get(event.pointerId);
      if (held.size === 2) {
        const before = spread();
        held.set(event.pointerId, [x, y]);
        const after = spread();
        handlers.drag?.(after[0] - before[0], after[1] - before[1], event);
        if (before[2] > 1) handlers.pinch?.(after[0], after[1], after[2] / before[2]);
        moved += 9;
        return;
      }
      moved += Math.hypot(x - px, y - py);
      if (moved <= 4) return; // a shaking hand still clicks
      held.set(event.pointerId, [x, y]);
      handlers.drag?.(x - px, y - py, event);
    },
    pointerup(event) {
      const wasHeld = held.delete(event.pointerId);
      if (!wasHeld || held.size) return;
      if (moved <= 4) handlers.click?.(...at(event), event);
      else handlers.dragEnd?.();
    },
    pointercancel(event) {
      if (held.delete(event.pointerId) && !held.size) handlers.dragEnd?.();
    },
    pointerleave() {
      if (!held.size) handlers.hover?.(null);
    },
    wheel(event) {
      event.preventDefault();
      handlers.wheel?.(...at(event), event);
    },
    keydown(event) {
      if (handlers.key?.(event)) {
        event.preventDefault();
        event.stopPropagation();
      }
    },
  };
  for (const [name, listener] of Object.entries(listeners)) {
    canvas.addEventListener(name, listener, { passive: false });
  }
  return () => {
    for (const [name, listener] of Object.entries(listeners)) {
      canvas.removeEventListener(name, listener);
    }
  };
}

/** Arrow keys and WASD → direction, else null. */
export function direction(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return null;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  return {
    ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1],
    a: [-1, 0], d: [1, 0], w: [0, -1], s: [0, 1],
  }[key] ?? null;
}

// ---- the page around it ----

/** Makes a choice the page's choice: the store "sel" carries it to URL, strip and other views. */
export function publishSelection(selection, store = "sel") {
  globalThis.dash_clientside?.set_props?.(store, { data: selection });
}

/** Mounts `create(host)` on every element that matches, whenever it appears; destroys it when it
 *  goes. `create` returns {update(dataset), destroy()}; data-* attributes are its inputs. */
export function mount(selector, create) {
  const views = new Map();
  const visit = () => {
    for (const [host, entry] of views) {
      if (host.isConnected) continue;
      entry.attributes.disconnect();
      entry.view.destroy();
      views.delete(host);
    }
    for (const host of document.querySelectorAll(selector)) {
      if (views.has(host)) continue;
      const view = create(host);
      const attributes = new MutationObserver(() => view.update(host.dataset));
      attributes.observe(host, { attributes: true });
      views.set(host, { view, attributes });
      view.update(host.dataset);
    }
  };
  new MutationObserver(visit).observe(document.documentElement, { childList: true, subtree: true });
  visit();
}

/** A text of the catalogue with values put in for their names. */
export const fill = (text, values) =>
  text.replace(/\{(\w+)\}/g, (whole, name) => String(values[name] ?? whole));

/** `window.__vizdist`: how a test asks the picture what it shows. */
export function expose(api) {
  globalThis.__vizdist = api;
}
