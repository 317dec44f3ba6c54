// The bar over the graph: radio groups of stages, clients and heats; the legend; the table's key.

import { formatBytes, formatNs, isLogScale } from "./core.mjs";

const setStore = (name, data) => globalThis.dash_clientside?.set_props?.(name, { data });

/** What a choice does, by the group it is in. */
const CHOOSE = {
  "graph-stages": (value) => setStore("stage", value),
  "graph-clients": (value) => setStore("graph-task", value),
  "graph-heat": (value) => {
    const host = document.getElementById("graph-canvas");
    if (host) host.dataset.heat = value;
  },
};

function choose(button) {
  const { choices } = button.closest("[data-choices]").dataset;
  markChoice(choices, button.dataset.value);
  CHOOSE[choices]?.(button.dataset.value);
}

/** Marks what is chosen in a group, whoever chose it. */
export function markChoice(group, value) {
  for (const button of document.querySelectorAll(`#${group} [role=radio]`)) {
    const isChosen = button.dataset.value === value;
    button.setAttribute("aria-checked", String(isChosen));
    button.tabIndex = isChosen ? 0 : -1;
  }
}

/** Arrow keys move the choice, as in every radio group. */
function moveChoice(event) {
  const way = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
  const button = event.target.closest?.("[data-choices] [role=radio]");
  if (!way || !button) return;
  const all = [...button.closest("[data-choices]").querySelectorAll("[role=radio]")];
  const next = all[(all.indexOf(button) + way + all.length) % all.length];
  event.preventDefault();
  next.focus();
  choose(next);
}

/** Shows the table instead of the picture, or the picture again. */
export function toggleTable() {
  const table = document.getElementById("graph-table");
  const canvas = document.getElementById("graph-canvas");
  if (!table || !canvas) return;
  table.hidden = !table.hidden;
  canvas.inert = !table.hidden;
  const button = document.getElementById("graph-table-button");
  button?.setAttribute("aria-pressed", String(!table.hidden));
  if (!table.hidden) setStore("graph-list", true);
  (table.hidden ? canvas.querySelector("canvas") : button)?.focus();
}

/** Which box a narrow screen shows: a row of buttons over the canvas of a GraphView. */
export function showBoxChoice(view) {
  const { boxes } = view.model.payload;
  view.choice.hidden = !view.onlyBox || boxes.length < 2;
  view.choice.replaceChildren(...boxes.map((box) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "button";
    button.textContent = box.id || view.words.unplaced;
    button.setAttribute("aria-pressed", String(box.id === view.onlyBox?.id));
    button.addEventListener("click", () => view.chooseBox(box.id));
    return button;
  }));
}

/** Says what the colours mean now: least and most, and which hue. */
export function showLegend(model, choice) {
  const legend = document.querySelector(".heat-legend");
  if (!legend) return;
  const [low, high] = model.range[choice] ?? [0, 0];
  const words = choice === "bytes" ? formatBytes : formatNs;
  legend.hidden = choice === "plain" || !high;
  legend.dataset.heat = choice;
  document.getElementById("graph-heat-low").textContent = words(low);
  document.getElementById("graph-heat-high").textContent = words(high);
  document.getElementById("graph-heat-log").hidden = !isLogScale(low, high);
}

let started = false;

export function startControls() {
  if (started || typeof document === "undefined") return;
  started = true;
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-choices] [role=radio]");
    if (button) choose(button);
    if (event.target.closest?.("[data-graph=table]")) toggleTable();
  });
  document.addEventListener("keydown", (event) => {
    moveChoice(event);
    const typing = event.target.closest?.("input, textarea, select, dialog");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key.toLowerCase() === "l" && document.getElementById("graph-table")) toggleTable();
  });
}
