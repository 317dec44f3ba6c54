// The frame: links that keep the address, theme and language, keys, copy link.
import { listen, startLive, toggleFollow } from "./live.mjs";
import { startSearch } from "./search.mjs";
import { amend, parseSelection, prefix, visit } from "./selection.mjs";

const root = document.documentElement;
const THEMES = ["light", "dark", "projector"];

function keepChoice(name, value) {
  try { localStorage.setItem(`vizdist.${name}`, value); } catch { /* storage is switched off */ }
  visit({ [name]: value }, { replace: true });
}

/** The address with theme and language said: whoever opens it sees the same. */
function sharedAddress() {
  const search = amend(location.search, { theme: root.dataset.theme, lang: root.lang });
  return location.origin + location.pathname + search + location.hash;
}

/** Browsers keep the clipboard for secure origins; over HTTP from afar there is the old way. */
async function toClipboard(text) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}

const ACTIONS = {
  theme() {
    const at = THEMES.indexOf(root.dataset.theme);
    root.dataset.theme = THEMES[(at + 1) % THEMES.length];
    keepChoice("theme", root.dataset.theme);
  },
  lang() {
    root.lang = root.lang === "zh" ? "en" : "zh";
    keepChoice("lang", root.lang);
  },
  async copy(button) {
    await toClipboard(sharedAddress());
    button.dataset.done = "";
    setTimeout(() => delete button.dataset.done, 1500);
  },
  clear() { window.dash_clientside.set_props("sel", { data: null }); },
  previous() { stepBy(-1); },
  next() { stepBy(1); },
  follow() { toggleFollow(); },
  help() { document.getElementById("help")?.showModal(); },
  menu(button) {
    const open = button.getAttribute("aria-expanded") !== "true";
    button.setAttribute("aria-expanded", String(open));
  },
  close(button) { button.closest("dialog").close(); },
};

/** Moves along the recorded steps, which the header carries as data. */
function stepBy(direction) {
  const stepper = document.getElementById("stepper");
  if (!stepper) return;
  const steps = JSON.parse(stepper.dataset.steps);
  const at = steps.indexOf(Number(stepper.dataset.step)) + direction;
  if (at >= 0 && at < steps.length) window.dash_clientside.set_props("step", { data: steps[at] });
}

/** What an address says of one run. */
const OF_RUN = { sel: null, step: null, stage: null, t0: null, t1: null, window: null,
  opened: null, folded: null, at: null };

/** Of one page: on another, what is selected decides whose step is shown. */
const OF_PAGE = { task: null };

/** And of several beside each other. */
const OF_RUNS = { runs: null };

/** A link inside the dashboard: prefix before it, and what the viewer looks at behind it. */
function complete(link) {
  const [where, anchor = ""] = link.dataset.go.split("#");
  const [path, own = ""] = where.split("?");
  const left = { ...OF_PAGE, ...OF_RUNS, ...(path.startsWith("/t/") ? {} : OF_RUN) };
  const kept = amend(location.search, left);
  link.href = prefix() + path.slice(1) + amend(kept, Object.fromEntries(new URLSearchParams(own)))
    + (anchor && `#${anchor}`);
}

/** Whether a menu was open. */
function closeMenu() {
  const button = document.querySelector('[data-do="menu"][aria-expanded="true"]');
  button?.setAttribute("aria-expanded", "false");
  return Boolean(button);
}

function onClick(event) {
  if (!event.target.closest?.(".menu, .switches")) closeMenu();
  const target = event.target.closest?.("[data-go], [data-do], [data-sel]");
  if (!target) return;
  if (target.dataset.do) {
    ACTIONS[target.dataset.do](target);
  } else if (target.dataset.sel) {
    window.dash_clientside.set_props("sel", { data: parseSelection(target.dataset.sel) });
  } else if (!(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || event.button)) {
    event.preventDefault();
    complete(target);
    if (target.href === location.href) return;
    history.pushState({}, "", target.href);
    dispatchEvent(new CustomEvent("_dashprivate_pushstate"));
  }
}

const KEYS = {
  "[": ACTIONS.previous, "]": ACTIONS.next, "?": ACTIONS.help,
  Escape: () => closeMenu() || ACTIONS.clear(),
  "/": () => document.getElementById("search")?.focus(),
};

function onKey(event) {
  const typing = event.target.closest?.("input, textarea, select, [contenteditable], dialog");
  if (event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey) return;
  if (typing) return;
  const action = KEYS[event.key];
  const button = document.querySelector(`[data-key="${CSS.escape(event.key.toLowerCase())}"]`);
  if (!action && !button) return;
  event.preventDefault();
  if (action) action(); else button.click();
}

let started = false;

/** Callback: the page that is shown has a title; the first one starts the listeners. */
export function start(title) {
  if (title) document.title = title;
  listen();
  if (started) return;
  started = true;
  document.addEventListener("click", onClick);
  document.addEventListener("keydown", onKey);
  startSearch();
  startLive();
  for (const early of ["pointerdown", "focusin"]) {
    document.addEventListener(early, (event) => {
      const link = event.target.closest?.("[data-go]");
      if (link) complete(link);
    });
  }
}

/** Callback: what Mantine knows of a theme is whether it is dark. */
export function applyTheme(theme) {
  return (theme ?? root.dataset.theme) === "dark" ? "dark" : "light";
}

/** Callback: a click on a chart over steps goes to that step. */
export function pickStep(click) {
  return click?.points?.[0]?.x ?? window.dash_clientside.no_update;
}
