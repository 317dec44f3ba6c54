// The keyboard's place in what is filled anew.

/** Does `fill`, which replaces what `host` holds; focus goes to the element that says by one of the
 *  attributes `names` what the focused one said. `kind` narrows where several say the same. */
export function keepFocus(host, names, fill, kind = "") {
  const focused = document.activeElement;
  const name = host.contains(focused) && names.find((one) => focused.hasAttribute(one));
  const value = name && focused.getAttribute(name);
  fill();
  if (!name) return;
  host.querySelector(`${kind}[${name}="${CSS.escape(value)}"]`)?.focus({ preventScroll: true });
}
