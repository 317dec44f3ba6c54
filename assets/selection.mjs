// What a viewer looks at: the address bar and the stores of the shell, kept equal.
// Every change of selection, step or stage is a history entry, so Back undoes it.

/** "span:0af3" → {type: "span", id: "0af3"}; anything else → null. */
export function parseSelection(text) {
  const colon = text?.indexOf(":") ?? -1;
  return colon > 0 ? { type: text.slice(0, colon), id: text.slice(colon + 1) } : null;
}

/** The client whose step is looked at, where several run it; "" for the first of them. */
export const taskIn = (search) => new URLSearchParams(search).get("task") ?? "";

export function formatSelection(sel) {
  return sel ? `${sel.type}:${sel.id}` : null;
}

/** The query of the address bar as store values. */
export function parse(search) {
  const query = new URLSearchParams(search);
  const step = Number.parseInt(query.get("step") ?? "", 10);
  return {
    sel: parseSelection(query.get("sel")),
    step: Number.isNaN(step) ? null : step,
    stage: query.get("stage"),
  };
}

/** `search` with the given names set; null removes a name. Everything else stays as it is. */
export function amend(search, changes) {
  const query = new URLSearchParams(search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString().replace(/%3A|%2F|%2C/g, decodeURIComponent);
  return text ? `?${text}` : "";
}

export const equal = (a, b) => JSON.stringify(a ?? null) === JSON.stringify(b ?? null);

/** Changes the address; `replace` for what Back should not stop at (window, theme, language). */
export function visit(changes, { replace = false } = {}) {
  const search = amend(location.search, changes);
  if (search === location.search) return;
  const method = replace ? "replaceState" : "pushState";
  history[method]({}, "", location.pathname + search + location.hash);
  dispatchEvent(new CustomEvent("_dashprivate_pushstate")); // dcc.Location listens to this
}

/** What Dash tells its pages of the server. */
export const config = () => JSON.parse(document.getElementById("_dash-config").textContent);

/** What stands between host and page, such as /user/x/proxy/8050/; ends with a slash. */
export const prefix = () => config().requests_pathname_prefix;

// Callbacks of components/shell.py

/** The address and the stores, and what both last agreed on. An echo that comes late must not be
    written over what Back, or the viewer's next click, has changed. */
export class Agreement {
  #agreed = null;
  #isAwaited = false; // the stores were given this address, but have not been seen to hold it

  /** Whether the stores must be given the address: it says something of its own, or what it said
      has not arrived. Dash drops the answer of a callback that is asked anew before it lands. */
  read(address, stores) {
    if (equal(address, this.#agreed) && !this.#isAwaited) return false;
    this.#agreed = address;
    this.#isAwaited = !equal(address, stores);
    return true;
  }

  /** Whether the address must be changed to what the stores hold. */
  write(stores) {
    this.#isAwaited = false;
    if (equal(stores, this.#agreed)) return false;
    this.#agreed = stores;
    return true;
  }
}

const agreement = new Agreement();
const held = (sel, step, stage) => ({ sel: sel ?? null, step: step ?? null, stage: stage ?? null });

export function readAddress(_pathname, _search, route, sel, step, stage, theme) {
  const { no_update: keep } = window.dash_clientside;
  const now = parse(location.search);
  const isNews = agreement.read(now, held(sel, step, stage));
  const root = document.documentElement;
  const here = {
    path: `/${location.pathname.slice(prefix().length)}`, lang: root.lang,
    runs: new URLSearchParams(location.search).get("runs") ?? "",
  };
  const fresh = (value, old) => (!isNews || equal(value, old) ? keep : value);
  const isHere = Object.entries(here).every(([name, value]) => route?.[name] === value);
  return [
    isHere ? keep : here, fresh(now.sel, sel), fresh(now.step, step), fresh(now.stage, stage),
    equal(root.dataset.theme, theme) ? keep : root.dataset.theme,
  ];
}

export function writeAddress(sel, step, stage) {
  if (agreement.write(held(sel, step, stage))) visit({ sel: formatSelection(sel), step, stage });
}
