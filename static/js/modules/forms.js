// Forms: a second click sends nothing twice, a filter applies by itself, a select-all knows its boxes, and what acts on
// ticked rows says so until one is ticked. What a page refused is in view when it comes back.

import { toProblem } from "./overlays.js";

function drawNeeds() {
  for (const button of document.querySelectorAll("[data-needs]")) {
    const none = !document.querySelector(`${button.dataset.needs}:checked`);
    const word = document.getElementById(button.getAttribute("aria-describedby"));
    button.setAttribute("aria-disabled", String(none));
    button.title = none ? word.textContent : "";
    word.hidden = !none;
  }
}

/** The field or the note that says why nothing was done may lie far below, or above the place an address names. */
function toRefused() {
  const wrong = document.querySelector('.app [aria-invalid="true"], .app [data-refused]');
  if (!wrong) return;
  const place = wrong.closest(".field") || wrong;
  toProblem(place);
  place.scrollIntoView({ block: "center" });
}

export function startForms() {
  // A place that the address names takes the focus while the page loads: this comes after it.
  addEventListener("load", () => requestAnimationFrame(toRefused));
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method !== "post") return;
    if (form.dataset.sent) {
      event.preventDefault();
      return;
    }
    form.dataset.sent = "1";
    const button = event.submitter;
    // After this event, so that the button's own name and value are still sent.
    setTimeout(() => { if (button) button.setAttribute("aria-busy", "true"); });
    setTimeout(() => {
      delete form.dataset.sent;
      if (button) button.removeAttribute("aria-busy");
    }, 8000);
  });
  // What was answered, or got lost, may be sent again.
  document.addEventListener("htmx:afterRequest", (event) => {
    const form = event.detail.elt;
    if (!(form instanceof HTMLFormElement)) return;
    delete form.dataset.sent;
    for (const button of form.querySelectorAll("[aria-busy]")) button.removeAttribute("aria-busy");
  });
  // Long work goes on in its own page, part by part; leaving the page stops it there.
  const going = document.querySelector("form[data-goes-on]");
  if (going) setTimeout(() => going.requestSubmit(), 300);
  document.addEventListener("change", (event) => {
    if (event.target.closest("[data-auto]")) event.target.form.requestSubmit();
    const all = event.target.closest("[data-all]");
    if (all) for (const box of document.querySelectorAll(all.dataset.all)) box.checked = all.checked;
    drawNeeds();
  });
  // Whoever presses it all the same is led to the first box.
  document.addEventListener("click", (event) => {
    const button = event.target.closest('[data-needs][aria-disabled="true"]');
    if (button) document.querySelector(button.dataset.needs)?.focus();
  });
  // A list that was read anew, or kept by the browser on the way back, has ticks of its own.
  document.addEventListener("qd:main", drawNeeds);
  addEventListener("pageshow", drawNeeds);
  drawNeeds();
  document.addEventListener("input", (event) => {
    const wanted = event.target.dataset && event.target.dataset.confirm;
    if (!wanted) return;
    const button = event.target.form.querySelector("[data-needs-confirm]");
    if (button) button.setAttribute("aria-disabled", String(event.target.value.trim() !== wanted));
  });
}
