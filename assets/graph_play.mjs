// The Morph key: all stages of the graph, one turning into the next, from the first to the last.

import { reducedMotion } from "./core.mjs";
import { markChoice } from "./graph_controls.mjs";

const TURN_MS = 900; // slower than a viewer's own step from stage to stage: it is to be followed
const REST_MS = 1100;

export class Play {
  constructor(view) {
    this.view = view;
    this.turn = 0; // counts what was begun; whoever finds another number has been stopped
  }

  get isOn() {
    return this.button?.getAttribute("aria-pressed") === "true";
  }

  get button() {
    return document.getElementById("graph-morph");
  }

  toggle() {
    if (this.isOn) this.settle();
    else this.run();
  }

  /** Stops, and stays at the stage that is shown. */
  settle() {
    this.stop();
    const stage = this.view.model?.payload.stage;
    if (!stage) return; // nothing came to be shown
    markChoice("graph-stages", stage);
    globalThis.dash_clientside?.set_props?.("stage", { data: stage });
  }

  stop() {
    this.turn += 1;
    this.button?.setAttribute("aria-pressed", "false");
  }

  /** Asks for all stages at first, so that none has to be waited for. */
  async run() {
    const { view } = this;
    this.turn += 1;
    const { turn } = this;
    this.button?.setAttribute("aria-pressed", "true");
    const stages = [...document.querySelectorAll("#graph-stages [role=radio]")]
      .map((button) => button.dataset.value);
    const queries = stages.map((stage) => view.queryOf({ ...view.host.dataset, stage }));
    try {
      const texts = await Promise.all(queries.map((query) => view.source.graph(query)));
      for (const [i, text] of texts.entries()) {
        if (turn !== this.turn) return;
        view.asked = `${queries[i]}`; // so that the address may follow without another request
        view.show(JSON.parse(text), reducedMotion() ? 0 : TURN_MS);
        await new Promise((done) => { setTimeout(done, TURN_MS + REST_MS); });
      }
    } catch (error) {
      view.say(view.words.failed.replace("{reason}", error.message));
    }
    if (turn === this.turn) this.settle();
  }
}
