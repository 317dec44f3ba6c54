// The critical path over the graph: that of the step which is drawn, asked for when it is wanted
// first, and while the step goes on again with every news of the run.

import { pathIn } from "./graph_marks.mjs";

export class GraphPath {
  constructor(view) {
    this.view = view;
    this.asked = null; // what the last question was about
    this.isAsking = false;
    this.found = this.lit = null; // as it came, and as it lies in what is drawn
    this.hear = () => this.grow();
    addEventListener("live", this.hear);
  }

  stop() {
    removeEventListener("live", this.hear);
  }

  /** Another picture is drawn. */
  renew() {
    this.lit = this.found && pathIn(this.view.model, this.found);
    this.ask();
  }

  /** An answer that comes after a newer question is dropped. */
  async ask() {
    const { model, source, state } = this.view;
    if (state.mark !== "path" || !model) return;
    const { step, task, isWhole } = model.payload;
    const asked = `${step} ${task} ${isWhole}`;
    if (asked === this.asked) return;
    this.asked = asked;
    this.isAsking = true;
    if (this.found?.step !== step || this.found.task !== task) this.found = this.lit = null;
    const query = Object.entries({ step, task }).filter(([, value]) => value !== null);
    const found = await source.graphPath(Object.fromEntries(query)).catch(() => null);
    if (asked !== this.asked) return;
    this.isAsking = false;
    if (found) this.found = found;
    else this.asked = null; // so that it is asked for again
    this.lit = this.found && pathIn(this.view.model, this.found);
    this.view.repaint();
  }

  grow() {
    if (this.isAsking || this.found?.isWhole) return;
    this.asked = null;
    this.ask();
  }
}
