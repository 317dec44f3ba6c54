// Step, window or whole run: a radio group of the page that says and sets what is looked at.

export class ModeChoice {
  /** `word` names the middle choice, to which the window's length is added. */
  constructor(word, choose) {
    Object.assign(this, { word, group: document.getElementById("timeline-mode") });
    const pick = (button) => button && choose(button.dataset.value);
    this.click = (event) => pick(event.target.closest("[data-value]"));
    this.key = (event) => {
      const way = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
      if (!way) return;
      event.preventDefault();
      const at = this.buttons.findIndex((button) => button === document.activeElement);
      const next = this.buttons[(at + way + this.buttons.length) % this.buttons.length];
      next.focus();
      pick(next);
    };
    this.group?.addEventListener("click", this.click);
    this.group?.addEventListener("keydown", this.key);
  }

  get buttons() {
    return this.group ? [...this.group.querySelectorAll("[data-value]:not(:disabled)")] : [];
  }

  show(mode, length, hasSteps) {
    for (const button of this.buttons) {
      const { value } = button.dataset;
      button.disabled = value === "step" && !hasSteps;
      button.setAttribute("aria-checked", String(value === mode));
      button.tabIndex = value === mode ? 0 : -1;
      if (value === "window") button.textContent = length ? `${this.word} ${length}` : this.word;
    }
  }

  stop() {
    this.group?.removeEventListener("click", this.click);
    this.group?.removeEventListener("keydown", this.key);
  }
}
