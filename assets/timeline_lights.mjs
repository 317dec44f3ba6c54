// What a selection means on the timeline: which spans are lit, and how the view gets to them.

import { spanId } from "./timeline_data.mjs";
import { awayFrom, stepOf } from "./timeline_model.mjs";

export class Lights {
  constructor(view) {
    this.view = view;
    this.lit = null;
    this.ids = new Set();
    this.asked = 0;
    this.sought = null; // what the search field chose, until it is in view
    this.hasLanded = false;
    this.found = ({ detail: { selection } }) => {
      if (!selection) return;
      this.sought = JSON.stringify({ type: selection.type, id: selection.id });
      if (view.head && view.asked.chosen === this.sought) this.ask(this.sought);
    };
    addEventListener("found", this.found);
  }

  stop() {
    removeEventListener("found", this.found);
  }

  /** Asked of the store, as a selection may name a node, a key, a device or a pair. */
  async ask(chosen) {
    const { view } = this;
    const sel = chosen ? JSON.parse(chosen) : null;
    this.asked += 1;
    const mine = this.asked;
    const lit = sel && sel.type !== "step"
      ? await view.source.lit(sel, view.step?.number ?? null).catch(() => null) : null;
    if (mine !== this.asked || view.isGone) return;
    this.lit = lit;
    this.ids = new Set();
    for (let i = 0; i < (lit?.selected ?? 0); i += 1) this.ids.add(spanId(lit, i));
    if (lit?.selected) this.bringIn(lit, chosen);
    view.surface.invalidate();
  }

  bringIn(lit, chosen) {
    const { view } = this;
    if (view.isNarrow) view.stack.showTask(view.rowsById.get(lit.row[0]).task);
    if (this.sought === chosen) this.seek(lit);
    else this.landOn(lit);
    this.sought = null;
    view.stack.reveal(lit.row[0]);
  }

  /** What was searched for is shown: in its step, else in the middle of as long a window. */
  seek({ start, duration }) {
    const { view } = this;
    const [from, to] = [start[0], start[0] + duration[0]];
    const isInStep = view.step && from >= view.step.start && to <= view.step.end;
    if (isInStep) {
      view.showMode("step");
      return;
    }
    if (!awayFrom(from, to, view.window.from, view.window.to)) return;
    const half = Math.max(view.window.to - view.window.from, 1.5 * (to - from)) / 2;
    view.moveTo((from + to) / 2 - half, (from + to) / 2 + half, "window");
  }

  /** Whoever comes with a selection sees it: another worker ran the step of this number at
   *  another time. */
  landOn({ start, duration }) {
    const { view } = this;
    const { from, to } = view.window;
    const isAway = awayFrom(start[0], start[0] + duration[0], from, to);
    if (this.hasLanded || view.mode === "window") return;
    this.hasLanded = true;
    if (!isAway) return;
    const { steps } = view.head;
    const i = steps.number.findIndex((number, k) => number === view.step?.number
      && steps.start[k] <= start[0] && start[0] <= steps.end[k]);
    if (i < 0) return;
    view.setStep(stepOf(steps, i));
    view.showMode("step");
  }
}
