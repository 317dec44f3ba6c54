// Following a run: which stream an address has, who is at the end, where the window goes.
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { isAtEnd, streamOf } from "../../assets/live.mjs";
import { Growth, atEnd } from "../../assets/timeline_live.mjs";

/** A page of a run with streams that a test answers; `told` is what Dash was told. */
async function page(name) {
  const streams = [];
  const told = [];
  const hears = {};
  class EventSource {
    static CLOSED = 2;
    readyState = 1;
    ended = null;
    constructor() { streams.push(this); }
    addEventListener(_, hear) { this.ended = hear; }
    close() { this.readyState = 2; }
    refuse() { this.close(); this.onerror(); }
    say(state) { this.onmessage({ data: JSON.stringify(state) }); }
    end(state) { this.ended({ data: JSON.stringify(state) }); }
  }
  const document = {
    hidden: false,
    querySelector: () => null,
    getElementById: (id) => (id === "_dash-config"
      ? { textContent: '{"requests_pathname_prefix": "/"}' } : null),
    addEventListener: (what, hear) => { hears[what] = hear; },
  };
  Object.assign(globalThis, {
    EventSource, document, location: { pathname: "/t/0123456789abcdef/graph", search: "" },
    addEventListener() {}, removeEventListener() {}, dispatchEvent() {},
    window: { dash_clientside: { set_props: (prop, { data }) => told.push([prop, data]) } },
  });
  const live = await import(`../../assets/live.mjs?${name}`);
  live.startLive();
  live.listen();
  const hide = (isHidden) => {
    document.hidden = isHidden;
    hears.visibilitychange();
  };
  return { streams, told, hide };
}

test("the Library and every page of a run have a stream, other pages none", () => {
  assert.equal(streamOf(""), "api/library/live");
  assert.equal(streamOf("t/0123456789abcdef/graph"), "api/traces/0123456789abcdef/live");
  assert.equal(streamOf("reference"), "");
  assert.equal(streamOf("t/../graph"), "");
});

test("whoever came to a step, a thing or a window is not at the end", () => {
  const end = { sel: null, step: null, t0: null };
  assert.ok(isAtEnd(end));
  for (const other of [{ step: 3 }, { sel: { type: "node", id: "a" } }, { t0: "5" }]) {
    assert.ok(!isAtEnd({ ...end, ...other }));
  }
});

test("a window keeps its length and ends a little after the newest span", () => {
  assert.deepEqual(atEnd(100, 200, 1000), [902, 1002]);
});

test("a stream that was refused is asked for again, later each time, up to 30 s", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const { streams } = await page("refused");
  for (const wait of [1, 2, 4, 8, 16, 30, 30]) {
    const asked = streams.length;
    streams.at(-1).refuse();
    mock.timers.tick(wait * 1000 - 1);
    assert.equal(streams.length, asked);
    mock.timers.tick(1);
    assert.equal(streams.length, asked + 1);
  }
  streams.at(-1).say({ outcome: "running" });
  streams.at(-1).refuse();
  mock.timers.tick(1000);
  assert.equal(streams.at(-1).readyState, 1);
  mock.timers.reset();
});

test("a run that has ended is not asked for again when its tab is shown", async () => {
  const { streams, told, hide } = await page("ended");
  streams[0].say({ outcome: "running" });
  hide(true);
  hide(false);
  assert.equal(streams.length, 2);
  streams[1].end({ outcome: "done" });
  assert.deepEqual(told.at(-2), ["live", { seen: 1, over: true }]);
  const before = told.length;
  hide(true);
  hide(false);
  assert.equal(streams.length, 2);
  assert.equal(told.length, before);
});

test("a timeline that cannot catch up stops asking until it is told of something new", async () => {
  await page("growth");
  mock.timers.enable({ apis: ["setTimeout"] });
  let asked = 0;
  const head = () => { asked += 1; return Promise.reject(new Error("gone")); };
  const growth = new Growth({ head: { end: 5, rows: [] }, source: { head } });
  const wait = async () => {
    for (let i = 0; i < 40; i += 1) {
      await new Promise(setImmediate);
      mock.timers.tick(4000);
    }
  };
  growth.told({ last: 9, rows: 0, spans: 1 });
  await wait();
  assert.equal(asked, 8);
  growth.told({ last: 10, rows: 0, spans: 2 });
  await wait();
  assert.equal(asked, 16);
  mock.timers.reset();
});

test("what stands out is asked anew when rows or the start move, else when it is time", async () => {
  await page("moved");
  const asked = [];
  const nothing = () => {};
  const view = {
    head: { end: 5, rows: [1] }, asked: {}, window: { from: 0, to: 5 }, loader: { expire: nothing },
    lights: { ask: nothing }, findings: { askRun: (isMoved) => asked.push(isMoved) },
    surface: { invalidate: nothing }, load: nothing, show: nothing,
    takeHead(head) { this.head = head; },
  };
  const growth = new Growth(view);
  growth.start = "100";
  for (const [rows, start] of [[[1], "100"], [[1, 2], "100"], [[1, 2], "90"], [[1, 2], "90"]]) {
    growth.take({ end: 5, rows }, start, 1);
  }
  assert.deepEqual(asked, [false, true, true, false]);
});
