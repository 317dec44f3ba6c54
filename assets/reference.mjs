// The Reference page: an address with an anchor goes to its entry, also when the page comes later
// than the address.
function go(id) {
  const entry = id && document.getElementById(id);
  for (const old of document.querySelectorAll(".reference [data-named]")) {
    delete old.dataset.named;
  }
  if (!entry) return;
  entry.dataset.named = "";
  entry.scrollIntoView({ block: entry.matches("h2") ? "start" : "center" });
}

const named = () => decodeURIComponent(location.hash.slice(1));

/** The section that is read is the one whose heading passed the top last. */
function markSection() {
  const main = document.getElementById("main");
  const heads = [...document.querySelectorAll(".reference h2[id]")];
  const top = main.getBoundingClientRect().top + 120;
  const read = heads.filter((head) => head.getBoundingClientRect().top < top).at(-1) ?? heads[0];
  for (const link of document.querySelectorAll(".reference-nav a")) {
    const isRead = read && link.hash === `#${read.id}`;
    if (isRead) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

let started = false;

/** Callback of pages/reference.py: its entries are there. */
export function show() {
  go(named());
  markSection();
  if (started) return null;
  started = true;
  addEventListener("hashchange", () => go(named()));
  document.getElementById("main").addEventListener("scroll", markSection, { passive: true });
  return null;
}
