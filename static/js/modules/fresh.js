// A list that is being read is not moved under hand and eye. What is new waits behind the quiet button #fresh, what has
// left the list stays in its place, dimmed, and what goes on being listed is kept true where it stands. Only a click or
// a key brings the new list in; ticks and the focus go along with their rows.

const LISTED = "table[data-kept] [data-href]";
const TICKS = "table[data-kept] input:checked";

const rowsOf = (root) => new Map([...root.querySelectorAll(LISTED)].map((row) => [row.dataset.href, row]));
const button = () => document.getElementById("fresh");

let before = null;

/** What the list of a newer page has and misses; a row that another pushed over the end of the page is not missed. */
function changes(main, page) {
  const [old, fresh] = [rowsOf(main), rowsOf(page)];
  const added = [...fresh.keys()].filter((href) => !old.has(href));
  const order = [...old.keys()];
  const last = order.findLastIndex((href) => fresh.has(href));
  const cut = Boolean(page.querySelector("[data-more]"));
  return { old, fresh, added, gone: order.filter((href, at) => !fresh.has(href) && !(cut && at > last)) };
}

function tell(added, gone) {
  const place = button();
  const words = [[added, place.dataset.new], [gone, place.dataset.gone]].filter(([n]) => n);
  const text = words.map(([n, word]) => word.replace("%s", n > 99 ? "99+" : n)).join(" · ");
  const shown = place.querySelector("[data-n]");
  if (text && shown.textContent !== text) shown.textContent = text;
  place.hidden = !text;
}

/** How many rows are newer, where the page is only asked for a number. */
export const tellNew = (count) => tell(count, 0);

/** A row without what ticks by itself: two of the same essence say the same. */
function essence(row) {
  const copy = row.cloneNode(true);
  for (const one of copy.querySelectorAll("[data-due], [data-since], time")) {
    one.replaceWith(one.dataset.due || one.dataset.since || one.dateTime);
  }
  return copy.innerHTML;
}

const inHand = (row) => row.contains(document.activeElement) || row.querySelector("input:checked")
  || (String(getSelection()) && getSelection().containsNode(row, true));

/** Keep each row that both pages list true in its place, and the parts around the list that can't move it. */
function keep({ old, fresh, gone }, page) {
  for (const [href, row] of old) {
    const newer = fresh.get(href);
    if (!newer) continue;
    row.classList.remove("gone");
    if (!inHand(row) && essence(row) !== essence(newer)) row.replaceChildren(...newer.cloneNode(true).childNodes);
  }
  for (const href of gone) old.get(href).classList.add("gone");
  for (const part of document.querySelectorAll("main [data-part]")) {
    const newer = page.querySelector(`[data-part="${part.dataset.part}"]`);
    if (newer && !part.contains(document.activeElement)) part.replaceChildren(...newer.cloneNode(true).childNodes);
  }
}

/**
 * Take a newer page of a list into account without moving a row. Says whether that was all there was to do; false where
 * the page may be replaced: it has no such list, or its list has the same rows.
 */
export function held(main, page, busy) {
  if (!button() || !rowsOf(main).size) return false;
  const found = changes(main, page);
  if (!found.added.length && !found.gone.length && !busy && !main.querySelector("table[data-kept]:hover")) {
    tell(0, 0);
    return false;
  }
  keep(found, page);
  tell(found.added.length, found.gone.length);
  return true;
}

/** Put the newer page in the place of the old one: ticks and the focus stay with their rows, new rows are marked. */
export function bring(main, page) {
  const { added } = changes(main, page);
  const ticked = [...main.querySelectorAll(TICKS)].map((one) => one.value);
  const at = [...main.querySelectorAll(LISTED)].find((row) => row.contains(document.activeElement))?.dataset.href || before;
  main.replaceChildren(...page.getElementById("main").childNodes);
  const rows = rowsOf(main);
  for (const box of main.querySelectorAll("table[data-kept] input[type=checkbox]")) box.checked = ticked.includes(box.value);
  for (const href of added) rows.get(href)?.classList.add("new");
  const row = rows.get(at) || rows.get(added[0]) || rows.values().next().value;
  (row?.querySelector("a") || main).focus();
}

export function startFresh(onAsked) {
  document.addEventListener("click", (event) => {
    if (event.target.closest("#fresh button")) onAsked();
  });
  // Where the focus was before it went to the button: it goes back there.
  document.addEventListener("focusin", (event) => {
    if (event.target.closest("#fresh")) return;
    before = event.target.closest(LISTED)?.dataset.href || null;
  });
}
