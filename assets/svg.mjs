// SVG elements, for pictures that are few enough shapes to be part of the page.

const SVG = "http://www.w3.org/2000/svg";

export function element(name, attributes, children = []) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.append(...children);
  return made;
}

export const said = (name, attributes, text) => element(name, attributes, [text]);
