// The row above the drawing: how many steps stand in each state (and only those, when pressed), the critical path, find.

import { ORDER } from "./graph-model.js";
import { html, icon, mark } from "./graph-svg.js";
import { STATUS, WORDS } from "./graph-words.js";

const SEARCH = "m21 21-4.34-4.34M19 11a8 8 0 1 1-16 0 8 8 0 0 1 16 0Z";

export class Tools {
  /** `changed()` is told when filter or search changed, `next(back)` to go to the next match. */
  constructor(host, { changed, next, critical, mode, list }) {
    Object.assign(this, { host, changed, statuses: new Set(), chips: new Map() });
    this.filters = html("div", { class: "filters scroll", role: "group" });
    this.critical = html("button", { class: "key", type: "button", "aria-pressed": "true", on: { click: () => {
      const on = this.critical.getAttribute("aria-pressed") !== "true";
      this.critical.setAttribute("aria-pressed", String(on));
      critical(on);
    } } }, html("i", { class: "line" }), WORDS.critical);
    this.field = html("input", { type: "search", class: "in", placeholder: WORDS.find, "aria-label": WORDS.findLong,
      autocomplete: "off", spellcheck: "false", on: { input: () => changed(), keydown: (event) => this.#typed(event, next) } });
    this.found = html("span", { class: "n", role: "status" });
    this.find = html("label", { class: "findstep" }, icon(SEARCH, "i-12"), this.field, this.found);
    const right = html("div", { class: "row row-3 push" });
    if (mode) right.append(this.#switch([["groups", WORDS.groups], ["steps", WORDS.steps]], mode, "not-phone"));
    right.append(this.#switch([["list", WORDS.list], ["map", WORDS.map]], list, "only-phone"), this.critical, this.find);
    host.replaceChildren(this.filters, right);
  }

  #switch(choices, chosen, more) {
    const group = html("div", { class: `seg ${more}`, role: "group" });
    choices.forEach(([key, word], index) => {
      group.append(html("button", { type: "button", "data-key": key, "aria-pressed": String(index === 0), text: word, on: {
        click: () => chosen(key) } }));
    });
    return group;
  }

  choose(key) {
    const button = this.host.querySelector(`[data-key="${key}"]`);
    if (!button) return;
    for (const one of button.parentElement.children) one.setAttribute("aria-pressed", String(one === button));
  }

  #typed(event, next) {
    if (event.key === "Enter") {
      event.preventDefault();
      next(event.shiftKey);
    } else if (event.key === "Escape" && this.field.value) {
      event.stopPropagation();
      this.field.value = "";
      this.changed();
    }
  }

  get query() {
    return this.field.value;
  }

  /** Show how the steps stand; only states that occur, or are filtered for. */
  count(counts) {
    let before = null;
    for (const status of ORDER) {
      const n = counts.get(status) || 0;
      let chip = this.chips.get(status);
      if (!chip && n) {
        chip = html("button", { class: "filter", type: "button", "aria-pressed": "false", on: { click: () => this.#press(status) } },
          mark(status), html("b"));
        this.chips.set(status, chip);
        if (before) before.after(chip);
        else this.filters.prepend(chip);
      }
      if (!chip) continue;
      chip.hidden = !n && !this.statuses.has(status);
      if (chip.lastChild.textContent !== String(n)) {
        chip.lastChild.textContent = String(n);
        chip.title = STATUS[status];
        chip.setAttribute("aria-label", WORDS.filterBy(status, n));
      }
      before = chip;
    }
  }

  #press(status) {
    const on = !this.statuses.has(status);
    if (on) this.statuses.add(status);
    else this.statuses.delete(status);
    this.chips.get(status).setAttribute("aria-pressed", String(on));
    this.changed();
  }

  /** Say how many match, and which of them is looked at. */
  matched(found, at) {
    this.found.textContent = found === null ? "" : !found.length ? WORDS.none : WORDS.of(at + 1, found.length);
  }
}
