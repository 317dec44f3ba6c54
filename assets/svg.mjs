// SVG elements, for pictures that are few enough shapes to be part of the page.

const SVG = "http://www.w3.org/2000/svg";

export function element(name, attributes, children = []) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.append(...children);
  return made;
}

/** Lines from lower left to upper right, as a fill named `url(#id)`. */
export function hatch(id) {
  const lines = element("path", { d: "M-1 7L7 -1M-1 1L1 -1M5 7L7 5", class: "hatch-line" });
  const shape = { id, width: 6, height: 6, patternUnits: "userSpaceOnUse" };
  return element("defs", {}, [element("pattern", shape, [lines])]);
}

/** Enter and space click what is a button in a picture; `buttons` is a selector of them. */
export function clickByKey(event, buttons) {
  const shape = event.target.closest?.(buttons);
  if (!shape || !["Enter", " "].includes(event.key)) return;
  event.preventDefault();
  shape.dispatchEvent(new MouseEvent("click", { bubbles: true }));
}

export const said = (name, attributes, text) => element(name, attributes, [text]);
