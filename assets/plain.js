// Elements that no callback is tied to, as vizdist/components/plain.py lists them. A classic
// script, as Dash looks for its components before any module runs.
(() => {
  const { Fragment, createElement } = window.React;
  const draw = (part) => {
    if (!Array.isArray(part)) return part;
    const [name, attributes, ...children] = part;
    return createElement(name, attributes, ...children.map(draw));
  };
  window.vizdist = { Plain: ({ tree }) => createElement(Fragment, null, ...tree.map(draw)) };

  // What Dash needs of its 100 KB for old browsers: it loads its charts by a generator that was
  // compiled away, whose every `run` goes on from one await to the next.
  window.regeneratorRuntime = {
    mark: (made) => made,
    wrap: (run) => {
      const at = { prev: 0, next: 0, isOver: false, stop() { at.isOver = true; } };
      return { next: () => ({ value: run(at), done: at.isOver }) };
    },
  };
})();
