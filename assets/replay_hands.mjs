// How the replay is asked: as the graph, and its tokens first.

import { Hands } from "./graph_hands.mjs";
import { keyLine } from "./replay_panels.mjs";

/** Tokens lie over the graph: they are asked first. */
export class ReplayHands extends Hands {
  handlers() {
    const { view } = this;
    const handlers = super.handlers();
    const onToken = (x, y, chosen, otherwise) => {
      const row = x === null ? -1 : view.tokenAt(x, y);
      return row < 0 ? otherwise() : chosen(row);
    };
    return {
      ...handlers,
      click: (x, y) => onToken(x, y, (row) => view.chooseRow(row), () => handlers.click(x, y)),
      hover: (x, y) => onToken(x, y, (row) => this.tell(row, x, y), () => {
        if (this.toldRow !== undefined) this.hideTip();
        this.toldRow = undefined;
        handlers.hover(x, y);
      }),
    };
  }

  choose(hit) {
    this.view.isChoosing = true;
    super.choose(hit);
    this.view.isChoosing = false;
  }

  /** The name of a token, beside it. */
  tell(row, x, y) {
    this.view.surface.canvas.style.cursor = "pointer";
    if (row === this.toldRow) return;
    this.toldRow = row;
    this.tip.textContent = keyLine(this.view.replay, this.view.now, this.view.words, row);
    this.tip.hidden = false;
    const most = this.view.surface.width - this.tip.offsetWidth - 8;
    this.tip.style.left = `${Math.max(6, Math.min(x + 14, most))}px`;
    this.tip.style.top = `${y + 16}px`;
  }
}
