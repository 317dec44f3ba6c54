// The timeline of a run that goes on: new rows, steps and spans as they are recorded, and the
// window kept at the end while the viewer follows.

import { isFollowing, setFollow } from "./live.mjs";

const LEAST_MS = 500; // between two questions for the frame
const MOST_MS = 4000; // or as long as the last one took, but no longer than this
const MOST_ASKED = 8; // in vain for one state that was told, each time after a longer pause

/** Where a window of this length lies when it ends with the newest span: a little air behind it. */
export function atEnd(from, to, last) {
  const length = to - from;
  const end = last + length * 0.02;
  return [end - length, end];
}

export class Growth {
  constructor(view) {
    this.view = view;
    this.state = null;
    this.isAsking = false;
    this.asked = 0;
    this.hear = ({ detail }) => this.told(detail);
    addEventListener("live", this.hear);
  }

  stop() {
    removeEventListener("live", this.hear);
    clearTimeout(this.timer);
  }

  /** The viewer moves the window: from now on it stays where it is put. */
  release() {
    setFollow(false);
  }

  told(state) {
    if (!state.last) return;
    this.state = state;
    this.asked = 0;
    if (!this.isAsking) this.ask();
  }

  /** Whether what is drawn is older than what was told. */
  get isBehind() {
    const { head } = this.view;
    const { state } = this;
    return state && head && (state.last > head.end || state.rows !== head.rows.length
      || state.spans !== (this.spans ?? state.spans));
  }

  async ask() {
    const { view } = this;
    if (!this.isBehind) {
      this.spans ??= this.state?.spans;
      this.start ??= this.state?.start;
      this.keepUp();
      return;
    }
    this.isAsking = true;
    this.asked += 1;
    const { start, spans } = this.state;
    const asked = performance.now();
    const head = await view.source.head().catch(() => null);
    if (view.isGone) return;
    if (head) this.take(head, start, spans);
    const least = LEAST_MS * 2 ** Math.max(0, this.asked - 1);
    const pause = Math.min(MOST_MS, Math.max(least, performance.now() - asked));
    this.timer = setTimeout(() => {
      this.isAsking = false;
      if (this.isBehind && this.asked < MOST_ASKED) this.ask();
    }, pause);
  }

  /** All times count from the first span: when an earlier one comes they all move. */
  take(head, start, spans) {
    const { view } = this;
    const shift = this.start === undefined ? 0 : Number(BigInt(this.start) - BigInt(start));
    const isOther = shift !== 0 || head.rows.length !== view.head.rows.length;
    this.start = start;
    this.spans = spans;
    view.loader.expire(isOther); // rows are numbered from the top: with new ones all change
    view.takeHead(head, shift);
    if (isOther) view.lights.ask(view.asked.chosen);
    view.findings.askRun(isOther);
    if (shift) view.show(view.window.from + shift, view.window.to + shift, view.mode);
    this.keepUp();
    view.load(true);
    view.surface.invalidate();
  }

  /** The window goes with the run: all of it, or as much of its end as is looked at. */
  keepUp() {
    const { view } = this;
    if (!isFollowing() || !view.head) return;
    const { from, to } = view.window;
    if (view.mode === "run" || !view.steps.length) view.showMode("run");
    else if (view.mode === "window") view.show(...atEnd(from, to, view.head.end), "window");
  }
}
