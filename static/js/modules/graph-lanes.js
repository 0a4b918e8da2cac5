// The graph on a phone: its steps in order, one a row, with the same edges as lanes beside them. Rows out of sight have
// no elements when there are many.

import { WORDS, detail, spoken } from "./graph-words.js";
import { html, mark, svg } from "./graph-svg.js";

const ROW = 48;
const LANE = 14;
const MOST_LANES = 6;
const ALL_BELOW = 120;
const MOST_LETTERS = 26;

export class Lanes {
  constructor(host, { open, address = (node) => `?step=${encodeURIComponent(node.id)}` }) {
    Object.assign(this, { host, open, address, rows: new Map(), matched: null, selected: null });
    this.list = html("div", { class: "lwrap", role: "list" });
    host.append(this.list);
    this.scroller = host.closest(".left") || host;
    const look = () => {
      if (!this.frame) this.frame = requestAnimationFrame(() => {
        this.frame = null;
        this.draw();
      });
    };
    this.scroller.addEventListener("scroll", look, { passive: true });
    new ResizeObserver(() => this.look()).observe(host);
    addEventListener("resize", () => this.look());
  }

  use(model) {
    this.model = model;
    this.lanes = lanesOf(model);
    this.railed = this.lanes.fits && model.all.length <= ALL_BELOW;
    // What undoes a step stands one lane to its right.
    this.width = 11 + LANE * ((this.railed ? this.lanes.count : 1) + (model.undoing.length ? 1 : 0));
    this.list.style.setProperty("--lanes", `${this.width + 20}px`);
    this.relist();
  }

  /** The filter changed: other rows, at other places. */
  relist() {
    const rows = this.model.undoing.length ? this.model.nodes.flatMap((node) => [node, ...(node.undo || [])]) : this.model.nodes;
    this.shown = this.matched ? rows.filter((node) => this.matched.has(node)) : rows;
    for (const row of this.rows.values()) row.remove();
    this.rows.clear();
    this.list.style.height = `${this.shown.length * ROW}px`;
    this.place = new Map(this.shown.map((node, index) => [node, index]));
    this.#drawLanes();
    this.look();
  }

  /** Whether the list is what is shown; asked when the window or the reader changes it, not at every patch. */
  look() {
    this.visible = this.host.offsetParent !== null;
    this.draw();
  }

  draw() {
    if (!this.model || !this.visible) return;
    let [from, to] = [0, this.shown.length];
    if (to > ALL_BELOW) {
      const top = this.list.getBoundingClientRect().top;
      from = Math.max(0, Math.floor(-top / ROW) - 10);
      to = Math.min(to, Math.ceil((innerHeight - top) / ROW) + 10);
    }
    for (const [node, row] of this.rows) {
      const at = this.place.get(node);
      if (at === undefined || at < from || at >= to) {
        row.remove();
        this.rows.delete(node);
      }
    }
    const fresh = document.createDocumentFragment();
    for (let i = from; i < to; i += 1) {
      const node = this.shown[i];
      if (this.rows.has(node)) continue;
      const row = this.#row(node, i);
      this.rows.set(node, row);
      fresh.append(row);
    }
    this.list.append(fresh);
  }

  #row(node, index) {
    const lane = (this.matched || !this.railed ? 0 : this.lanes.of.get(node.undoes || node)) + (node.undoes ? 1 : 0);
    const row = html("a", { role: "listitem", href: this.address(node), on: { click: (event) => {
      event.preventDefault();
      this.open(node);
    } } }, mark(node.status, "mark-18"), html("b", { class: "trunc", text: node.undoes ? undoes(node) : short(node.label || node.title) }), html("span", { class: "r" }));
    row.style.top = `${index * ROW}px`;
    row.firstChild.style.left = `${11 + LANE * lane - 9 + 7}px`;
    this.#fill(row, node);
    return row;
  }

  #fill(row, node) {
    const [text, toned] = detail(node);
    row.className = `lrow st-${node.status}${node.undoes ? " undo" : ""}${node === this.selected ? " sel" : ""}`;
    const use = row.firstChild.firstChild;
    if (use.getAttribute("href") !== `#m-${node.status}`) {
      use.setAttribute("href", `#m-${node.status}`);
      row.firstChild.setAttribute("class", `mark st-${node.status} mark-18`);
    }
    const last = row.lastChild;
    last.textContent = node.attempt > 1 ? `${text} ×${node.attempt}` : text;
    last.classList.toggle("tone", toned);
    row.setAttribute("aria-label", spoken(node));
  }

  touch(nodes) {
    if (!this.visible) return;
    for (const node of nodes) if (this.rows.has(node)) this.#fill(this.rows.get(node), node);
    this.lanesStale = true;
  }

  tick() {
    if (!this.visible) return;
    for (const [node, row] of this.rows) this.#fill(row, node);
    if (this.lanesStale) this.#drawLanes();
  }

  #drawLanes() {
    this.lanesStale = false;
    this.picture?.remove();
    if (this.matched || !this.railed) return;
    const height = this.shown.length * ROW;
    this.picture = svg("svg", { class: "rails", width: this.width + 14, height, "aria-hidden": "true" });
    const paths = new Map();
    for (const edge of this.model.edges) {
      const kind = this.model.criticalEdges.has(edge) ? (edge.state === "todo" ? "crit-todo" : "crit") : edge.state;
      const [a, b] = [edge.source, edge.target].map((node) => this.place.get(node) * ROW + ROW / 2);
      const [ax, bx] = [edge.source, edge.target].map((node) => this.#x(this.lanes.of.get(node)));
      const lx = this.#x(this.lanes.ofEdge.get(edge));
      const d = `M${ax} ${a}${bend(ax, lx, a, 1)}V${b - (lx === bx ? 0 : 8)}${lx === bx ? "" : `Q${lx} ${b} ${lx + Math.sign(bx - lx) * 8} ${b}H${bx}`}`;
      paths.set(kind, (paths.get(kind) || "") + d);
    }
    for (const node of this.model.undoing) {
      const [from, to] = [node.undoes, node].map((one) => this.place.get(one) * ROW + ROW / 2);
      const x = this.#x(this.lanes.of.get(node.undoes));
      paths.set("undo", `${paths.get("undo") || ""}M${x} ${from}V${to}h${LANE}`);
    }
    for (const kind of ["undo", "skip", "todo", "done", "crit-todo", "crit"]) {
      if (paths.has(kind)) this.picture.append(svg("path", { class: `e e-${kind}`, d: paths.get(kind) }));
    }
    this.list.prepend(this.picture);
  }

  #x(lane) {
    return 18 + LANE * lane;
  }

  reveal(node) {
    const at = this.place.get(node);
    if (at === undefined) return;
    const top = this.list.getBoundingClientRect().top + at * ROW;
    if (top < 120 || top > innerHeight - 160) this.scroller.scrollBy({ top: top - innerHeight / 3 });
  }
}

const undoes = (node) => WORDS.undoes(node.check, short(node.undoes.label || node.undoes.title));

// Both ends of a name stay: siblings differ at theirs.
function short(name) {
  return name.length <= MOST_LETTERS ? name : `${name.slice(0, 8)}…${name.slice(9 - MOST_LETTERS)}`;
}

function bend(from, to, y) {
  return from === to ? "" : `H${to - Math.sign(to - from) * 8}Q${to} ${y} ${to} ${y + 8}`;
}

// Rows keep the order of the steps; an edge runs down one lane from its source's row to its target's. A node stands on
// the lane of the edge that leads to it, so that chains are straight.
function lanesOf(model) {
  const busyUntil = [];
  const of = new Map();
  const ofEdge = new Map();
  const free = (from, until, wanted) => {
    for (const lane of wanted) if (lane !== undefined && (busyUntil[lane] ?? -1) <= from) return lane;
    let lane = 0;
    while ((busyUntil[lane] ?? -1) > from) lane += 1;
    return lane;
  };
  model.nodes.forEach((node, row) => {
    const incoming = node.ins.map((edge) => ofEdge.get(edge));
    const own = incoming.find((lane) => busyUntil[lane] === row) ?? free(row, row, [0]);
    of.set(node, own);
    busyUntil[own] = Math.max(busyUntil[own] ?? -1, row);
    let first = true;
    for (const edge of [...node.outs].sort((a, b) => a.target.index - b.target.index)) {
      const until = edge.target.index;
      const lane = first && busyUntil[own] <= row ? own : free(row, until, []);
      first = false;
      ofEdge.set(edge, lane);
      busyUntil[lane] = until;
    }
  });
  const count = busyUntil.length || 1;
  return { of, ofEdge, count, fits: count <= MOST_LANES };
}
