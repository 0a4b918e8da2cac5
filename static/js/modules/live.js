// How old the picture is. Every page says it; pages with data-refresh load their main part anew while nobody works in
// it; a page with a stream of its own (the live graph) tells of it with events on the document:
//   new CustomEvent("qd:live", { detail: { state: "live" | "paused" | "lost", at: Date } })
// A click on the pill loads the page anew, or, on a page with a stream, is left to the stream: "qd:live-click".

import { bring, held, startFresh, tellNew } from "./fresh.js";
import { now } from "./times.js";

// A network that never answers is one that is lost.
const WAIT_MS = 10_000;
const COUNT_MS = 10_000;

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

const away = () => document.hidden || document.querySelector("dialog[open], details.menu[open]");

// Somebody who types, has a menu open, reads a dialog or has begun to choose is not disturbed.
function busy() {
  const main = document.getElementById("main");
  return away() || String(getSelection())
    || (main && ((main.contains(document.activeElement) && document.activeElement !== main) || begun(main)));
}

// Return the page as it is now; null when another tab switched tenant: then the frame around it has to change as well.
async function load() {
  const answer = await fetch(location.href, { headers: { "X-Refresh": "1" }, signal: AbortSignal.timeout(WAIT_MS) });
  if (!answer.ok || answer.redirected) throw new Error(String(answer.status));
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (page.body.dataset.tenant === document.body.dataset.tenant) return page;
  location.reload();
  return null;
}

function brought(part) {
  if (window.htmx) window.htmx.process(part);
  document.dispatchEvent(new CustomEvent("qd:main"));
}

// What stands beside the main part and is of the same picture.
function beside(page) {
  for (const part of document.querySelectorAll("[data-beside]")) {
    const newer = page.getElementById(part.id);
    if (!newer || part.contains(document.activeElement)) continue;
    part.replaceChildren(...newer.childNodes);
    brought(part);
  }
}

const timeOf = (page) => new Date(page.getElementById("live").dataset.at);

async function refresh(main) {
  const listed = document.getElementById("fresh");
  if (away() || (busy() && !listed) || pill.classList.contains("paused")) return;
  try {
    const page = await load();
    const fresh = page?.getElementById("main");
    if (!fresh || away() || (busy() && !listed)) return;
    if (!held(main, page, busy())) main.replaceChildren(...fresh.childNodes);
    beside(page);
    brought(main);
    show("live", timeOf(page));
  } catch {
    show("lost");
  }
}

// Bring the new rows in: somebody asked for them.
async function showFresh() {
  const main = document.getElementById("main");
  try {
    const page = await load();
    if (!page?.getElementById("main")) return;
    bring(main, page);
    brought(main);
    pill.dataset.at = page.getElementById("live").dataset.at;
    show(main.dataset.refresh ? "live" : "still", timeOf(page));
  } catch {
    show("lost");
  }
}

// A list that is too large to be read anew all the time is asked only how many rows are newer.
async function countFresh() {
  const place = document.getElementById("fresh");
  if (document.hidden || !place?.dataset.after) return;
  try {
    const address = `${place.dataset.url}&after=${encodeURIComponent(place.dataset.after)}`;
    const answer = await fetch(address, { signal: AbortSignal.timeout(WAIT_MS) });
    if (!answer.ok || answer.redirected) throw new Error(String(answer.status));
    const { count } = await answer.json();
    // Whoever brought them in meanwhile has seen them.
    if (place.isConnected) tellNew(count);
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
  if (document.getElementById("fresh")?.dataset.url) setInterval(countFresh, COUNT_MS);
  startFresh(showFresh);
  pill.addEventListener("click", () => {
    if (streamed) document.dispatchEvent(new CustomEvent("qd:live-click"));
    else if (main) show(pill.classList.contains("paused") ? "live" : "paused");
    else location.reload();
  });
  draw();
  setInterval(draw, 1000);
}
