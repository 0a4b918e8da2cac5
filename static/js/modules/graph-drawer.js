// The drawer beside the drawing: the page owns what is in it, the address says whose it is (?step=NODE).
// Choosing a step tells the document, so that others may follow: CustomEvent "qd:step" { detail: { node, step } }.

const FRESH_MS = 400;
const BEAT_MS = 5000;

export class Drawer {
  /** `pattern` is the address of a step's drawer with NODE in the place of its name; `closed()` is told when it closes. */
  constructor(pattern, { closed, moved }) {
    Object.assign(this, { pattern, closed, node: null });
    this.place = document.getElementById("drawer");
    document.addEventListener("click", (event) => {
      const away = event.target.closest?.("[data-drawer-close]");
      if (!away || !this.place) return;
      event.preventDefault();
      this.close();
    });
    addEventListener("popstate", () => moved(this.named));
    // How far a running step is, its worker tells with each heartbeat; the run itself does not move by it.
    setInterval(() => {
      if (!document.hidden && this.place?.querySelector("[data-beats]")) this.refresh();
    }, BEAT_MS);
  }

  /** The node that the address names. */
  get named() {
    return new URL(location.href).searchParams.get("step");
  }

  async open(node, { push = true } = {}) {
    this.node = node;
    document.dispatchEvent(new CustomEvent("qd:step", { detail: { node: node.id, step: node.step } }));
    if (push && this.named !== node.id) {
      const address = new URL(location.href);
      address.searchParams.set("step", node.id);
      address.searchParams.delete("part");
      history.pushState({}, "", address);
    }
    await this.#load(this.pattern.replace("NODE", encodeURIComponent(node.id)), push);
  }

  async #load(address, focus) {
    if (!this.place) return;
    const asked = (this.asked = Symbol("asked"));
    try {
      const answer = await fetch(address, { headers: { "HX-Request": "true", "HX-Current-URL": location.href } });
      if (asked !== this.asked) return;
      const away = answer.headers.get("HX-Redirect");
      if (away) location.assign(away);
      if (!answer.ok || answer.status === 204) throw new Error(String(answer.status));
      this.place.innerHTML = await answer.text();
      if (window.htmx) window.htmx.process(this.place);
      if (focus) this.place.querySelector("h2")?.focus({ preventScroll: true });
    } catch {
      if (asked === this.asked && focus && this.node) location.assign(`?step=${encodeURIComponent(this.node.id)}`);
    }
  }

  /** The step moved: show its new state, unless somebody works in the drawer. */
  refresh() {
    if (this.timer || !this.node) return;
    this.timer = setTimeout(() => {
      this.timer = null;
      const busy = document.querySelector("dialog[open]") || this.place?.querySelector("input, textarea, details[open]")
        || String(getSelection());
      if (!this.node || busy) return;
      const part = this.place?.querySelector(".tabs [aria-current]")?.getAttribute("hx-get");
      const scrolled = this.place?.querySelector(".drawer-b")?.scrollTop || 0;
      this.#load(part || this.pattern.replace("NODE", encodeURIComponent(this.node.id)), false).then(() => {
        const body = this.place?.querySelector(".drawer-b");
        if (body) body.scrollTop = scrolled;
      });
    }, FRESH_MS);
  }

  close({ push = true } = {}) {
    const node = this.node;
    this.node = null;
    this.asked = null;
    if (this.place) this.place.replaceChildren();
    if (push && this.named !== null) {
      const address = new URL(location.href);
      address.searchParams.delete("step");
      address.searchParams.delete("part");
      history.pushState({}, "", address);
    }
    this.closed(node);
  }
}
