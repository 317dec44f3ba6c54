// Which scopes are shown open or folded against what the graph does by itself, and whether two
// stages are shown. It stands in the address, so that a link shows the same and Back undoes a step.

const NAMES = ["opened", "folded"];

/** {opened, folded}: sets of ids of scopes, from the query of the address. */
export function readFolds(search) {
  const query = new URLSearchParams(search);
  return Object.fromEntries(NAMES.map((name) => [name, new Set(query.getAll(name))]));
}

/** The query with these sets in it; everything else stays as it is. */
export function writeFolds(search, folds) {
  const query = new URLSearchParams(search);
  for (const name of NAMES) {
    query.delete(name);
    for (const id of folds[name]) query.append(name, id);
  }
  const text = query.toString();
  return text ? `?${text}` : "";
}

/** Opens a scope: it is folded no more, or else shown one level deeper. */
export function open({ opened, folded }, id) {
  const kept = new Set(folded);
  return kept.delete(id) ? { opened, folded: kept } : { opened: new Set(opened).add(id), folded };
}

/** Folds a scope: it is open no more, or else shown as one. */
export function close({ opened, folded }, id) {
  const kept = new Set(opened);
  return kept.delete(id) ? { opened: kept, folded } : { opened, folded: new Set(folded).add(id) };
}

export const readTwo = (search) => new URLSearchParams(search).get("two") === "1";

export function writeTwo(search, isTwo) {
  const query = new URLSearchParams(search);
  query.delete("two");
  if (isTwo) query.set("two", "1");
  const text = query.toString();
  return text ? `?${text}` : "";
}

/** Puts a query into the address bar as a step that Back undoes. */
export function visitSearch(search) {
  if (search === location.search) return;
  history.pushState({}, "", location.pathname + search + location.hash);
  dispatchEvent(new CustomEvent("_dashprivate_pushstate"));
}
