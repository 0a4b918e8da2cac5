// The command palette: pages at once, then what the server finds by id, key or name. mod+K or "/" opens it.

import { open } from "./overlays.js";

let options = [];
let at = 0;
let asked = 0;

function icon(dialog, kind) {
  const found = dialog.querySelector("template[data-kinds]").content.querySelector(`[data-kind="${kind}"] svg`);
  return found ? found.cloneNode(true) : document.createElement("span");
}

function select(list, index) {
  at = Math.max(0, Math.min(options.length - 1, index));
  options.forEach((node, n) => node.setAttribute("aria-selected", String(n === at)));
  const input = list.closest("dialog").querySelector("input");
  if (options[at]) {
    input.setAttribute("aria-activedescendant", options[at].id);
    options[at].scrollIntoView({ block: "nearest" });
  } else input.removeAttribute("aria-activedescendant");
}

function heading(list, text) {
  const row = document.createElement("li");
  row.className = "lbl";
  row.role = "presentation";
  row.textContent = text;
  list.append(row);
}

function option(list, href, sign, text, more) {
  const row = document.createElement("li");
  row.role = "option";
  row.id = `palette-${options.length}`;
  row.dataset.href = href;
  const words = document.createElement("span");
  words.className = "trunc";
  words.textContent = text;
  row.append(sign, words);
  if (more) row.append(Object.assign(document.createElement("small"), { className: "push faint", textContent: more }));
  list.append(row);
  options.push(row);
}

function pages(dialog, list, text) {
  const template = dialog.querySelector("template[data-pages]");
  const found = [...template.content.querySelectorAll("a")].filter((a) => a.dataset.word.toLowerCase().includes(text));
  if (!found.length) return;
  heading(list, template.dataset.pages);
  for (const link of found) option(list, link.getAttribute("href"), link.querySelector("svg").cloneNode(true), link.querySelector("span").textContent);
}

// What the server finds; null when it cannot be asked: the connection, the session or the database is gone.
async function ask(url) {
  try {
    const answer = await fetch(url, { headers: { Accept: "application/json" } });
    return answer.ok ? (await answer.json()).items : null;
  } catch {
    return null;
  }
}

async function search(dialog, list, text) {
  const mine = ++asked;
  const items = await ask(`${dialog.dataset.search}?q=${encodeURIComponent(text)}`);
  if (mine !== asked) return;
  dialog.querySelector(".away").hidden = items !== null;
  if (items === null) return;
  if (items.length) heading(list, dialog.querySelector("template[data-pages]").dataset.found);
  for (const hit of items) option(list, hit.url, icon(dialog, hit.kind), hit.label, hit.more);
  dialog.querySelector(".none").hidden = options.length > 0;
  select(list, at);
}

function draw(dialog) {
  const list = dialog.querySelector("ul");
  const text = dialog.querySelector("input").value.trim();
  list.replaceChildren();
  options = [];
  pages(dialog, list, text.toLowerCase());
  for (const words of dialog.querySelectorAll(".none, .away")) words.hidden = true;
  select(list, 0);
  clearTimeout(dialog.timer);
  if (text.length >= 2) dialog.timer = setTimeout(() => search(dialog, list, text), 120);
  else asked++;
}

export function openPalette() {
  const dialog = document.getElementById("palette");
  if (!dialog || dialog.open) return;
  dialog.querySelector("input").value = "";
  open("palette");
  draw(dialog);
}

export function startPalette() {
  const dialog = document.getElementById("palette");
  if (!dialog) return;
  const list = dialog.querySelector("ul");
  dialog.querySelector("input").addEventListener("input", () => draw(dialog));
  dialog.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") select(list, at + 1);
    else if (event.key === "ArrowUp") select(list, at - 1);
    else if (event.key === "Enter" && options[at]) location.assign(options[at].dataset.href);
    else return;
    event.preventDefault();
  });
  list.addEventListener("click", (event) => {
    const row = event.target.closest("[role=option]");
    if (row) location.assign(row.dataset.href);
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest('[data-open="palette"]')) draw(dialog);
  });
  const apple = /Mac|iPhone|iPad/.test(navigator.platform);
  if (apple) for (const key of document.querySelectorAll("[data-mod-k]")) key.textContent = "⌘K";
}
