// What a view saves: shapes as paths, names as text that is never markup.
import assert from "node:assert/strict";
import { test } from "node:test";

import { svgOf } from "../../assets/picture.mjs";
import { roundRect, roundedPath } from "../../assets/shapes.mjs";
import { SvgContext, escapeXml } from "../../assets/svg_context.mjs";

const measure = (text) => 7 * Array.from(text).length;
const theme = { bg: "#eee", panel: "#fff", line: "#ddd", ink: "#000", ink2: "#444" };
const HOSTILE = "<img src=x onerror=alert(1)>&\"'\u0007";

const picture = (draw, more = {}) => ({
  name: "p", title: "run", facts: "stage", width: 400, height: 200, theme, legend: [],
  scale: "log scale", draw, ...more,
});

test("a name that wants to be markup is text, wherever it stands", () => {
  const svg = svgOf(picture((ctx) => {
    ctx.font = `400 12px "${HOSTILE}"`;
    ctx.fillText(HOSTILE, 10, 10);
  }, { title: HOSTILE, facts: HOSTILE, scale: HOSTILE, legend: [
    { width: 10, text: "x<b>", paint() {} },
  ] }), measure);
  assert.ok(!/<img|<b>|onerror=alert\(1\)>&"/.test(svg));
  assert.ok(svg.includes("&lt;img src=x onerror=alert(1)&gt;&amp;&quot;&#39;�"));
  assert.equal(escapeXml("a\ud800b"), "a�b");
});

test("a picture is twice as large as on screen, with title, legend and scale", () => {
  const legend = [{ width: 10, text: "Send", paint() {} }];
  const svg = svgOf(picture(() => {}, { legend }), measure);
  assert.match(svg, /width="800" height="604" viewBox="0 0 400 302"/);
  for (const text of ["run", "stage", "Send", "log scale"]) assert.ok(svg.includes(`>${text}<`));
});

test("state is restored, and shapes stand where transforms put them", () => {
  const ctx = new SvgContext(measure);
  ctx.save();
  ctx.translate(10, 20);
  ctx.scale(2, 2);
  ctx.fillStyle = "#123456";
  ctx.fillRect(1, 2, 3, 4);
  ctx.restore();
  ctx.fillRect(0, 0, 1, 1);
  const [first, second] = ctx.body;
  assert.match(first, /transform="matrix\(2 0 0 2 10 20\)"/);
  assert.match(first, /fill="#123456"/);
  assert.match(second, /fill="#000"\/>/);
});

test("what is clipped twice stays in both", () => {
  const ctx = new SvgContext(measure);
  for (const w of [50, 20]) {
    ctx.beginPath();
    ctx.rect(0, 0, w, w);
    ctx.clip();
  }
  ctx.fillRect(0, 0, 99, 99);
  assert.match(ctx.defs[1], /clip-path="url\(#p0\)"/);
  assert.match(ctx.body[0], /^<g clip-path="url\(#p1\)">/);
});

test("round corners, circles and dashes are drawn as the canvas draws them", () => {
  const ctx = new SvgContext(measure);
  roundedPath(ctx, [[0, 0], [40, 0], [40, 40]], 9);
  ctx.setLineDash([3, 2]);
  ctx.stroke();
  assert.match(ctx.body[0], /d="M0 0L31 0A9 9 0 0 1 40 9L40 40"/);
  assert.match(ctx.body[0], /stroke-dasharray="3 2"/);
  ctx.beginPath();
  ctx.arc(10, 10, 5, 0, 7);
  ctx.fill();
  assert.match(ctx.body[1], /d="M15 10A5 5 0 0 1 5 10A5 5 0 0 1 15 10"/);
  roundRect(ctx, 0, 0, 10, 10, 99);
  ctx.fill();
  assert.match(ctx.body[2], /a5 5 0 0 1 5 5/);
});

test("a halo and its text are one element, a gradient is defined once", () => {
  const ctx = new SvgContext(measure);
  ctx.strokeText("fc1", 1, 2);
  ctx.fillText("fc1", 1, 2);
  assert.equal(ctx.body.length, 1);
  assert.match(ctx.body[0], /paint-order="stroke"/);
  const paint = ctx.createLinearGradient(0, 0, 10, 0);
  paint.addColorStop(0, "#fff");
  ctx.fillStyle = paint;
  ctx.fillRect(0, 0, 1, 1);
  ctx.fillRect(2, 0, 1, 1);
  assert.equal(ctx.defs.length, 1);
});
