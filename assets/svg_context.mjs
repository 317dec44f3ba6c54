// A drawing context that writes SVG: what a canvas view paints with, so that one drawing code makes
// pixels and shapes. It knows what the views use; names become <text>, escaped, never markup.

const ESCAPES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const NOT_XML = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|\p{Surrogate}/gu;

/** Text as it stands in XML: no markup, and no letter that XML does not know. */
export const escapeXml = (text) =>
  String(text).replace(NOT_XML, "�").replace(/[&<>"']/g, (letter) => ESCAPES[letter]);

const round = (value) => Math.round(value * 100) / 100;
const ANCHORS = { center: "middle", right: "end", end: "end" };
const BASELINES = { middle: "central", top: "text-before-edge", bottom: "text-after-edge" };

export class SvgContext {
  /** `measure(text, font)` gives a width: a shape file has no letters of its own. */
  constructor(measure) {
    this.measure = measure;
    this.body = [];
    this.defs = [];
    this.path = [];
    this.stack = [];
    Object.assign(this, {
      fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, lineCap: "butt", lineJoin: "miter",
      font: "10px sans-serif", textAlign: "left", textBaseline: "alphabetic", globalAlpha: 1,
      dash: [], matrix: [1, 0, 0, 1, 0, 0], clips: "",
    });
  }

  /** The whole file. */
  svg(width, height, scale, title) {
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${round(width * scale)}" `
      + `height="${round(height * scale)}" viewBox="0 0 ${round(width)} ${round(height)}">\n`
      + `<title>${escapeXml(title)}</title>\n`
      + `${this.defs.length ? `<defs>${this.defs.join("")}</defs>\n` : ""}`
      + `${this.body.join("\n")}\n</svg>\n`;
  }

  // ---- state ----

  save() {
    const { body, defs, path, stack, measure, ...state } = this;
    this.stack.push({ ...state, matrix: [...this.matrix], dash: [...this.dash] });
  }

  restore() {
    Object.assign(this, this.stack.pop());
  }

  transform(a, b, c, d, e, f) {
    const [A, B, C, D, E, F] = this.matrix;
    this.matrix = [
      A * a + C * b, B * a + D * b, A * c + C * d, B * c + D * d,
      A * e + C * f + E, B * e + D * f + F,
    ];
  }

  translate(x, y) {
    this.transform(1, 0, 0, 1, x, y);
  }

  scale(x, y) {
    this.transform(x, 0, 0, y, 0, 0);
  }

  rotate(angle) {
    const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
    this.transform(cos, sin, -sin, cos, 0, 0);
  }

  setLineDash(dash) {
    this.dash = dash;
  }

  clip() {
    const outer = this.clips ? ` clip-path="url(#${this.clips})"` : "";
    this.clips = this.#define("clipPath", outer, `<path d="${this.#d()}"${this.#placed()}/>`);
  }

  // ---- path ----

  beginPath() {
    this.path = [];
  }

  closePath() {
    this.path.push("Z");
  }

  moveTo(x, y) {
    this.#add("M", x, y);
  }

  lineTo(x, y) {
    this.#add(this.path.length ? "L" : "M", x, y);
  }

  bezierCurveTo(...points) {
    this.#add("C", ...points);
  }

  quadraticCurveTo(...points) {
    this.#add("Q", ...points);
  }

  rect(x, y, w, h) {
    this.path.push(`M${round(x)} ${round(y)}h${round(w)}v${round(h)}h${round(-w)}Z`);
    this.at = [x, y];
  }

  roundRect(x, y, w, h, radius) {
    const r = Math.max(0, Math.min(radius, w / 2, h / 2));
    const turn = (dx, dy) => `a${round(r)} ${round(r)} 0 0 1 ${round(dx)} ${round(dy)}`;
    this.path.push(`M${round(x + r)} ${round(y)}h${round(w - 2 * r)}${turn(r, r)}`
      + `v${round(h - 2 * r)}${turn(-r, r)}h${round(2 * r - w)}${turn(-r, -r)}`
      + `v${round(2 * r - h)}${turn(r, -r)}Z`);
    this.at = [x, y];
  }

  arc(x, y, radius, start, end, isBack = false) {
    this.ellipse(x, y, radius, radius, 0, start, end, isBack);
  }

  ellipse(x, y, rx, ry, _turn, start, end, isBack = false) {
    const on = (angle) => [x + rx * Math.cos(angle), y + ry * Math.sin(angle)];
    this.lineTo(...on(start));
    const full = Math.abs(end - start) >= 2 * Math.PI;
    const last = full ? start + (isBack ? -2 : 2) * Math.PI : end;
    const sweep = isBack ? 0 : 1;
    for (const angle of [(start + last) / 2, last]) {
      this.path.push(`A${round(rx)} ${round(ry)} 0 0 ${sweep} ${on(angle).map(round).join(" ")}`);
    }
    this.at = on(last);
  }

  /** A corner at (x1, y1), rounded as far as `radius` allows. */
  arcTo(x1, y1, x2, y2, radius) {
    const [x0, y0] = this.at;
    const [a, b] = [[x0 - x1, y0 - y1], [x2 - x1, y2 - y1]];
    const [la, lb] = [Math.hypot(...a), Math.hypot(...b)];
    const cross = a[0] * b[1] - a[1] * b[0];
    if (!la || !lb || !radius || Math.abs(cross) < 1e-6 * la * lb) {
      this.lineTo(x1, y1);
      return;
    }
    const angle = Math.acos(Math.max(-1, Math.min(1, (a[0] * b[0] + a[1] * b[1]) / (la * lb))));
    const far = radius / Math.tan(angle / 2);
    this.lineTo(x1 + (a[0] / la) * far, y1 + (a[1] / la) * far);
    const to = [x1 + (b[0] / lb) * far, y1 + (b[1] / lb) * far];
    const sweep = cross < 0 ? 1 : 0;
    this.path.push(`A${round(radius)} ${round(radius)} 0 0 ${sweep} ${to.map(round).join(" ")}`);
    this.at = to;
  }

  #add(letter, ...numbers) {
    this.path.push(`${letter}${numbers.map(round).join(" ")}`);
    this.at = numbers.slice(-2);
  }

  #d() {
    return this.path.join("");
  }

  // ---- ink ----

  fill() {
    this.#emit(`<path d="${this.#d()}" fill="${this.#paint(this.fillStyle)}"`);
  }

  stroke() {
    this.#emit(`<path d="${this.#d()}" fill="none"${this.#line()}`);
  }

  fillRect(x, y, w, h) {
    this.#emit(`${this.#box(x, y, w, h)} fill="${this.#paint(this.fillStyle)}"`);
  }

  strokeRect(x, y, w, h) {
    this.#emit(`${this.#box(x, y, w, h)} fill="none"${this.#line()}`);
  }

  clearRect() {} // a picture begins empty

  #box(x, y, w, h) {
    return `<rect x="${round(x)}" y="${round(y)}" width="${round(Math.max(0, w))}" `
      + `height="${round(Math.max(0, h))}"`;
  }

  #line() {
    const dash = this.dash.length ? ` stroke-dasharray="${this.dash.join(" ")}"` : "";
    return ` stroke="${this.#paint(this.strokeStyle)}" stroke-width="${round(this.lineWidth)}"`
      + `${this.lineCap === "butt" ? "" : ` stroke-linecap="${this.lineCap}"`}`
      + `${this.lineJoin === "miter" ? "" : ` stroke-linejoin="${this.lineJoin}"`}${dash}`;
  }

  #emit(element, inside = "") {
    const alpha = this.globalAlpha < 1 ? ` opacity="${round(this.globalAlpha)}"` : "";
    const end = inside ? `>${inside}</text>` : "/>";
    const shape = `${element}${alpha}${this.#placed()}${end}`;
    // a clip is given in the picture's own coordinates, so it goes around what is transformed
    this.body.push(this.clips ? `<g clip-path="url(#${this.clips})">${shape}</g>` : shape);
  }

  #placed() {
    const [a, b, c, d, e, f] = this.matrix;
    if (a === 1 && !b && !c && d === 1) {
      return e || f ? ` transform="translate(${round(e)} ${round(f)})"` : "";
    }
    const numbers = [a, b, c, d].map((v) => Math.round(v * 1e5) / 1e5);
    return ` transform="matrix(${[...numbers, round(e), round(f)].join(" ")})"`;
  }

  // ---- text ----

  measureText(text) {
    return { width: this.measure(text, this.font) };
  }

  fillText(text, x, y) {
    const [, weight, size, family] = /^(?:(\d+) )?([\d.]+)px (.*)$/s.exec(this.font) ?? [];
    const anchor = ANCHORS[this.textAlign];
    const base = BASELINES[this.textBaseline];
    const halo = this.halo?.is(text, x, y) ? this.halo.line : "";
    this.halo = null;
    this.#emit(`<text x="${round(x)}" y="${round(y)}" font-family="${escapeXml(family)}" `
      + `font-size="${size}"${weight && weight !== "400" ? ` font-weight="${weight}"` : ""}`
      + `${anchor ? ` text-anchor="${anchor}"` : ""}`
      + `${base ? ` dominant-baseline="${base}"` : ""}`
      + ` fill="${this.#paint(this.fillStyle)}"${halo}`, escapeXml(text) || " ");
  }

  /** The rim of a text that is filled next: both are one element. */
  strokeText(text, x, y) {
    this.halo = {
      is: (...other) => String(other) === String([text, x, y]),
      line: `${this.#line()} paint-order="stroke"`,
    };
  }

  // ---- paint ----

  #define(tag, attributes, inside) {
    const id = `p${this.defs.length}`;
    this.defs.push(`<${tag} id="${id}"${attributes}>${inside}</${tag}>`);
    return id;
  }

  #paint(style) {
    if (typeof style === "string") return escapeXml(style);
    return `url(#${style.define()})`;
  }

  createLinearGradient(x1, y1, x2, y2) {
    const stops = [];
    let id = "";
    return {
      addColorStop: (at, colour) => {
        stops.push(`<stop offset="${at}" stop-color="${escapeXml(colour)}"/>`);
      },
      define: () => {
        const [a, b, c, d] = [x1, y1, x2, y2].map(round);
        id ||= this.#define("linearGradient",
          ` gradientUnits="userSpaceOnUse" x1="${a}" y1="${b}" x2="${c}" y2="${d}"`,
          stops.join(""));
        return id;
      },
    };
  }

  /** A small canvas, repeated: the textures of shapes.mjs. */
  createPattern(image) {
    let scale = 1;
    let id = "";
    return {
      setTransform: (matrix) => { scale = matrix.a; },
      define: () => {
        const size = `width="${image.width * scale}" height="${image.height * scale}"`;
        id ||= this.#define("pattern", ` patternUnits="userSpaceOnUse" ${size}`,
          `<image href="${image.toDataURL()}" ${size}/>`);
        return id;
      },
    };
  }
}
