// The graph as a table: the same nodes, for those who read or listen rather than look. It is made
// of plain elements: as components of Dash, some hundred rows would stop the page for seconds.

import { formatBytes, formatNs, grouped } from "./core.mjs";

export const MOST = 500;
const COLUMNS = ["node", "op", "device", "reason", "phase", "time", "queueing", "wait", "bytes"];

/** Rows of a payload's nodes, costliest first; at most MOST of them, as texts. */
export function rowsOf({ nodes }, words) {
  const ordered = [...nodes].sort((a, b) => b.time - a.time || (a.id < b.id ? -1 : 1));
  return ordered.slice(0, MOST).map((node) => [
    node.id,
    node.op,
    [node.box, node.device].filter(Boolean).join(" / "),
    node.reason,
    words[node.phase] ?? node.phase,
    node.time ? formatNs(node.time) : "",
    node.queueing ? formatNs(node.queueing) : "",
    node.wait > node.queueing ? formatNs(node.wait - node.queueing) : "",
    node.bytes ? formatBytes(node.bytes) : "",
  ]);
}

/** Puts the table into its place, if the page has one and it is open. */
export function fillTable({ model, words }) {
  const host = document.getElementById("graph-table");
  if (!host || host.hidden || !model) return;
  const { payload } = model;
  const rows = rowsOf(payload, words);
  const said = words.columns.shown.replace("{shown}", grouped(rows.length))
    .replace("{total}", grouped(payload.nodes.length));
  const close = element("button", [words.columns.close], {
    type: "button", class: "button", "data-graph": "table",
  });
  const head = element("tr", COLUMNS.map((name) =>
    element("th", [words.columns[name]], { scope: "col" })));
  host.replaceChildren(
    element("div", [element("p", [said]), close], { class: "list-head" }),
    element("table", [element("thead", [head]), element("tbody", rows.map(rowElement))]),
  );
}

function rowElement([id, ...cells]) {
  const name = element("button", [id], {
    type: "button", class: "pick", title: id, "data-sel": `node:${id}`,
  });
  return element("tr", [
    element("th", [name], { scope: "row" }), ...cells.map((text) => element("td", [text])),
  ]);
}

/** Texts are put in as text, whatever a trace calls its nodes. */
function element(tag, children, attributes = {}) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}
