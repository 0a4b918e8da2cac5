// How old the picture is. Every page says it; pages with data-refresh load their main part anew while nobody works in
// it; a page with a stream of its own (the live graph) tells of it with events on the document:
//   new CustomEvent("qd:live", { detail: { state: "live" | "paused" | "lost", at: Date } })
// A click on the pill loads the page anew, or, on a page with a stream, is left to the stream: "qd:live-click".

import { now } from "./times.js";

// A network that never answers is one that is lost.
const WAIT_MS = 10_000;

let pill;
let at;
let streamed = false;

function draw() {
  const seconds = Math.max(0, Math.round((now() - at) / 1000));
  const zh = document.documentElement.lang.startsWith("zh");
  const age = seconds < 60 ? `${seconds} ${zh ? "秒" : "s"}` : seconds < 3600 ? `${Math.floor(seconds / 60)} ${zh ? "分钟" : "min"}`
    : `${Math.floor(seconds / 3600)} ${zh ? "小时" : "h"}`;
  pill.querySelector("[data-age]").textContent = pill.dataset.old.replace("%s", age);
}

export function show(state, when) {
  if (!pill) return;
  at = when || at;
  pill.className = `live ${state}`;
  pill.querySelector("b").textContent = pill.dataset[state === "" ? "live" : state];
  draw();
}

// What was ticked or typed and not sent yet: a refresh would take it away.
function begun(main) {
  if (main.querySelector("input:checked")) return true;
  return [...main.querySelectorAll("input:not([type=hidden], [type=checkbox], [type=radio]), textarea")].some((one) => one.value !== one.defaultValue);
}

// Somebody who types, has a menu open, reads a dialog or has begun to choose is not disturbed.
function busy() {
  const main = document.getElementById("main");
  return document.hidden || document.querySelector("dialog[open], details.menu[open]") || String(getSelection())
    || (main && ((main.contains(document.activeElement) && document.activeElement !== main) || begun(main)));
}

async function refresh(main) {
  if (busy() || pill.classList.contains("paused")) return;
  try {
    const answer = await fetch(location.href, { headers: { "X-Refresh": "1" }, signal: AbortSignal.timeout(WAIT_MS) });
    if (!answer.ok || answer.redirected) throw new Error(String(answer.status));
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    // Another tab switched tenant: what comes is of that one, and so has the frame around it to be.
    if (page.body.dataset.tenant !== document.body.dataset.tenant) {
      location.reload();
      return;
    }
    const fresh = page.getElementById("main");
    if (!fresh || busy()) return;
    main.replaceChildren(...fresh.childNodes);
    if (window.htmx) window.htmx.process(main);
    show("live", new Date(page.getElementById("live").dataset.at));
  } catch {
    show("lost");
  }
}

// A list that is being read is not pushed down: how many rows are newer waits behind a button.
async function countFresh(button) {
  if (document.hidden || !button.dataset.after) return;
  try {
    const address = `${button.dataset.url}&after=${encodeURIComponent(button.dataset.after)}`;
    const answer = await fetch(address, { signal: AbortSignal.timeout(WAIT_MS) });
    if (!answer.ok || answer.redirected) throw new Error(String(answer.status));
    const { count } = await answer.json();
    button.hidden = !count;
    button.querySelector("[data-n]").textContent = button.dataset.one.replace("%s", count > 99 ? "99+" : count);
    if (pill.classList.contains("lost")) show("still", new Date(pill.dataset.at));
  } catch {
    show("lost");
  }
}

export function startLive() {
  pill = document.getElementById("live");
  if (!pill) return;
  at = new Date(pill.dataset.at);
  const main = document.querySelector("main[data-refresh]");
  if (main) {
    show("live", at);
    setInterval(() => refresh(main), 1000 * Number(main.dataset.refresh));
  }
  document.addEventListener("qd:live", (event) => {
    streamed = true;
    show(event.detail.state, event.detail.at);
  });
  const fresh = document.getElementById("fresh");
  if (fresh) setInterval(() => countFresh(fresh), 1000 * Number(fresh.dataset.every || 10));
  pill.addEventListener("click", () => {
    if (streamed) document.dispatchEvent(new CustomEvent("qd:live-click"));
    else if (main) show(pill.classList.contains("paused") ? "live" : "paused");
    else location.reload();
  });
  draw();
  setInterval(draw, 1000);
}
