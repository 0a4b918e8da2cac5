// Requests that got no answer: whether an act was done is not known then, and that is said where it was asked.

import { toProblem } from "./overlays.js";

function make(name, attributes, ...inside) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...inside);
  return node;
}

function tell(event) {
  const words = document.getElementById("lost");
  if (!words) return;
  const acts = event.detail.requestConfig?.verb !== "get";
  const told = make("div", {}, make("p", { class: "strong" }, acts ? words.dataset.act : words.dataset.read));
  if (acts) told.append(make("a", { class: "link", href: location.href }, words.dataset.again));
  const place = document.querySelector("dialog[open] #dialog-problem");
  if (place) {
    place.replaceChildren(make("div", { class: "note st-unknown", role: "alert" }, told));
    toProblem(place);
  } else document.getElementById("toasts").prepend(make("div", { class: "toast", role: "alert" }, told));
}

export function startLost() {
  document.addEventListener("htmx:sendError", tell);
  document.addEventListener("htmx:timeout", tell);
}
