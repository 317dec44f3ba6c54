// One bar of the timeline, by what it is: op, update, Send, Recv with its wait, rail, call, fault.
// Painters take screen pixels; a row's clip is set by the caller.

import { ellipsis, font, formatBytes, formatNs, textWidth } from "./core.mjs";
import { polygon, roundRect } from "./shapes.mjs";
import { FLAG, LABEL_PX, isFault, tensorName } from "./timeline_model.mjs";

const THIN_PX = 1.5; // what is shorter than a pixel is still seen
const FAULT_PX = 3;
const CALLED_PX = 130; // what a name beside a fault may take
const POINTED_PX = 8; // narrower tags are plain
const MARGIN_PX = 20; // how far off the screen is still drawn
const ROUND_PX = 20; // narrower bars have square corners, which costs a tenth
const LEAST_TEXTURE_PX = 3; // lower ones are specks

/** Fill, outline, text colour and texture of each hue, in the order of a tile's `hues`. */
export function palette(theme, patterns, hues) {
  return hues.map((hue) => {
    if (hue === "frame") {
      return { fill: theme.sunk, edge: theme.line2, text: theme.ink, pattern: null };
    }
    return {
      fill: theme[hue],
      edge: hue === "idle" ? theme.line2 : theme[`${hue}-s`],
      text: theme[`on-${hue}`] ?? (hue === "idle" && theme.isDark ? theme.ink : theme["on-hue"]),
      pattern: { update: patterns.level, collective: patterns.diagonal }[hue] ?? null,
    };
  });
}

/** Paints the rows of one tile: bars and columns, over them faults, over all the names, which
 *  `labels` gathers. */
export class BarPainter {
  constructor(ctx, tile, { theme, patterns, scale, width, words, stepsByStart }) {
    Object.assign(this, { ctx, tile, theme, patterns, scale, width, words, stepsByStart });
    this.look = palette(theme, patterns, tile.hues);
    this.hue = Object.fromEntries(tile.hues.map((name, i) => [name, i]));
    this.labels = [];
  }

  /** Begins a row at height y. */
  row(y, h) {
    this.y = y;
    this.h = h;
    this.reached = -Infinity; // right end of what is drawn in this row so far
    this.called = -Infinity; // right end of the last name beside a fault
  }

  /** Several spans: work from the ground up, above it what stood still, then what was ready. */
  column(x, w, share, hue, stood = 0, queued = 0) {
    const { ctx, y, h } = this;
    const least = stood || queued ? 0 : 2;
    const tall = Math.max(share ? 2 : least, h * share);
    ctx.fillStyle = hue === this.hue.frame ? this.theme.line2 : this.look[hue].fill;
    ctx.fillRect(x, y + h - tall, w, tall);
    let top = y + h - tall;
    for (const [texture, part] of [["hatch", stood], ["dots", queued]]) {
      const high = Math.min(h * part, top - y);
      if (high < LEAST_TEXTURE_PX) continue;
      top -= high;
      this.cover(this.patterns[texture], x, top, w, high);
    }
    this.reached = x + w;
  }

  bar(i, x, w) {
    const { tile } = this;
    if (tile.queue[i]) this.queue(x, tile.queue[i] * this.scale);
    if (this.isRecv(i)) this.recv(i, x, w);
    else if (this.isServed(i)) this.served(i, x, w);
    else this.plain(i, x, w);
    this.reached = Math.max(this.reached, x + Math.max(w, THIN_PX));
  }

  /** Bar, fault and name of one span, whatever it is. */
  whole(i, x, w) {
    if (isFault(this.tile, i)) {
      this.fault(i, x, w);
      return;
    }
    this.bar(i, x, w);
    this.name(i, x, w);
  }

  isRecv(i) {
    return this.tile.hue[i] === this.hue.recv;
  }

  isServed(i) {
    return this.tile.hue[i] === this.hue.idle && this.tile.wait[i] > 0;
  }

  /** Ready but not run: dots at half height, as far back as nothing else stands there. */
  queue(x, w) {
    const begin = Math.max(x - w, this.reached);
    const seen = x - begin < 2 ? null : this.seen(begin, x - begin);
    if (!seen) return;
    const [left, wide] = seen;
    const { ctx, y, h } = this;
    ctx.fillStyle = this.patterns.dots;
    ctx.fillRect(left, y + h / 4, wide, h / 2);
    ctx.strokeStyle = this.theme.line2;
    ctx.lineWidth = 1;
    if (wide > 5) ctx.strokeRect(left + 0.5, y + h / 4 + 0.5, wide - 1, h / 2 - 1);
  }

  plain(i, x, w) {
    const hue = this.tile.hue[i];
    const look = this.look[hue];
    if (hue === this.hue.send && w >= POINTED_PX) this.tag(look, sendPoints, x, w);
    else this.rect(look, x, w);
  }

  /** The part of an extent that is on screen or just off it, [left, width]; null for none. A path
   *  of a million pixels is slow to stroke. */
  seen(x, w) {
    const left = Math.max(x, -MARGIN_PX);
    const right = Math.min(x + w, this.width + MARGIN_PX);
    return right > left ? [left, right - left] : null;
  }

  rect({ fill, edge, pattern }, x, width) {
    const { ctx, y, h } = this;
    const w = Math.max(width, THIN_PX);
    const seen = this.seen(x, w);
    if (!seen) return;
    if (w <= FAULT_PX) {
      ctx.fillStyle = fill;
      ctx.fillRect(x, y, w, h);
    } else if (w < ROUND_PX) {
      ctx.fillStyle = edge;
      ctx.fillRect(x, y, w, h);
      ctx.fillStyle = fill;
      ctx.fillRect(x + 0.8, y + 0.8, w - 1.6, h - 1.6);
      if (pattern && w >= 6) this.cover(pattern, x + 1, y + 1, w - 2, h - 2);
    } else {
      const [left, wide] = seen;
      roundRect(ctx, left + 0.5, y + 0.5, Math.max(0, wide - 1), h - 1, 3);
      ctx.fillStyle = fill;
      ctx.fill();
      if (pattern) this.cover(pattern, left + 1, y + 1, wide - 2, h - 2);
      ctx.strokeStyle = edge;
      ctx.lineWidth = 1;
      ctx.stroke();
    }
  }

  cover(pattern, x, y, w, h) {
    this.ctx.fillStyle = pattern;
    this.ctx.fillRect(x, y, w, h);
  }

  tag({ fill, edge }, pointsOf, x, w) {
    const { ctx } = this;
    const seen = this.seen(x, w);
    if (!seen) return;
    polygon(ctx, pointsOf(seen[0], this.y, seen[1], this.h));
    ctx.fillStyle = fill;
    ctx.fill();
    ctx.strokeStyle = edge;
    ctx.lineWidth = 1;
    ctx.stroke();
  }

  /** Asked for: a thin line. Nothing else to do: hatched. Then the transfer, notched. */
  recv(i, x, w) {
    const look = this.look[this.hue.recv];
    const { stood, came } = this.instants(i, x);
    this.whisker(x, stood);
    if (came - stood >= 2) this.hatch(stood, came - stood);
    const rest = x + w - came;
    if (rest >= POINTED_PX) this.tag(look, recvPoints, came, rest);
    else this.rect(look, came, rest);
  }

  /** Where a Recv that begins at x had nothing else to do, and where its value came. */
  instants(i, x) {
    const came = x + this.tile.wait[i] * this.scale;
    return { stood: came - this.tile.stood[i] * this.scale, came };
  }

  whisker(from, to) {
    const seen = this.seen(from, to - from);
    if (!seen || to - from < 2) return;
    const { ctx, y, h } = this;
    const middle = Math.round(y + h / 2) + 0.5;
    const tall = Math.min(7, h);
    ctx.fillStyle = this.theme.line2;
    ctx.fillRect(seen[0], middle - 0.5, seen[1], 1);
    ctx.fillRect(from, middle - tall / 2, 1, tall);
  }

  hatch(x, w) {
    const { ctx, y, h } = this;
    const seen = this.seen(x, w);
    if (!seen) return;
    const [left, wide] = seen;
    ctx.fillStyle = this.patterns.hatch;
    ctx.fillRect(left, y + 1, wide, h - 2);
    if (wide > 5) {
      ctx.strokeStyle = this.theme.line2;
      ctx.lineWidth = 1;
      roundRect(ctx, left + 0.5, y + 0.5, wide - 1, h - 1, 2);
      ctx.stroke();
    }
  }

  /** A served call that waited for its value: a thin line, then the time it worked. */
  served(i, x, w) {
    const wait = this.servedWait(i, w);
    this.whisker(x, x + wait);
    this.rect(this.look[this.tile.hue[i]], x + wait, w - wait);
  }

  servedWait(i, w) {
    return Math.min(w, this.tile.wait[i] * this.scale);
  }

  /** Never merged: what failed, what nobody saw end, and a fault that was asked for. */
  fault(i, x, w) {
    if (this.tile.hue[i] === this.hue.error) {
      this.struck(i, x, w);
      return;
    }
    if (this.tile.flags[i] & FLAG.error) {
      this.failed(i, x, w);
      return;
    }
    this.bar(i, x, w);
    this.openEnd(x, w);
    this.name(i, x, w);
  }

  /** The moment of a fault, and which one it was. */
  struck(i, x, width) {
    const { ctx, y, h, theme } = this;
    strikeShape(ctx, theme, x, y, h);
    const ground = { text: theme.ink, chip: theme.panel };
    this.write([this.nameOf(i)], ground, x + 6, Math.max(width, CALLED_PX));
  }

  /** At least 3 px: a tinted, dashed, crossed bar, or a line with a flag on it. */
  failed(i, x, width) {
    const { ctx, y, h, theme } = this;
    const w = Math.max(width, FAULT_PX);
    if (w < 12) {
      ctx.fillStyle = theme.error;
      ctx.fillRect(x, y, w, h);
      polygon(ctx, [[x + w / 2 - 5, y - 1], [x + w / 2 + 5, y - 1], [x + w / 2, y + 6]]);
      ctx.fill();
      this.call(i, x, w);
      return;
    }
    const [left, wide] = this.seen(x, w) ?? [x, 0];
    roundRect(ctx, left + 0.5, y + 0.5, Math.max(0, wide - 1), h - 1, 3);
    ctx.fillStyle = theme.panel;
    ctx.fill();
    ctx.globalAlpha = 0.25;
    ctx.fillStyle = theme.error;
    ctx.fill();
    ctx.globalAlpha = 1;
    ctx.strokeStyle = theme["error-s"];
    ctx.lineWidth = 1.4;
    ctx.setLineDash([4, 3]);
    ctx.stroke();
    ctx.setLineDash([]);
    this.cross(Math.max(x, 0) + 10);
    if (w < LABEL_PX + 16) this.call(i, x, w);
    else this.label(i, { text: theme.ink }, Math.max(x, 0) + 16, x + w - Math.max(x, 0) - 16);
  }

  /** A fault too narrow for its name has it beside it, unless another one's stands there. */
  call(i, x, w) {
    if (x < this.called || x < 0) return;
    const ground = { text: this.theme.ink, chip: this.theme.panel };
    const wide = Math.min(CALLED_PX, textWidth(this.ctx, this.nameOf(i), font(11.5, 600)) + 14);
    const isLast = x + w + wide > this.width; // then before it
    this.write([this.nameOf(i)], ground, isLast ? x - wide - 6 : x + w, wide);
    this.called = x + w + CALLED_PX;
  }

  cross(x) {
    const { ctx, y, h } = this;
    const [middle, r] = [y + h / 2, Math.min(4, h / 4)];
    ctx.beginPath();
    ctx.moveTo(x - r, middle - r);
    ctx.lineTo(x + r, middle + r);
    ctx.moveTo(x + r, middle - r);
    ctx.lineTo(x - r, middle + r);
    ctx.stroke();
  }

  /** Nobody saw this one end: its right side is open and in error, with a cross before it. */
  openEnd(x, w) {
    const { ctx, y, h, theme } = this;
    if (w > 28 && h > 11) {
      ctx.strokeStyle = theme.panel;
      ctx.lineWidth = 5;
      this.cross(x + w - 11);
      ctx.strokeStyle = theme["error-s"];
      ctx.lineWidth = 2;
      this.cross(x + w - 11);
    }
    ctx.strokeStyle = theme["error-s"];
    ctx.lineWidth = 2.6;
    ctx.setLineDash([3, 2]);
    ctx.beginPath();
    ctx.moveTo(x + Math.max(w, FAULT_PX), y - 1);
    ctx.lineTo(x + Math.max(w, FAULT_PX), y + h + 1);
    ctx.stroke();
    ctx.setLineDash([]);
  }

  nameOf(i) {
    return this.tile.names[this.tile.name[i]];
  }

  /** What a bar is called, where its part that carries names lies. */
  name(i, x, w) {
    const look = this.look[this.tile.hue[i]];
    if (this.isRecv(i)) {
      const { stood, came } = this.instants(i, x);
      const ground = { text: this.theme.ink, chip: this.theme.panel };
      this.write([tensorName(this.nameOf(i)), this.words.waiting], ground, stood, came - stood);
      this.label(i, look, came + 4, x + w - came - 4);
    } else {
      const wait = this.isServed(i) ? this.servedWait(i, w) : 0;
      this.label(i, look, x + wait, w - wait);
    }
  }

  label(i, look, x, w) {
    if (w < LABEL_PX) return;
    const { tile } = this;
    const isTransfer = tile.hue[i] === this.hue.recv || tile.hue[i] === this.hue.send;
    const name = isTransfer ? tensorName(this.nameOf(i)) : this.nameOf(i);
    const fact = isTransfer ? tile.bytes[i] && formatBytes(tile.bytes[i])
      : [...this.stepOf(i), formatNs(tile.duration[i])].join(" · ");
    this.write([name, fact], { ...look, chip: look.pattern ? look.fill : null }, x, w);
  }

  /** Which step a frame is: beside the one that is looked at, other workers run others. */
  stepOf(i) {
    const number = this.tile.hue[i] === this.hue.frame
      ? this.stepsByStart?.get(this.tile.start[i]) : undefined;
    return number === undefined ? [] : [this.words.in_step.replace("{step}", number)];
  }

  /** Remembers a text for after the bars: as many of `parts` as fit where the bar is on screen. */
  write(parts, { text, chip }, x, w) {
    const left = Math.max(x, 0) + 6;
    const room = Math.min(x + w, this.width) - 5 - left;
    if (room < 24 || this.h < 13) return;
    const size = this.h >= 28 ? 12 : this.h >= 17 ? 11.5 : 10.5;
    this.labels.push({ parts, text, chip, x: left, y: this.y, h: this.h, room, size });
  }

  /** Writes all labels. Names of scopes are cut from the left: the end tells them apart. */
  writeLabels() {
    const { ctx } = this;
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    for (const { parts, text, chip, x, y, h, room, size } of this.labels) {
      const strong = font(size, 600);
      const measure = (words) => textWidth(ctx, words, strong);
      const cut = parts[0].includes("/") ? "start" : "end";
      const name = ellipsis(parts[0], measure, room, { cut });
      if (!name) continue;
      const width = measure(name);
      const plain = font(size, 400);
      const fact = parts[1] && name === parts[0]
        && width + 7 + textWidth(ctx, parts[1], plain) <= room ? parts[1] : "";
      const middle = y + h / 2 + 0.5;
      if (chip) {
        const end = fact ? width + 7 + textWidth(ctx, fact, plain) : width;
        ctx.fillStyle = chip;
        roundRect(ctx, x - 3, middle - size / 2 - 2, end + 6, size + 4, 3);
        ctx.fill();
      }
      ctx.fillStyle = text;
      ctx.font = strong;
      ctx.fillText(name, x, middle);
      if (!fact) continue;
      ctx.font = plain;
      ctx.fillText(fact, x + width + 7, middle);
    }
    this.labels = [];
  }
}

/** A pole at x with a pennant to the right, in the hue of faults. */
export function strikeShape(ctx, theme, x, y, h) {
  ctx.fillStyle = theme.error;
  ctx.fillRect(x - 1, y, 2, h);
  polygon(ctx, [[x, y], [x + 9, y + 4], [x, y + 8]]);
  ctx.fill();
}

const sendPoints = (x, y, w, h) => {
  const tip = Math.min(w * 0.4, h * 0.32);
  return [[x, y], [x + w - tip, y], [x + w, y + h / 2], [x + w - tip, y + h], [x, y + h]];
};

const recvPoints = (x, y, w, h) => {
  const notch = Math.min(w * 0.4, h * 0.24);
  return [[x, y], [x + w, y], [x + w, y + h], [x, y + h], [x + notch, y + h / 2]];
};
