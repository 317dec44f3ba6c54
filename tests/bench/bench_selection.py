"""From a selection to every view, on a run of about 100,000 spans.

A span is selected as a click does it. The clock runs until the canvas has it lit, strip and card
say what it is, and the address holds it. The budget is 200 ms at the 95th percentile.
"""

import json
import os
import random
import statistics

from playwright.sync_api import Page, sync_playwright

from tests.bench.bench_pan import run_asked_for
from tests.browser.conftest import FLAGS, chromium_path, serving
from vizdist.analysis.steps import clients_of, shown_step
from vizdist.store.trace import Trace

STEPS = 250  #: of four workers, about 100 spans each
SELECTIONS = 60
#: Of each page the card that tells of the selection, and what the canvas calls one that it shows.
VIEWS = {"timeline": ("#timeline-span", "lit"), "graph": ("#graph-facts", "found")}
_SELECT = """async ([id, card, name]) => {
  const isShown = () => Boolean(window.__vizdist.state()[name]);
  const said = () => document.querySelector(card).textContent;
  const until = async (conditions) => {
    const since = performance.now();
    const missing = () => Object.keys(conditions).filter((one) => !conditions[one]());
    while (missing().length) {
      if (performance.now() - since > 20000) throw new Error(`${id}: never ${missing()}`);
      await new Promise(requestAnimationFrame);
    }
  };
  const choose = (data) => window.dash_clientside.set_props("sel", { data });
  const isClear = () => !document.querySelector("#strip [data-do=clear]");
  choose(null);
  window.nothingSaid ??= said();
  const isQuiet = () => said() === window.nothingSaid;
  await until({ clear: isClear, dark: () => !isShown(), quiet: isQuiet });
  const begun = performance.now();
  choose({ type: "span", id });
  await until({
    lit: isShown, strip: () => !isClear(), card: () => !isQuiet(),
    address: () => location.search.includes(id),
  });
  return performance.now() - begun;
}"""


def ops_of(trace: Trace) -> list[str]:
    """Ids of the ops of the step that pages open with."""
    number = shown_step(trace, None)
    assert number is not None
    step = trace.step(number, next(iter(clients_of(trace, number))))
    spans = trace.all.take(trace.step_places(step))
    ops = spans.take(spans.is_kind("op.run"))
    return [f"{span:016x}" for span in ops.span.tolist()]


def selections(page: Page, ids: list[str], card: str, lit: str) -> dict[str, float]:
    page.wait_for_function(f"() => document.querySelector('{card}').textContent")
    rng = random.Random(5)
    asked = [rng.choice(ids) for _ in range(SELECTIONS)]
    took = sorted(page.evaluate(_SELECT, [one, card, lit]) for one in asked)
    cuts = statistics.quantiles(took, n=20)
    return {"p50": round(cuts[9], 1), "p95": round(cuts[18], 1), "max": round(took[-1], 1)}


def main() -> None:
    library, trace = run_asked_for(__doc__, STEPS)
    ids = ops_of(trace)
    found = {}
    with sync_playwright() as playwright:
        for url in serving(library):
            browser = playwright.chromium.launch(executable_path=chromium_path(), args=list(FLAGS))
            for name, (card, lit) in VIEWS.items():
                page = browser.new_page(viewport={"width": 1440, "height": 900})
                page.goto(f"{url}t/{trace.id}/{name}")
                page.wait_for_selector(f"#{name}-canvas[data-state=ready]")
                found[name] = selections(page, ids, card, lit)
                page.close()
            browser.close()
    figures = {"bench": "selection to all views, ms", "spans": len(trace), **found}
    print(json.dumps(figures | {"load": os.getloadavg()[0]}, indent=1))


if __name__ == "__main__":
    main()
