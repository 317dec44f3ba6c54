// What the analyses found: critical path and stalls of the step that is looked at, what stands out
// in the run, and the way from one of these to the next. Buttons of the page carry data-shows
// (shown or not), data-stand-out (which; with its data-step and data-task) and data-walk (forwards
// or back).

import { visit } from "./selection.mjs";
import { placeFlags } from "./timeline_flags.mjs";
import { stepOfTask } from "./timeline_model.mjs";
import { fill, stallAt } from "./timeline_stalls.mjs";
import { STRIP_HEAD, stripSize, stripX } from "./timeline_strip.mjs";

const AGAIN_MS = 10_000; // a growing run is looked through no more often
const AIR = 0.3; // beside a stall that is jumped to, of its length

export class Findings {
  constructor(view) {
    this.view = view;
    this.key = this.place = "";
    this.path = null;
    this.stalls = this.standOuts = [];
    this.current = null; // id of the one that was jumped to last
    this.target = null; // which one is on its way
    this.asked = -Infinity;
    this.turn = 0; // counts what was asked of the run; whoever finds another number comes too late
    this.timers = {};
    this.reasons = {}; // why the step's or the run's did not come
    const hidden = new URLSearchParams(location.search).get("hide") ?? "";
    this.hidden = new Set(hidden.split(" ").filter(Boolean));
    this.click = ({ target }) => this.pressed(target.closest?.(
      "[data-shows], [data-stand-out], [data-walk]",
    )?.dataset);
    document.addEventListener("click", this.click);
    this.lists = new MutationObserver(() => this.show()); // the page makes its list anew
    const card = document.getElementById("timeline-span");
    if (card) this.lists.observe(card, { childList: true });
    this.show();
  }

  stop() {
    Object.values(this.timers).forEach(clearTimeout);
    this.lists.disconnect();
    document.removeEventListener("click", this.click);
  }

  pressed(data) {
    if (!data) return;
    if (data.shows) this.toggle(data.shows);
    else if (data.walk) this.walk(Number(data.walk));
    else this.jumpTo(data.standOut, { step: Number(data.step), task: data.task });
  }

  /** Which one was jumped to last, in the list as it is now. */
  get at() {
    return this.standOuts.findIndex(({ id }) => id === this.current);
  }

  // ---- what does not come ----

  /** Why the analyses' answers are missing; "" when they are not. */
  get problem() {
    const [reason = ""] = Object.values(this.reasons);
    return reason && this.view.words.findings_failed.replace("{reason}", reason);
  }

  came(what) {
    delete this.reasons[what];
    this.view.tell();
    this.view.surface.invalidate();
  }

  failed(what, { message }, again) {
    this.reasons[what] = message;
    this.timers[what] = setTimeout(again, AGAIN_MS);
    this.view.tell();
  }

  // ---- of the step ----

  /** Asked once a step; again when it has grown, or when all times or rows have moved. */
  async ask(step) {
    const place = step
      ? `${step.task} ${step.number} ${step.start} ${this.view.head.rows.length}` : "";
    const key = step ? `${place} ${step.end}` : "";
    if (key === this.key) return;
    clearTimeout(this.timers.step);
    if (place !== this.place) [this.path, this.stalls] = [null, []];
    [this.key, this.place] = [key, place];
    try {
      const found = step && await this.view.source.findings(step);
      if (key !== this.key || this.view.isGone) return;
      [this.path, this.stalls] = [found?.path ?? null, found?.stalls ?? []];
      this.came("step");
    } catch (error) {
      if (key !== this.key || this.view.isGone) return;
      this.key = null;
      this.failed("step", error, () => this.ask(step));
    }
  }

  /** What a scene draws of it. */
  get shown() {
    return {
      path: this.hidden.has("path") ? null : this.path,
      stalls: this.hidden.has("stalls") ? [] : this.stalls,
      flags: this.flags, flag: this.at,
    };
  }

  toggle(mark) {
    if (!this.hidden.delete(mark)) this.hidden.add(mark);
    visit({ hide: [...this.hidden].join(" ") }, { replace: true });
    this.show();
    this.view.surface.invalidate();
  }

  /** The stall under a point of the canvas; null for none. */
  under(x, y) {
    const row = this.view.stack.rowAt(y);
    return row && stallAt(this.shown.stalls, row.id, this.view.timeAt(x), this.view.scale);
  }

  said(x, y) {
    const stall = this.under(x, y);
    return stall && this.sentenceOf(stall);
  }

  /** What a click on a stall selects: its cause, and what ran next. */
  selectionAt(x, y) {
    const id = this.under(x, y)?.sel;
    return id ? { type: "stall", id } : null;
  }

  sentenceOf({ key, values }) {
    return fill(this.view.words.stall[key], values);
  }

  // ---- of the run ----

  /** What comes too soon after the last question is asked later: it may be the last that comes.
   *  `isMoved`: times or rows have changed, so what is known is wrong. */
  async askRun(isMoved = false) {
    clearTimeout(this.timers.run);
    if (isMoved) {
      [this.standOuts, this.target, this.asked] = [[], null, -Infinity];
      this.show();
    }
    const pause = this.asked + AGAIN_MS - performance.now();
    if (pause > 0) {
      this.timers.run = setTimeout(() => this.askRun(), pause);
      return;
    }
    this.asked = performance.now();
    this.turn += 1;
    const { turn } = this;
    try {
      const found = await this.view.source.standsOut();
      if (turn !== this.turn || this.view.isGone) return;
      this.standOuts = found;
      this.show();
      this.came("run");
    } catch (error) {
      if (turn !== this.turn || this.view.isGone) return;
      this.failed("run", error, () => this.askRun());
    }
  }

  /** The flags in the strip, where its picture has them now. */
  get flags() {
    const { area, head } = this.view;
    if (!this.standOuts.length || this.view.isNarrow) return [];
    const { tasks } = head.strip;
    const { pitch, rowH } = stripSize(tasks.length);
    const rowOf = ({ row }) => {
      const task = this.view.rowsById.get(row)?.task;
      const at = tasks.findIndex((one) => one.task === task);
      const top = STRIP_HEAD + Math.max(0, at) * pitch;
      return at < 0 ? [STRIP_HEAD - 2, STRIP_HEAD + tasks.length * pitch - 4] : [top, top + rowH];
    };
    const xOf = (at) => stripX({ strip: head.strip, area }, at);
    return placeFlags(this.standOuts, xOf, rowOf, area.x + area.w);
  }

  saidOf(i) {
    const { key, values } = this.standOuts[i];
    const { slow, stall } = this.view.words;
    return fill(slow[key] ?? stall[key], values);
  }

  walk(way) {
    const count = this.standOuts.length;
    const from = this.at < 0 && way < 0 ? 0 : this.at;
    if (count) this.jump((from + way + count) % count);
  }

  jump(i) {
    const one = this.standOuts[i];
    if (one) this.jumpTo(one.id, one);
  }

  /** Its step is shown; of a stall only the time around it. A row of the page may tell of one that
   *  is not in the list any more: of this the step is known. */
  jumpTo(id, { step, task }) {
    const { view } = this;
    this.current = id;
    this.target = this.standOuts[this.at] ?? { step, task, row: -1 };
    this.show();
    view.growth.release();
    if (this.at >= 0) view.table.say(this.saidOf(this.at));
    const { set_props: setProps } = globalThis.dash_clientside ?? {};
    if (view.step?.number === step || !setProps) this.land(step);
    else setProps("step", { data: step });
  }

  /** Whether the step that comes into view is that of a jump: then its window is shown. */
  land(number) {
    const { view, target } = this;
    this.target = null;
    if (target?.step !== number) return false;
    const step = stepOfTask(view.head.steps, number, target.task);
    if (step) view.setStep(step);
    const isWhole = target.row < 0;
    if (isWhole) view.showMode("step");
    else {
      const air = (target.end - target.start) * AIR;
      view.moveTo(target.start - air, target.end + air, "window");
      view.stack.reveal(target.row);
    }
    return true;
  }

  /** The page's buttons say what is shown. */
  show() {
    const buttons = (name) => document.querySelectorAll(`.timeline-page [data-${name}]`);
    for (const button of buttons("shows")) {
      button.setAttribute("aria-pressed", String(!this.hidden.has(button.dataset.shows)));
    }
    for (const button of buttons("stand-out")) {
      button.setAttribute("aria-current", String(button.dataset.standOut === this.current));
    }
    const count = this.standOuts.length;
    for (const button of buttons("walk")) button.disabled = !count;
    const said = document.getElementById("timeline-walk");
    if (said) said.textContent = count ? `${this.at < 0 ? "" : `${this.at + 1} / `}${count}` : "";
  }
}
