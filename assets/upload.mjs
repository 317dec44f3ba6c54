// Opens a trace file from the viewer's disk: sends it to this server, goes to what it became.
import { config, prefix } from "./selection.mjs";

/** Says how it goes, in the words that the page carries; `text` is the server's own reason. */
function say(name, text = "") {
  const place = document.getElementById("upload-says");
  if (!place) return;
  place.textContent = name ? [place.dataset[name], text].filter(Boolean).join(" ") : text;
  place.classList.toggle("failed", name !== "sending");
}

/** What shows that a page of ours asks: a cookie's value, sent back as a header. */
export function pageHeaders() {
  const { csrf_token_name: name, csrf_header_name: header } = config();
  const cookie = document.cookie.split("; ").find((text) => text.startsWith(`${name}=`));
  return cookie ? { [header]: cookie.slice(name.length + 1) } : {};
}

async function send(file) {
  if (file.size > Number(document.getElementById("upload-says").dataset.limit)) {
    say("large");
    return;
  }
  say("sending", file.name);
  const query = new URLSearchParams({ name: file.name, lang: document.documentElement.lang });
  let reply;
  try {
    reply = await fetch(`${prefix()}api/upload?${query}`, {
      method: "POST", body: file,
      headers: { "Content-Type": "application/octet-stream", ...pageHeaders() },
    });
  } catch {
    say("unreachable");
    return;
  }
  const answer = await reply.json().catch(() => null); // a proxy answers with a page of its own
  if (!answer) {
    say("refused", String(reply.status));
    return;
  }
  const { trace, error } = answer;
  if (!trace) {
    say("", error);
    return;
  }
  history.pushState({}, "", `${prefix()}t/${trace}/summary`);
  dispatchEvent(new CustomEvent("_dashprivate_pushstate"));
}

function choose(button) {
  const input = Object.assign(document.createElement("input"), {
    type: "file", accept: button.dataset.choose,
  });
  input.addEventListener("change", () => send(input.files[0]));
  input.click();
}

const place = () => document.querySelector(".opener");

function onDragOver(event) {
  if (!place() || !event.dataTransfer?.types.includes("Files")) return;
  event.preventDefault();
  place().classList.add("over");
}

function onDrop(event) {
  const file = place() && event.dataTransfer?.files[0];
  if (!file) return;
  event.preventDefault();
  place().classList.remove("over");
  send(file);
}

let started = false;

/** Callback: the place is there. A file may be dropped anywhere on its page. */
export function start() {
  if (!started) {
    started = true;
    document.addEventListener("dragover", onDragOver);
    document.addEventListener("drop", onDrop);
    document.addEventListener("dragleave", (event) => {
      if (!event.relatedTarget) place()?.classList.remove("over");
    });
    document.addEventListener("click", (event) => {
      const button = event.target.closest?.("[data-choose]");
      if (button) choose(button);
    });
  }
  place()?.setAttribute("data-ready", "");
  return window.dash_clientside.no_update;
}
