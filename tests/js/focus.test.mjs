// The keyboard's place, in what is filled anew and in what must not be.
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { keepFocus } from "../../assets/focus.mjs";
import { showClients } from "../../assets/replay_transport.mjs";

/** As much of an element as both ask of one. */
class Element {
  constructor(tag, attributes = {}) {
    Object.assign(this, { tag, attributes, children: [], dataset: {}, heard: {}, chosen: null });
  }

  setAttribute(name, value) { this.attributes[name] = String(value); }
  getAttribute(name) { return this.attributes[name]; }
  hasAttribute(name) { return name in this.attributes; }
  append(...children) { this.children.push(...children); }
  replaceChildren(...children) { this.children = children; }
  addEventListener(name, listener) { this.heard[name] = listener; }
  contains(other) { return this.all.includes(other); }
  focus() { document.activeElement = this; }
  get all() { return [this, ...this.children.flatMap((one) => one.all ?? [])]; }

  get value() { return this.chosen ?? this.attributes.value; }
  set value(value) { this.chosen = value; }

  /** "select", "[name="value"]", or both. */
  querySelector(selector) {
    const [, tag, name, value] = /^(\w*)(?:\[(.+)="(.*)"\])?$/.exec(selector);
    return this.all.slice(1).find((one) => (!tag || one.tag === tag)
      && (!name || one.attributes[name] === value)) ?? null;
  }
}

beforeEach(() => {
  globalThis.document = { activeElement: null, createElement: (tag) => new Element(tag) };
  globalThis.CSS = { escape: (text) => text };
});

const rows = (...numbers) => numbers.map((number) => new Element("button", {
  "data-event": String(number),
}));

test("focus stays on the line of the same event when the table is filled anew", () => {
  const table = new Element("section");
  table.append(...rows(1, 2, 3));
  table.children[1].focus();
  keepFocus(table, ["data-event"], () => table.replaceChildren(...rows(2, 3, 4)));
  assert.equal(document.activeElement, table.children[0]);
});

test("a call keeps the focus, and not the label that says the same", () => {
  const picture = new Element("div");
  const parts = () => [
    new Element("text", { "data-sel": "rpc:1" }), new Element("g", { "data-sel": "rpc:1" }),
  ];
  picture.append(...parts());
  picture.children[1].focus();
  const draw = () => picture.replaceChildren(...parts());
  keepFocus(picture, ["data-bundle", "data-sel"], draw, "g");
  assert.equal(document.activeElement, picture.children[1]);
});

test("focus elsewhere is left alone", () => {
  const [table, other] = [new Element("section"), new Element("button", { "data-event": "1" })];
  table.append(...rows(1));
  other.focus();
  keepFocus(table, ["data-event"], () => table.replaceChildren(...rows(1)));
  assert.equal(document.activeElement, other);
});

test("the choice of clients stays the same element as long as the clients do", () => {
  const host = new Element("span");
  const chosen = [];
  const words = { of_step: "client" };
  const show = (...tasks) => (task) =>
    showClients(host, { tasks, task }, words, (name) => chosen.push(name));
  show("worker:0", "worker:1")("worker:0");
  const select = host.querySelector("select");
  assert.equal(select.value, "worker:0");
  show("worker:0", "worker:1")("worker:1");
  assert.equal(host.querySelector("select"), select);
  assert.equal(select.value, "worker:1");
  select.heard.change();
  assert.deepEqual(chosen, ["worker:1"]);
  show("worker:0", "worker:1", "worker:2")("worker:2");
  assert.notEqual(host.querySelector("select"), select);
  show("worker:0")("worker:0");
  assert.equal(host.querySelector("select"), null);
});
