// Before the first paint: language and theme from the URL, else this viewer's last choice, else
// what the browser prefers. Everything later reads the two attributes set here. What the page will
// need is asked for now, all at once, so that it is there when Dash is: the scripts of the page, if
// it has any, and what stands on it, which is answered in the language that was chosen.
(() => {
  const { src, dataset } = document.currentScript;
  const page = location.pathname.split("/").at(-1);
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
  if (!src) return; // an exported file has everything in itself
  const ask = (name, how) => {
    const link = document.createElement("link");
    Object.assign(link, how, { href: new URL(name, src) });
    document.head.append(link);
  };
  const prefix = new URL("../../", src).pathname;
  document.cookie = `vizdist_lang=${root.lang}; path=${prefix}; SameSite=Strict`;
  for (const name of ["_dash-layout", "_dash-dependencies"]) {
    ask(prefix + name, { rel: "preload", as: "fetch", crossOrigin: "anonymous" });
  }
  if (dataset.charts?.split(" ").includes(page)) { // else Dash asks once it has drawn all else
    for (const name of ["dash/dcc/async-graph.js", "plotly/package_data/plotly.min.js"]) {
      ask(`${prefix}_dash-component-suites/${name}`, { rel: "preload", as: "script" });
    }
  }
  for (const name of `${dataset.frame ?? ""} ${dataset[page] ?? ""}`.match(/\S+/g) ?? []) {
    ask(name, { rel: "modulepreload" });
  }
})();
