// The run's head, tabs and acts beside the drawing are the server's: fetched anew while they are older than what is drawn.

const EVERY_MS = 2000;
const PARTS = [".left > .rh", ".left > .tabs", ".actbar"];

// Nothing is taken away from under a dialog, an open menu or a text that is being copied.
function blocked() {
  if (document.querySelector("dialog[open], details.menu[open]")) return true;
  const chosen = getSelection();
  return !chosen.isCollapsed && Boolean(document.querySelector(PARTS[0])?.contains(chosen.anchorNode));
}

// Whoever stands on a link or button by keyboard goes on from the same one, or from the page when it is gone.
function replace(old, fresh) {
  const at = old.contains(document.activeElement) ? document.activeElement : null;
  old.replaceWith(fresh);
  if (window.htmx) window.htmx.process(fresh);
  if (!at) return;
  const alike = (one) => one.getAttribute("href") === at.getAttribute("href") && one.textContent === at.textContent;
  const next = [...fresh.querySelectorAll(at.localName)].find(alike) || document.getElementById("main");
  next?.focus({ preventScroll: true });
}

export class Head {
  constructor() {
    this.seq = Number(document.querySelector(PARTS[0])?.dataset.seq || 0);
    this.asked = -EVERY_MS;
  }

  /** How many events there are is known at once. */
  count(seq) {
    const events = document.querySelector('.left > .tabs a[href$="/events/"] .n');
    if (events) events.textContent = String(seq);
  }

  /** Called each second with the seq that is drawn; the head counts as newer only once it has been replaced. */
  async tick(seq) {
    if (this.seq >= seq || this.asking || performance.now() - this.asked < EVERY_MS || blocked()) return;
    this.asking = true;
    this.asked = performance.now();
    try {
      const headers = { "HX-Request": "true", "X-Refresh": "head" };
      const answer = await fetch(location.href, { headers, signal: AbortSignal.timeout(10_000) });
      if (!answer.ok || answer.redirected) throw new Error(String(answer.status));
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const head = page.querySelector(PARTS[0]);
      if (!head || blocked()) return;
      const shown = Number(head.dataset.seq);
      for (const part of PARTS) {
        const [old, fresh] = [document.querySelector(part), page.querySelector(part)];
        if (old && fresh) replace(old, fresh);
      }
      this.seq = shown;
      this.count(Math.max(seq, shown));
    } catch {
      // The next tick asks again; whether the connection is lost, the stream says.
    } finally {
      this.asking = false;
    }
  }
}
