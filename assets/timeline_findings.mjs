// What the analyses found: critical path and stalls of the step that is looked at, what stands out
// in the run, and the way from one of these to the next. Buttons of the page carry data-mark (shown
// or not), data-stand-out (which) and data-walk (forwards or back).

import { visit } from "./selection.mjs";
import { placeFlags } from "./timeline_flags.mjs";
import { stepOf } from "./timeline_model.mjs";
import { fill, stallAt } from "./timeline_stalls.mjs";
import { STRIP_HEAD, stripSize, stripX } from "./timeline_strip.mjs";

const AGAIN_MS = 10_000; // a growing run is looked through no more often
const AIR = 0.3; // beside a stall that is jumped to, of its length

export class Findings {
  constructor(view) {
    this.view = view;
    this.key = "";
    this.path = null;
    this.stalls = this.standOuts = [];
    this.at = -1; // which one was jumped to last
    this.target = null; // which one is on its way
    this.asked = -Infinity;
    const hidden = new URLSearchParams(location.search).get("hide") ?? "";
    this.hidden = new Set(hidden.split(" ").filter(Boolean));
    this.click = ({ target }) => this.pressed(target.closest?.(
      "[data-mark], [data-stand-out], [data-walk]",
    )?.dataset);
    document.addEventListener("click", this.click);
    this.lists = new MutationObserver(() => this.show()); // the page makes its list anew
    const card = document.getElementById("timeline-span");
    if (card) this.lists.observe(card, { childList: true });
    this.show();
  }

  stop() {
    this.lists.disconnect();
    document.removeEventListener("click", this.click);
  }

  pressed(data) {
    if (!data) return;
    if (data.mark) this.toggle(data.mark);
    else if (data.walk) this.walk(Number(data.walk));
    else this.jump(Number(data.standOut));
  }

  // ---- of the step ----

  /** Asked once a step; of one that is still running, again when it has grown. */
  async ask(step) {
    const key = step ? `${step.task} ${step.number} ${step.end - step.start}` : "";
    if (key === this.key) return;
    const isOther = !this.key.startsWith(`${step?.task} ${step?.number} `);
    this.key = key;
    if (isOther) [this.path, this.stalls] = [null, []];
    const found = step && await this.view.source.findings(step).catch(() => null);
    if (key !== this.key || this.view.isGone) return;
    [this.path, this.stalls] = [found?.path ?? null, found?.stalls ?? []];
    this.view.surface.invalidate();
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

  /** The sentence of the stall under a point of the canvas; null for none. */
  said(x, y) {
    const row = this.view.stack.rowAt(y);
    const stall = row && stallAt(this.shown.stalls, row.id, this.view.timeAt(x), this.view.scale);
    return stall && this.sentenceOf(stall);
  }

  sentenceOf({ key, values }) {
    return fill(this.view.words.stall[key], values);
  }

  // ---- of the run ----

  async askRun() {
    if (performance.now() - this.asked < AGAIN_MS) return;
    this.asked = performance.now();
    const found = await this.view.source.standsOut().catch(() => []);
    if (this.view.isGone) return;
    this.standOuts = found;
    this.show();
    this.view.surface.invalidate();
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

  /** Its step is shown; of a stall only the time around it. */
  jump(i) {
    const { view } = this;
    const one = this.standOuts[i];
    if (!one) return;
    this.at = i;
    this.target = one;
    this.show();
    view.growth.release();
    view.table.say(this.saidOf(i));
    const { set_props: setProps } = globalThis.dash_clientside ?? {};
    if (view.step?.number === one.step || !setProps) this.land(one.step);
    else setProps("step", { data: one.step });
  }

  /** Whether the step that comes into view is that of a jump: then its window is shown. */
  land(number) {
    const { view, target } = this;
    this.target = null;
    if (target?.step !== number) return false;
    const { steps } = view.head;
    const at = steps.number.findIndex((one, k) => one === number && steps.task[k] === target.task);
    if (at >= 0) view.setStep(stepOf(steps, at));
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
    for (const button of document.querySelectorAll("[data-mark]")) {
      button.setAttribute("aria-pressed", String(!this.hidden.has(button.dataset.mark)));
    }
    for (const button of document.querySelectorAll("[data-stand-out]")) {
      button.setAttribute("aria-current", String(Number(button.dataset.standOut) === this.at));
    }
    const count = this.standOuts.length;
    for (const button of document.querySelectorAll("[data-walk]")) button.disabled = !count;
    const said = document.getElementById("timeline-walk");
    if (said) said.textContent = count ? `${this.at < 0 ? "" : `${this.at + 1} / `}${count}` : "";
  }
}
