// Before the first paint: language and theme from the URL, else this viewer's last choice, else
// what the browser prefers. Everything later reads the two attributes set here. The scripts of the
// page, if it has any, are asked for now, all at once, so that they are there when the page is.
(() => {
  const { src, dataset } = document.currentScript;
  const page = location.pathname.split("/").at(-1);
  for (const name of `${dataset.frame ?? ""} ${dataset[page] ?? ""}`.match(/\S+/g) ?? []) {
    const link = document.createElement("link");
    Object.assign(link, { rel: "modulepreload", href: new URL(name, src) });
    document.head.append(link);
  }
  const query = new URLSearchParams(location.search);
  const choose = (name, allowed, preferred) => {
    let kept = null;
    try { kept = localStorage.getItem(`vizdist.${name}`); } catch { /* storage is switched off */ }
    return [query.get(name), kept].find((value) => allowed.includes(value)) ?? preferred;
  };
  const speaksChinese = navigator.language.toLowerCase().startsWith("zh");
  const likesDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const root = document.documentElement;
  root.lang = choose("lang", ["en", "zh"], speaksChinese ? "zh" : "en");
  root.dataset.theme = choose("theme", ["light", "dark", "projector"], likesDark ? "dark" : "light");
})();
