// Keyboard shortcuts. None of them acts on the server; in a field they are letters like all others.

import { open } from "./overlays.js";
import { openPalette } from "./palette.js";

const WHERE = { n: "now", i: "inbox", r: "runs" };
let waitsForPlace = false;

function rows() {
  return [...document.querySelectorAll("[data-rows] [data-href]")];
}

function step(by) {
  const all = rows();
  if (!all.length) return;
  const here = all.findIndex((row) => row.contains(document.activeElement));
  const next = all[Math.max(0, Math.min(all.length - 1, here + by))];
  const link = next.querySelector("a");
  if (link) link.focus();
}

export function startKeys() {
  document.addEventListener("keydown", (event) => {
    if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      openPalette();
      return;
    }
    if (event.metaKey || event.ctrlKey || event.altKey) return;
    // A link that looks and is named like a button answers the space bar like one.
    if (event.key === " " && event.target.matches('a[role="button"]')) {
      event.preventDefault();
      event.target.click();
      return;
    }
    // A box to tick takes no letters.
    if (event.target.closest("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]") || document.querySelector("dialog[open]")) return;
    if (waitsForPlace) {
      waitsForPlace = false;
      const link = WHERE[event.key] && document.querySelector(`a[href^="/${WHERE[event.key]}/"]`);
      if (link) location.assign(link.getAttribute("href"));
      return;
    }
    if (event.key === "/") {
      event.preventDefault();
      openPalette();
    } else if (event.key === "?") open("shortcuts");
    else if (event.key === "g") {
      waitsForPlace = true;
      setTimeout(() => { waitsForPlace = false; }, 1000);
    } else if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else {
      // A letter only leads to what acts; what it is comes by Enter, and is seen before that.
      const wanted = /^[a-z]$/.test(event.key) && document.querySelector(`[data-letter="${event.key}"]`);
      if (wanted) {
        event.preventDefault();
        wanted.focus();
      }
    }
  });
}
