// Dialogs, menus, the drawer, toasts: opening, closing, and giving the focus back to where it came from.

const dialogOf = (id) => document.getElementById(id);
let opener = null;

export function open(id) {
  const dialog = dialogOf(id);
  if (!dialog || dialog.open) return;
  opener = document.activeElement;
  dialog.showModal();
  const first = dialog.querySelector("[autofocus], input:not([type=hidden]), [data-close]");
  if (first) first.focus();
}

function close(dialog) {
  dialog.close();
  if (opener && document.contains(opener)) opener.focus();
}

/** What was refused is read at once: the focus goes to it, not to where the pressed button was. */
export function toProblem(place) {
  const told = place.matches('[role="alert"]') ? place : place.querySelector('[role="alert"]') || place.querySelector('[aria-invalid="true"]');
  if (!told) return;
  if (told.getAttribute("role") === "alert") told.tabIndex = -1;
  told.focus();
}

function closeMenus(except) {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(except)) menu.open = false;
}

export function startOverlays() {
  document.addEventListener("click", (event) => {
    const target = event.target;
    closeMenus(target);
    const opens = target.closest("[data-open]");
    if (opens) {
      closeMenus(null);
      open(opens.dataset.open);
      return;
    }
    const closes = target.closest("[data-close]");
    if (closes) {
      const dialog = closes.closest("dialog");
      if (dialog) {
        event.preventDefault();
        close(dialog);
      }
      return;
    }
    if (target instanceof HTMLDialogElement && target.open) close(target);
    const toast = target.closest("[data-dismiss]");
    if (toast) toast.closest(".toast").remove();
    const toggles = target.closest("[data-toggle]");
    const side = dialogOf("side");
    if (toggles) {
      const shown = dialogOf(toggles.dataset.toggle).classList.toggle("open");
      toggles.setAttribute("aria-expanded", String(shown));
    } else if (side && side.classList.contains("open") && !side.contains(target)) {
      side.classList.remove("open");
    }
    if (target.closest('[aria-disabled="true"]')) event.preventDefault();
    const copy = target.closest("[data-copy]");
    if (copy && navigator.clipboard) navigator.clipboard.writeText(copy.dataset.copy);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    const menu = document.querySelector("details.menu[open]");
    if (menu) {
      menu.open = false;
      menu.querySelector("summary").focus();
      return;
    }
    if (document.querySelector("dialog[open]")) return;
    const away = document.querySelector("#drawer [data-drawer-close]");
    if (away) away.click();
  });
  // What htmx loads into the dialog is shown once it is there.
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target.id === "dialog" && event.detail.target.childElementCount) open("dialog");
    if (event.detail.target.id === "drawer") {
      const title = event.detail.target.querySelector("h2");
      if (title) title.focus();
    }
  });
  // Later than htmx's own focus, which goes to the dialog's safe choice.
  document.addEventListener("htmx:afterSettle", (event) => {
    if (["dialog", "dialog-problem"].includes(event.detail.target.id)) toProblem(event.detail.target);
  });
}
