// The panel that starts a run: draws what can be chosen, shows the command, follows the run.
import { prefix } from "./selection.mjs";
import { pageHeaders } from "./upload.mjs";

const LOOK_MS = 500; // between two looks at a run that was started
const MOST_DRAWN = 16; // of the tasks of a job: more are refused anyway
const REST_MS = 300; // without a change, before it is asked how long a run will take

/** Of a choice: its parts, as the server lists them, in the order in which they are told. */
export function partsOf(can, workload, strategy) {
  const work = can.workloads[workload];
  const parts = work.kind === "graph" ? [work] : [can.strategies[strategy], work];
  return {
    strategy: work.kind === "graph" ? "" : strategy,
    numbers: parts.flatMap((part) => part.numbers),
    usual: Object.assign({}, ...parts.map((part) => part.usual)),
    options: Object.assign({}, ...parts.map((part) => part.options)),
  };
}

/** What an option is: as chosen, unless another strategy allows other values. */
export function valueOf(option, chosen) {
  const isAllowed = !option.allowed.length || option.allowed.includes(chosen);
  return chosen !== undefined && isAllowed ? chosen : String(option.default);
}

/** What a number is: as chosen, else as usual with this strategy. */
export const numberOf = (can, parts, name, chosen) =>
  String(chosen ?? parts.usual[name] ?? can.numbers[name].usual);

/** [task, number of its devices] of a run; none of a graph, which names its own. */
export function tasksOf({ strategy, numbers }, hasServers) {
  if (!strategy) return [];
  const tasks = (job, count, devices) =>
    Array.from({ length: Math.min(count, MOST_DRAWN) }, (_, n) => [`${job}:${n}`, devices]);
  return [
    ...tasks("ps", hasServers ? Number(numbers.ps) : 0, 1),
    ...tasks("worker", Number(numbers.workers ?? 1), Number(numbers.devices)),
  ];
}

/** The faults that can happen to these tasks: nothing is on its way to one that is alone. */
export const faultsFor = (can, tasks) =>
  can.faults.filter(({ ofFrames }) => tasks.length > 1 || !ofFrames).map(({ kind }) => kind);

/** A fault as it is asked for: null if there is none, or none of these tasks has it. */
export function faultOf(can, tasks, { kind, task, step, ms }) {
  if (!faultsFor(can, tasks).includes(kind) || !tasks.length) return null;
  const names = tasks.map(([name]) => name);
  const told = {
    kind, task: names.includes(task) ? task : names.at(-1),
    step: String(step ?? can.numbers.step.usual),
  };
  return kind === "delay" ? { ...told, ms: String(ms ?? can.numbers.ms.usual) } : told;
}

/** What is asked for, without the options that are as they would be anyway. */
export function asked(can, { workload, strategy, numbers, options, fault = {} }) {
  const parts = partsOf(can, workload, strategy);
  const chosen = Object.entries(parts.options)
    .map(([name, option]) => [name, valueOf(option, options[name]), String(option.default)])
    .filter(([, value, usual]) => value !== usual);
  const told = {
    workload,
    strategy: parts.strategy,
    numbers: Object.fromEntries(
      parts.numbers.map((name) => [name, numberOf(can, parts, name, numbers[name])])),
    options: Object.fromEntries(chosen),
  };
  const struck = faultOf(can, tasksOf(told, parts.numbers.includes("ps")), fault);
  return struck ? { ...told, fault: struck } : told;
}

/** The command line that does the same. */
export function command({ workload, strategy, numbers, options, fault }) {
  const words = ["tracer run", workload];
  if (strategy) words.push(`--strategy ${strategy}`);
  for (const [name, value] of Object.entries(numbers)) {
    if (name === "seed" && value === "0") continue;
    words.push(`--${name} ${name === "devices" ? `cpu:${value}` : value}`);
  }
  words.push(...Object.entries(options).map(([n, v]) => `--option ${n}=${v}`));
  if (fault) {
    const { kind, ms, task, step } = fault;
    words.push(`--fault ${kind}${ms ? `=${ms}` : ""}:${task}@step:${step}`);
  }
  return words.join(" ");
}

const make = (name, attributes = {}, ...children) => {
  const element = Object.assign(document.createElement(name), attributes);
  element.append(...children);
  return element;
};

/** The name of a field is its text alone, without the choices that lie in the label too. */
function labelled(text, field, name = "") {
  field.setAttribute("aria-label", text);
  return make("label", { className: `field ${name}` }, make("span", { textContent: text }), field);
}

const select = (names, value, words = {}) =>
  make("select", {}, ...names.map((name) =>
    make("option", { value: name, textContent: words[name] ?? name, selected: name === value })));

const number = (value, least, most, step = 1) =>
  Object.assign(make("input", { type: "number", required: true, step }),
    { min: least ?? -most, max: most, value });

function optionField(option, value) {
  if (option.type === "bool") return select(["true", "false"], value);
  if (option.allowed.length) return select(option.allowed, value);
  return number(value, option.least, 1e6, option.type === "int" ? 1 : "any");
}

/** One drawn form. What is chosen stays when its parts change. */
class StartForm {
  constructor(form) {
    this.form = form;
    this.can = JSON.parse(form.dataset.can);
    this.words = JSON.parse(form.dataset.words);
    this.chosen = {
      workload: Object.keys(this.can.workloads)[0],
      strategy: "parameter_server_v1",
      numbers: {},
      options: {},
      fault: {},
    };
    this.says = make("output", { className: "start-says" });
    this.fields = make("div", { className: "fields" });
    this.faultFields = make("div", { className: "fields wide" });
    this.sketch = make("div", { className: "sketch" });
    this.line = make("code", { className: "command-line" });
    this.expected = make("p", { className: "expected" });
    this.button = make("button", {
      type: "submit", className: "button main-action", textContent: this.words.start,
    });
    form.replaceChildren(
      this.fields, this.sketch, this.line, this.expected, this.button, this.says);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.start();
    });
    this.draw();
  }

  get asked() {
    return asked(this.can, this.chosen);
  }

  draw() {
    const { can, words, chosen } = this;
    const parts = partsOf(can, chosen.workload, chosen.strategy);
    const fields = [
      labelled(words.workload, this.field(select(Object.keys(can.workloads), chosen.workload),
        (value) => { chosen.workload = value; this.redraw("workload"); }), "wide workload"),
    ];
    if (parts.strategy) {
      fields.push(
        labelled(words.strategy, this.field(select(Object.keys(can.strategies), chosen.strategy),
          (value) => { chosen.strategy = value; this.redraw("strategy"); }), "wide strategy"),
        make("p", { className: "wide", textContent: words[`says.${parts.strategy}`] }));
    }
    for (const name of parts.numbers) {
      const { least, most } = can.numbers[name];
      const drawn = number(numberOf(can, parts, name, chosen.numbers[name]), least, most);
      const take = (value) => {
        chosen.numbers[name] = value;
        this.drawFaults();
      };
      fields.push(labelled(words[name], this.field(drawn, take), name));
    }
    this.drawFaults();
    if (parts.strategy) fields.push(this.faultFields);
    if (Object.keys(parts.options).length) fields.push(this.options(parts.options));
    this.fields.replaceChildren(...fields);
    this.told();
  }

  get tasks() {
    return tasksOf(this.asked, "ps" in this.asked.numbers);
  }

  /** They follow the tasks, which change with numbers: whoever types one goes on typing. */
  drawFaults() {
    this.faultFields.replaceChildren(...this.faults());
  }

  /** What may happen to a task: which fault, and where and when, once one is chosen. */
  faults() {
    const { can, words, chosen: { fault } } = this;
    const told = this.asked.fault;
    const kinds = ["", ...faultsFor(can, this.tasks)];
    const named = Object.fromEntries(
      kinds.map((kind) => [kind, words[kind ? `faults.${kind}` : "no_fault"]]));
    const fields = [
      labelled(words.fault, this.field(select(kinds, told?.kind ?? "", named),
        (value) => {
          fault.kind = value;
          this.drawFaults();
          this.faultFields.querySelector("select").focus();
        }), "wide"),
    ];
    if (!told) return fields;
    const tasks = select(this.tasks.map(([name]) => name), told.task);
    fields.push(labelled(words.task, this.field(tasks, (value) => { fault.task = value; })));
    for (const name of ["step", "ms"].filter((each) => each in told)) {
      const { least, most } = can.numbers[name];
      const drawn = number(told[name], least, most);
      fields.push(labelled(words[name], this.field(drawn, (value) => { fault[name] = value; })));
    }
    return fields;
  }

  options(options) {
    const { options: chosen } = this.chosen;
    const fields = Object.entries(options).map(([name, option]) => {
      const drawn = optionField(option, valueOf(option, chosen[name]));
      return labelled(name, this.field(drawn, (value) => { chosen[name] = value; }), "option");
    });
    const box = make("details", { className: "wide", open: this.isOpen ?? false },
      make("summary", { textContent: this.words.options }),
      make("div", { className: "fields" }, ...fields));
    box.addEventListener("toggle", () => { this.isOpen = box.open; });
    return box;
  }

  field(element, take) {
    element.addEventListener("input", () => {
      take(element.value);
      this.told();
    });
    return element;
  }

  /** Whoever chose goes on from the same field. */
  redraw(name) {
    this.draw();
    this.fields.querySelector(`.${name} select`).focus();
  }

  told() {
    this.line.textContent = command(this.asked);
    const { tasks, words, asked: { fault } } = this;
    this.sketch.replaceChildren(...tasks.map(([name, devices]) =>
      make("span", { className: name === fault?.task ? "task struck" : "task" },
        make("b", { textContent: name }), ` ${devices > 1 ? `CPU:0…${devices - 1}` : "CPU:0"}`)));
    if (!tasks.length) this.sketch.textContent = words.own_tasks;
    clearTimeout(this.resting);
    this.resting = setTimeout(() => this.expect(), REST_MS);
  }

  /** Says how long it will take, if an earlier run tells. */
  async expect() {
    const wanted = this.asked;
    const answer = await this.ask(`api/runs/expected?lang=${document.documentElement.lang}`, {
      method: "POST",
      body: JSON.stringify(wanted),
      headers: { "Content-Type": "application/json", ...pageHeaders() },
    });
    const isNews = JSON.stringify(wanted) === JSON.stringify(this.asked);
    if (isNews) this.expected.textContent = answer?.says ?? "";
  }

  async start() {
    this.button.disabled = true;
    const answer = await this.ask(`api/runs?lang=${document.documentElement.lang}`, {
      method: "POST",
      body: JSON.stringify(this.asked),
      headers: { "Content-Type": "application/json", ...pageHeaders() },
    });
    this.button.disabled = false;
    if (answer?.error) this.say(answer.error, { failed: true });
    if (answer?.trace) this.follow(answer.trace);
  }

  /** Its row in the list tells how far it is; here it says what becomes of it. */
  async follow(trace) {
    this.followed = trace;
    while (this.followed === trace && this.form.isConnected) {
      const answer = await this.ask(`api/runs/${trace}`, {});
      if (!answer || this.followed !== trace) return;
      const { phase, says } = answer;
      const text = phase === "failed" ? `${this.words.failed} ${says}` : this.words[phase];
      this.say(text, { trace, phase, failed: phase === "failed" });
      if (phase === "done" || phase === "failed") return;
      await new Promise((done) => setTimeout(done, LOOK_MS));
    }
  }

  async ask(path, options) {
    try {
      const reply = await fetch(`${prefix()}${path}`, options);
      return await reply.json();
    } catch {
      this.say(this.words.unreachable, { failed: true });
      return null;
    }
  }

  /** Says it once, so that whoever listens hears each change. */
  say(text, { trace = "", phase = "", failed = false } = {}) {
    const told = `${text} ${trace} ${phase}`;
    if (this.last === told) return;
    this.last = told;
    this.says.classList.toggle("failed", failed);
    this.says.dataset.phase = phase;
    const parts = [make("span", { textContent: text })];
    if (trace && phase !== "starting") {
      const page = phase === "running" ? "timeline" : "summary";
      parts.push(make("a", { href: `${prefix()}t/${trace}/${page}`, textContent: this.words.open,
        className: "button" }));
    }
    if (phase === "starting" || phase === "running") parts.push(this.stopper(trace));
    this.says.replaceChildren(...parts);
  }

  stopper(trace) {
    const button = make("button", {
      type: "button", className: "button", textContent: this.words.stop,
    });
    button.addEventListener("click", () => {
      button.disabled = true;
      this.ask(`api/runs/${trace}/stop`, { method: "POST", headers: pageHeaders() });
    });
    return button;
  }
}

/** Callback: the panel is there. */
export function draw() {
  const form = document.getElementById("start-run");
  if (form && !form.firstChild) new StartForm(form);
  return window.dash_clientside.no_update;
}
