// The bar over the graph: choices of stage, client and heat; the legend; the table's key.

import { isLogScale } from "./core.mjs";
import { valueText } from "./graph_words.mjs";

const setStore = (name, data) => globalThis.dash_clientside?.set_props?.(name, { data });

const tellCanvas = (event, detail) => document.getElementById("graph-canvas")
  ?.dispatchEvent(new CustomEvent(event, { detail }));

/** What a choice does, by the group it is in. */
const CHOOSE = {
  "graph-stages": (value) => setStore("stage", value),
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
  if (!table.hidden) tellCanvas("table");
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

/** Marks the second of two stages, and gives the canvas the width of the page. */
export function showTwo(view) {
  if (!view.mayShowTwo) return;
  const { upper } = view;
  document.querySelector(".graph-page")?.toggleAttribute("data-two", Boolean(upper));
  document.getElementById("graph-two")?.setAttribute("aria-pressed", String(Boolean(upper)));
  for (const button of document.querySelectorAll("#graph-stages [role=radio]")) {
    button.toggleAttribute("data-upper", button.dataset.value === upper?.model.payload.stage);
  }
}

/** Lights what a key of the legend names, or no more. */
function toggleMark(button) {
  const host = document.getElementById("graph-canvas");
  const mark = button.getAttribute("aria-pressed") === "true" ? "" : button.dataset.mark;
  host.dataset.mark = mark;
  for (const one of document.querySelectorAll(".graph-page [data-mark]")) {
    one.setAttribute("aria-pressed", String(one.dataset.mark === mark));
  }
}

/** The scopes that stand open, each with a button that folds it again. */
export function showOpened(view) {
  const { opened } = view.model.payload;
  view.opened.hidden = !opened.length;
  view.opened.replaceChildren(...opened.map(({ id, label, family }) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "button";
    button.textContent = `${label} · ${view.words.families[family] ?? family}`;
    button.title = view.words.fold.replace("{scope}", label);
    button.setAttribute("aria-label", button.title);
    const cross = document.createElement("span");
    cross.className = "icon icon-close";
    button.append(cross);
    button.addEventListener("click", () => view.toggle(id));
    return button;
  }));
}

/** What the colours mean now: {choice, low, high, scale} in words; null where they mean nothing. */
export function heatScale(view) {
  const { heat } = view.state;
  const [low, high] = (view.over ? view.model.nodeRange : view.model.range)[heat] ?? [0, 0];
  if (!high) return null;
  const say = (value) => valueText({ [heat]: value }, heat);
  const scale = view.words[isLogScale(low, high) ? "log" : "linear"];
  return { heat, what: view.words.heats[heat], low: say(low), high: say(high), scale };
}

/** Says what the colours mean now: least and most, which hue, which scale. */
export function showLegend(view) {
  const legend = document.querySelector(".heat-legend");
  if (!legend) return;
  const found = heatScale(view);
  legend.hidden = !found;
  if (!found || legend.dataset.said === JSON.stringify(found)) return;
  legend.dataset.said = JSON.stringify(found);
  legend.dataset.heat = found.heat;
  for (const part of ["what", "low", "high", "scale"]) {
    document.getElementById(`graph-heat-${part}`).textContent = found[part];
  }
}

let started = false;

export function startControls() {
  if (started || typeof document === "undefined") return;
  started = true;
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-choices] [role=radio]");
    if (button) choose(button);
    if (event.target.closest?.("[data-graph=table]")) toggleTable();
    const scope = event.target.closest?.("[data-scope]");
    if (scope) tellCanvas("scope", scope.dataset.scope);
    const key = event.target.closest?.("#graph-two, #graph-morph");
    if (key) tellCanvas(key.id.replace("graph-", ""));
    const mark = event.target.closest?.(".graph-page [data-mark]");
    if (mark) toggleMark(mark);
  });
  document.addEventListener("change", (event) => {
    if (event.target.id === "graph-client") setStore("graph-task", event.target.value);
  });
  document.addEventListener("keydown", (event) => {
    moveChoice(event);
    const typing = event.target.closest?.("input, textarea, select, dialog");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key.toLowerCase() === "l" && document.getElementById("graph-table")) toggleTable();
  });
}
