// Which rows are shown and where: laid out for the window, scrolled; on a phone those of one task.

import { layoutRows, rowsInWindow } from "./timeline_model.mjs";

const BELOW = 10; // air under the last box
const NEAR = 300; // rows this far off the screen are fetched too

export class RowStack {
  constructor(view) {
    this.view = view;
    this.scroll = 0;
    this.layout = this.task = null;
    this.unfolded = new Set(); // lanes of calls that are shown one by one
  }

  /** The rows of a run as far as it is known. */
  take({ rows, tasks }) {
    this.all = rows;
    this.tasks = tasks;
    this.task ??= tasks.find((task) => task !== "launcher") ?? null;
    this.layout = null;
  }

  /** What all rows of steps take at their loosest: a canvas of few leaves room to the cards. */
  get fullHeight() {
    const stepped = this.all.filter((row) => row.stepped);
    return layoutRows(stepped.length ? stepped : this.all, Infinity).height + BELOW;
  }

  /** The rows that hold something in this window, placed; kept until the window comes to rest. */
  rows() {
    if (!this.layout) {
      const { isWhole, isNarrow, area, window: { from, to } } = this.view;
      const inWindow = rowsInWindow(this.all, from, to, isWhole);
      const shown = isNarrow ? inWindow.filter((row) => row.task === this.task) : inWindow;
      const { unfolded } = this;
      this.layout = layoutRows(shown, area.h - BELOW, { unfolded, isNarrow });
      this.scroll = this.clamp(this.scroll);
    }
    return this.layout;
  }

  /** The rows are placed anew when they are next asked for. */
  drop() {
    this.layout = null;
  }

  /** Rows without a span in the window go; the uppermost one seen stays where it is. */
  settle() {
    const row = this.layout?.rows.find((r) => r.y + r.h > this.scroll);
    const gap = row ? row.y - this.scroll : 0;
    this.layout = null;
    const same = row && this.scroll > 0 ? this.placeOf(row.id) : null;
    if (same) this.scroll = this.clamp(same.y - gap);
  }

  placeOf(id) {
    return this.rows().rows.find((row) => row.id === id) ?? null;
  }

  clamp(y) {
    return Math.max(0, Math.min(y, (this.layout?.height ?? 0) - this.view.area.h + BELOW));
  }

  scrollBy(dy) {
    const before = this.scroll;
    this.scroll = this.clamp(before + dy);
    if (this.scroll !== before) this.changed();
  }

  changed() {
    this.view.load();
    this.view.surface.invalidate();
  }

  /** Scrolls as far as a row needs to be on screen. */
  reveal(id) {
    const row = this.placeOf(id);
    if (!row) return;
    const above = row.y - 8 - this.scroll;
    const below = row.y + row.h + 16 - this.scroll - this.view.area.h;
    this.scrollBy(above < 0 ? above : Math.max(0, below));
  }

  page(direction) {
    const at = this.tasks.indexOf(this.task) + direction;
    if (!this.view.isNarrow) this.scrollBy(direction * this.view.area.h * 0.8);
    else if (this.tasks[at]) this.showTask(this.tasks[at]);
  }

  showTask(task) {
    this.task = task;
    this.scroll = 0;
    this.drop();
    this.changed();
  }

  /** Unfolds the calls of a lane, or folds them again. */
  toggle({ task, lane }) {
    const key = `${task} ${lane}`;
    if (!this.unfolded.delete(key)) this.unfolded.add(key);
    this.drop();
    this.changed();
  }

  isUnfolded({ task, lane }) {
    return this.unfolded.has(`${task} ${lane}`);
  }

  /** Ids of the rows on screen and near it: [first, past the last). */
  near() {
    const bottom = this.scroll + this.view.area.h;
    const near = this.rows().rows.filter(
      (row) => row.y + row.h > this.scroll - NEAR && row.y < bottom + NEAR,
    );
    return near.length ? [near[0].id, near.at(-1).id + 1] : [0, 1];
  }

  /** The row, or the lane, at a height of the canvas. */
  rowAt(y) {
    const within = y - this.view.area.y + this.scroll;
    return this.rows().rows.find((r) => within >= r.y - 1 && within <= r.y + r.h + 1) ?? null;
  }

  laneAt(y) {
    const within = y - this.view.area.y + this.scroll;
    return this.rows().lanes.find((l) => within >= l.y && within <= l.y + l.h) ?? null;
  }
}
