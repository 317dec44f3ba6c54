// The Strategy page: lanes of the build above lanes of the step. All else comes from the server.

import { drawLanes } from "./lanes.mjs";
import { formatSelection } from "./selection.mjs";
import { clickByKey } from "./svg.mjs";

const state = { pictures: {}, sel: "", page: null };

const part = (name) => document.getElementById(`strategy-${name}`);

function draw() {
  for (const [name, picture] of Object.entries(state.pictures)) {
    const host = part(name);
    if (!host) continue;
    host.hidden = !picture;
    if (picture) drawLanes(host, picture, state.sel);
  }
}

const press = (event) => clickByKey(event, "#strategy-page svg [role=button]");

/** Callback: what to draw, and what is selected. */
export function show(build, run, sel) {
  const page = part("page");
  if (page && page !== state.page) {
    if (!state.page) document.addEventListener("keydown", press);
    const sizes = new ResizeObserver(draw);
    for (const name of ["build", "run"]) sizes.observe(part(name).parentElement);
    state.page = page;
  }
  Object.assign(state, { pictures: { build, run }, sel: formatSelection(sel) ?? "" });
  draw();
  return window.dash_clientside.no_update;
}
