// The timeline in words: one line for a span, and all of the window as a table, which is what a
// screen reader gets, and anyone who presses L.

import { formatBytes, formatNs, grouped } from "./core.mjs";
import { laneTitle } from "./timeline_model.mjs";

const MOST_STALLS = 12;
const MOST = 400; // a longer table is no easier to read than the picture

/** One line: name, type, how long, and what it carries. */
export function lineOf(words, tile, i) {
  const said = (key, ns) => words[key].replace("{time}", formatNs(ns));
  return [
    tile.names[tile.name[i]], tile.ops[tile.op[i]], formatNs(tile.duration[i]),
    tile.wait[i] ? said("waited", tile.wait[i]) : "",
    tile.queue[i] >= 1000 ? said("queued", tile.queue[i]) : "",
    tile.bytes[i] ? formatBytes(tile.bytes[i]) : "",
  ].filter(Boolean).join(" · ");
}

/** The boxes of a view's window by start. */
export function rowsOf(view) {
  const { tile, origin } = view;
  const { from, to } = view.window;
  const shown = new Map(view.stack.rows().rows.map((row) => [row.id, row]));
  const rows = [];
  for (let i = 0; i < (tile?.count ?? 0); i += 1) {
    const row = shown.get(tile.row[i]);
    if (!row || tile.start[i] + tile.duration[i] < from || tile.start[i] > to) continue;
    rows.push({
      i, task: row.task, lane: laneTitle(row.label, view.words), name: tile.names[tile.name[i]],
      op: tile.ops[tile.op[i]], start: tile.start[i] - origin, duration: tile.duration[i],
      wait: tile.wait[i], bytes: tile.bytes[i],
    });
  }
  return rows.sort((a, b) => a.start - b.start);
}

/** What is said of the stalls of a view's window, longest first. */
export function stallsOf({ findings, window: { from, to } }) {
  const seen = findings.shown.stalls.filter(({ start, end }) => end > from && start < to);
  return seen.slice(0, MOST_STALLS).map((stall) => findings.sentenceOf(stall));
}

export class SpanTable {
  /** `choose(i)` is told which box was chosen, `closed()` when the table went. */
  constructor(host, words, { choose, closed }) {
    Object.assign(this, { words, choose, closed });
    this.panel = document.createElement("section");
    this.panel.className = "timeline-table";
    this.panel.tabIndex = -1;
    this.panel.hidden = true;
    this.panel.setAttribute("aria-label", words.table.title);
    this.panel.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" && event.key.toLowerCase() !== "l") return;
      event.stopPropagation();
      this.close();
    });
    this.live = document.createElement("div");
    this.live.className = "unseen";
    this.live.setAttribute("aria-live", "polite");
    host.append(this.panel, this.live);
  }

  /** Tells a screen reader what has the keyboard's focus on the canvas. */
  say(text) {
    this.live.textContent = text;
  }

  toggle(view) {
    if (!this.panel.hidden) {
      this.close();
      return;
    }
    this.panel.hidden = false;
    this.fill(rowsOf(view), stallsOf(view));
    this.panel.focus();
  }

  close() {
    this.panel.hidden = true;
    this.closed();
  }

  refresh(view) {
    if (!this.panel.hidden) this.fill(rowsOf(view), stallsOf(view));
  }

  fill(rows, stalls) {
    const { words } = this;
    const shown = rows.slice(0, MOST);
    const caption = words.table.caption.replace("{shown}", grouped(shown.length))
      .replace("{count}", grouped(rows.length));
    const table = make("table");
    table.append(make("caption", caption));
    const head = make("tr");
    for (const name of ["name", "op", "task", "lane", "start", "duration", "wait", "bytes"]) {
      const cell = make("th", words.table[name]);
      cell.scope = "col";
      head.append(cell);
    }
    table.append(wrap("thead", head));
    const body = make("tbody");
    for (const row of shown) body.append(this.row(row));
    table.append(body);
    const close = make("button", words.table.close);
    close.className = "button";
    close.type = "button";
    close.addEventListener("click", () => this.close());
    const said = make("ul");
    said.className = "timeline-stalls";
    for (const sentence of stalls) said.append(make("li", sentence));
    this.panel.replaceChildren(close, ...(stalls.length ? [said] : []), table);
  }

  row({ i, name, op, task, lane, start, duration, wait, bytes }) {
    const line = make("tr");
    const pick = make("button", name);
    pick.type = "button";
    pick.addEventListener("click", () => this.choose(i));
    line.append(wrap("td", pick));
    const cells = [op, task, lane, formatNs(start), formatNs(duration),
      wait ? formatNs(wait) : "", bytes ? formatBytes(bytes) : ""];
    for (const text of cells) line.append(make("td", text));
    return line;
  }
}

function make(tag, text = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  return made;
}

function wrap(tag, child) {
  const made = document.createElement(tag);
  made.append(child);
  return made;
}
