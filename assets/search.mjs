// The header's search field. On a page of a run it asks the server and lists what it found below
// itself; on a page that is a list, it hides the entries that lack a word.
import { formatSelection, prefix, visit } from "./selection.mjs";

const DELAY_MS = 80;
let answers = 0;

const field = () => document.getElementById("search");
const list = () => document.getElementById("found");
/** What keys may take: nothing while the list still answers what the field said before. */
const options = () => [
  ...(list()?.querySelectorAll("#found-rows:not([aria-busy]) [role=option]") ?? []),
];

/** What was chosen, as the address has it; a step alone keeps the selection. */
export function changesOf({ selection, step }) {
  return {
    ...(selection ? { sel: formatSelection(selection) } : {}),
    ...(step ? { step } : {}),
  };
}

/** The index that a key moves to in a list of `count`; -1 is the field itself. */
export function moved(at, key, count) {
  const way = { ArrowDown: 1, ArrowUp: -1 }[key];
  return way && count ? (at + 1 + way + count + 1) % (count + 1) - 1 : at;
}

export function holds(text, words) {
  const low = text.toLowerCase();
  return words.every((word) => low.includes(word));
}

function filterPage(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  for (const entry of document.querySelectorAll(".run, .entry")) {
    entry.hidden = !holds(entry.textContent, words);
  }
}

/** A page that is drawn anew, as a run in it goes on, is filtered as before. */
function filterAgain() {
  const text = list() ? "" : field()?.value;
  if (text) filterPage(text);
}

async function ask(search, text) {
  answers += 1;
  const mine = answers;
  mark(-1);
  document.getElementById("found-rows").setAttribute("aria-busy", "true");
  await new Promise((done) => setTimeout(done, DELAY_MS));
  if (mine !== answers) return;
  const url = `${prefix()}api/traces/${search.dataset.trace}/search`;
  const found = text.trim() ? await answerOf(`${url}?${new URLSearchParams({ q: text })}`) : null;
  if (mine === answers) show(found, JSON.parse(search.dataset.words));
}

async function answerOf(url) {
  try {
    const reply = await fetch(url);
    return reply.ok ? await reply.json() : null;
  } catch {
    return null;
  }
}

function show(found, words) {
  if (!list()) return;
  const results = found?.results ?? [];
  const more = (found?.total ?? 0) - results.length;
  const rows = document.getElementById("found-rows");
  rows.replaceChildren(...results.map((result, i) => optionOf(result, i, words)));
  rows.hidden = !results.length;
  rows.removeAttribute("aria-busy");
  const note = !results.length ? words.none : more > 0 ? words.more.replace("{count}", more) : "";
  document.getElementById("found-note").textContent = note;
  open(Boolean(found));
  if (results.length) mark(0);
}

function optionOf(result, i, words) {
  const row = piece("div", "option");
  row.id = `found-${i}`;
  row.role = "option";
  row.result = result;
  const title = piece("b", "cut", result.kind === "step" ? `${words.step} ${result.title}`
    : result.title);
  row.append(piece("span", "what", words[result.kind]), title,
    piece("span", "cut facts", result.facts.join(" · ")));
  return row;
}

function piece(tag, kind, text = "") {
  const made = document.createElement(tag);
  made.className = kind;
  made.textContent = text;
  return made;
}

function open(isOpen) {
  const shown = list();
  if (!shown) return;
  shown.hidden = !isOpen;
  const input = field();
  if (input.role === "combobox") input.setAttribute("aria-expanded", String(isOpen));
  if (!isOpen) input.removeAttribute("aria-activedescendant");
}

/** The ring of the keyboard stays in the field; which row Enter takes is marked. */
function mark(at) {
  options().forEach((row, i) => row.setAttribute("aria-selected", String(i === at)));
  const row = options()[at];
  row?.scrollIntoView({ block: "nearest" });
  if (row) field().setAttribute("aria-activedescendant", row.id);
  else field().removeAttribute("aria-activedescendant");
}

function pick({ result }) {
  open(false);
  field().blur();
  visit(changesOf(result));
  dispatchEvent(new CustomEvent("found", { detail: result }));
}

function onKey(event) {
  if (event.target !== field() || event.isComposing) return;
  const rows = options();
  const at = rows.findIndex((row) => row.getAttribute("aria-selected") === "true");
  if (event.key === "Escape") {
    open(false);
    field().blur();
  } else if (event.key === "Enter" && !list()?.hidden && rows[at]) pick(rows[at]);
  else if (moved(at, event.key, rows.length) !== at) mark(moved(at, event.key, rows.length));
  else return;
  event.preventDefault();
}

export function startSearch() {
  const drawn = { childList: true, characterData: true, subtree: true };
  new MutationObserver(filterAgain).observe(document.getElementById("main"), drawn);
  document.addEventListener("keydown", onKey);
  document.addEventListener("input", ({ target }) => {
    const search = target.closest(".search");
    if (target.id !== "search") return;
    if (search) ask(search, target.value);
    else filterPage(target.value);
  });
  document.addEventListener("focusin", ({ target }) => {
    if (target.id !== "search" || !list()) {
      open(false);
      return;
    }
    const attributes = {
      role: "combobox", "aria-controls": "found-rows", "aria-autocomplete": "list",
    };
    for (const [name, value] of Object.entries(attributes)) target.setAttribute(name, value);
    open(options().length > 0);
  });
  document.addEventListener("pointerdown", ({ target }) => {
    if (!target.closest(".search")) open(false);
  });
  document.addEventListener("click", ({ target }) => {
    const row = target.closest(".search [role=option]");
    if (row) pick(row);
  });
}
