// The drawing itself, in SVG. Only what is in sight has elements: boxes with words when they can be read, else one path
// for all boxes of a state. Edges of one kind are one path. Nothing is drawn but by `draw()`, once a frame.

import { drawBox, fillBox, fillGroup } from "./graph-boxes.js";
import { stateOfGroup } from "./graph-model.js";
import { svg } from "./graph-svg.js";
import { drawUndo, fillUndo } from "./graph-undo.js";

export const READABLE = 0.42;
const CALM_ABOVE = 24;
const MANY_EDGES = 400;
const KINDS = ["undo", "skip", "todo", "done", "crit-todo", "crit"];

export class Scene {
  /** `source()` gives {nodes, edges, width, height, box, critical, criticalEdges} of what is shown now. */
  constructor(canvas, view) {
    Object.assign(this, { canvas, view, shown: new Map(), matched: null, selected: null, focused: null });
    this.root = svg("svg", { class: "drawing", role: "group" });
    this.world = svg("g");
    this.edgeLayer = svg("g", { class: "edges" });
    this.farLayer = svg("g", { class: "far" });
    this.nodeLayer = svg("g", { class: "nodes" });
    this.world.append(this.edgeLayer, this.farLayer, this.nodeLayer);
    this.root.append(this.world);
    canvas.prepend(this.root);
    this.paths = new Map();
    for (const kind of [...KINDS, "sel-todo", "sel"]) {
      const [line, heads] = [svg("path", { class: `e e-${kind}` }), svg("path", { class: `eh e-${kind}` })];
      this.edgeLayer.append(line, heads);
      this.paths.set(kind, [line, heads]);
    }
    this.far = new Map();
    this.stale = { window: true, edges: true, far: true };
  }

  /** More hangs on the steps of this drawing, which stand where they stood. */
  grow(source) {
    this.source = source;
    this.lines = source.edges.map((edge) => (edge.state === "undo" ? [lineOf(edge.points), ""] : roundedLine(edge.points)));
    this.bounds = source.edges.map((edge) => boundsOf(edge.points));
    this.stale = { window: true, edges: true, far: true };
  }

  /** Show another drawing (all steps, or groups): everything is made anew. */
  use(source) {
    this.grow(source);
    for (const element of this.shown.values()) element.remove();
    this.shown.clear();
    this.window = null;
    this.stale = { window: true, edges: true, far: true };
  }

  /** Nodes changed, and perhaps edges: repaint those in sight, and what is drawn together once a frame. */
  touch(nodes, edgesMoved = true) {
    const some = [...nodes];
    for (const node of some) {
      const element = this.shown.get(node);
      if (element) this.#fill(element, node);
    }
    if (some.length) this.stale.far = true;
    if (edgesMoved) this.stale.edges = true;
  }

  tick() {
    for (const [node, element] of this.shown) if (!node.group) (node.undoes ? fillUndo : fillBox)(element, node, true);
  }

  #fill(element, node) {
    const { source } = this;
    (node.members ? fillGroup : node.undoes ? fillUndo : fillBox)(element, node);
    const list = element.classList;
    list.toggle("crit", source.critical.has(node));
    list.toggle("sel", this.selected === node);
    list.toggle("dim", this.#dim(node));
  }

  #dim(node) {
    if (!this.matched) return false;
    return node.members ? !node.members.some((one) => this.matched.has(one)) : !this.matched.has(node);
  }

  /** Selection, filter or critical path changed. */
  restyle() {
    for (const [node, element] of this.shown) this.#fill(element, node);
    this.canvas.classList.toggle("filtered", this.matched !== null);
    this.moved = this.stale.edges = this.stale.far = true;
  }

  draw() {
    const { view, source } = this;
    if (!source || !view.width) return;
    // Set again, even to what it is, it would have every word of the drawing laid out anew.
    const place = `translate(${view.x.toFixed(1)} ${view.y.toFixed(1)}) scale(${view.k.toFixed(4)})`;
    if (place !== this.place) this.world.setAttribute("transform", place);
    this.place = place;
    const readable = view.k >= READABLE;
    if (readable !== this.readable) {
      this.readable = readable;
      this.canvas.classList.toggle("small", !readable);
      this.moved = true;
      this.stale = { window: true, edges: true, far: true };
    }
    if (this.stale.window || !covers(this.window, view.seen())) this.#rewindow();
    this.stale.window = false;
    // Lines of a large graph are long to draw; several changes of a quarter of a second are drawn together.
    const now = performance.now();
    if (this.stale.edges && (source.edges.length < MANY_EDGES || this.moved || now - (this.edgesAt || 0) > 250)) {
      this.#drawEdges();
      this.stale.edges = false;
      this.edgesAt = now;
    }
    if (this.stale.far) this.#drawFar();
    this.stale.far = this.moved = false;
  }

  #rewindow() {
    const seen = view2x(this.view.seen());
    this.window = seen;
    this.moved = true;
    const { nodes, box } = this.source;
    const wanted = new Set();
    const inSight = (node) => touches(seen, node.x, node.y, ...(node.box || box));
    if (this.readable) for (const node of nodes) if (inSight(node)) wanted.add(node);
    if (this.focused) wanted.add(this.focused);
    for (const [node, element] of this.shown) {
      if (wanted.has(node)) continue;
      element.remove();
      this.shown.delete(node);
    }
    const fresh = document.createDocumentFragment();
    for (const node of wanted) {
      if (this.shown.has(node)) continue;
      const element = node.undoes ? drawUndo(node) : drawBox(node, box);
      this.shown.set(node, element);
      this.#fill(element, node);
      fresh.append(element);
    }
    this.nodeLayer.append(fresh);
    let moving = 0;
    for (const node of this.shown.keys()) if (node.status === "running") moving += 1;
    this.canvas.classList.toggle("calm", moving > CALM_ABOVE);
    this.stale.edges = this.stale.far = true;
  }

  #drawEdges() {
    const { edges, criticalEdges } = this.source;
    const parts = new Map([...this.paths.keys()].map((kind) => [kind, [[], []]]));
    edges.forEach((edge, index) => {
      const bounds = this.bounds[index];
      if (!touches(this.window, bounds[0], bounds[1], bounds[2] - bounds[0], bounds[3] - bounds[1])) return;
      const state = edge.count ? groupEdge(edge) : edge.state;
      const kind = criticalEdges.has(edge) ? (state === "todo" ? "crit-todo" : "crit") : state;
      const [lines, heads] = parts.get(kind);
      lines.push(this.lines[index][0]);
      if (this.readable) heads.push(this.lines[index][1]);
      const near = this.selected && (edge.source === this.selected || edge.target === this.selected);
      if (near && !criticalEdges.has(edge)) {
        const [near, tips] = parts.get(state === "done" ? "sel" : "sel-todo");
        near.push(this.lines[index][0]);
        if (this.readable) tips.push(this.lines[index][1]);
      }
    });
    for (const [kind, [line, heads]] of this.paths) {
      put(line, parts.get(kind)[0].join(""));
      put(heads, parts.get(kind)[1].join(""));
    }
  }

  #drawFar() {
    const found = new Map();
    if (!this.readable) {
      const { nodes, box } = this.source;
      for (const node of nodes) {
        const [w, h] = node.box || box;
        if (!touches(this.window, node.x, node.y, w, h)) continue;
        const status = node.members ? stateOfGroup(node) : node.status;
        const key = `st-${status}${this.#dim(node) ? " dim" : ""}${this.selected === node ? " sel" : ""}`;
        if (!found.has(key)) found.set(key, []);
        found.get(key).push(`M${node.x} ${node.y}h${w}v${h}h-${w}z`);
      }
    }
    for (const [key, path] of this.far) if (!found.has(key)) put(path, "");
    for (const [key, boxes] of found) {
      let path = this.far.get(key);
      if (!path) {
        path = svg("path", { class: `fb ${key}` });
        this.far.set(key, path);
        this.farLayer.append(path);
      }
      put(path, boxes.join(""));
    }
  }

  /** The node at a place of the drawing, when boxes have no elements of their own. */
  at({ x, y }) {
    const { nodes, box } = this.source;
    const slack = 3 / this.view.k;
    const holds = (n, [w, h]) => x >= n.x - slack && x <= n.x + w + slack && y >= n.y - slack && y <= n.y + h + slack;
    return nodes.find((n) => holds(n, n.box || box)) || null;
  }

  boxOf(node) {
    const [width, height] = node.box || this.source.box;
    return { x: node.x, y: node.y, width, height };
  }

  /** Give a node the keyboard, making its element if it is out of sight. */
  focus(node) {
    this.focused = node;
    this.#rewindow();
    for (const element of this.shown.values()) element.setAttribute("tabindex", "-1");
    const element = this.shown.get(node);
    element.setAttribute("tabindex", "0");
    element.focus({ preventScroll: true });
  }
}

function put(element, d) {
  if (element.drawn === d) return;
  element.drawn = d;
  element.setAttribute("d", d);
}

function groupEdge(edge) {
  return edge.source.members.some((node) => node.status !== "waiting" && node.status !== "queued") ? "done" : "todo";
}

const touches = (a, x, y, w, h) => x + w >= a.x && x <= a.x + a.width && y + h >= a.y && y <= a.y + a.height;
const covers = (a, b) => a !== null && b.x >= a.x && b.y >= a.y && b.x + b.width <= a.x + a.width && b.y + b.height <= a.y + a.height;
// Half a screen more on each side, so that a short move makes nothing new.
const view2x = (a) => ({ x: a.x - a.width / 2, y: a.y - a.height / 2, width: a.width * 2, height: a.height * 2 });

function boundsOf(points) {
  const found = [Infinity, Infinity, -Infinity, -Infinity];
  for (let i = 0; i < points.length; i += 2) {
    found[0] = Math.min(found[0], points[i]);
    found[1] = Math.min(found[1], points[i + 1]);
    found[2] = Math.max(found[2], points[i]);
    found[3] = Math.max(found[3], points[i + 1]);
  }
  return found;
}

const lineOf = ([x, y, tx, ty]) => `M${x} ${y}L${tx} ${ty}`;

/** [line, head]: an orthogonal line with corners of 7 px, and the arrow at its end. */
function roundedLine(points) {
  const n = points.length / 2;
  let d = `M${points[0]} ${points[1]}`;
  for (let i = 1; i < n - 1; i += 1) {
    const [ax, ay, bx, by, cx, cy] = points.slice(2 * i - 2, 2 * i + 4);
    const before = Math.hypot(bx - ax, by - ay);
    const after = Math.hypot(cx - bx, cy - by);
    const r = Math.min(7, before / 2, after / 2);
    const fx = bx - ((bx - ax) / before) * r;
    const fy = by - ((by - ay) / before) * r;
    d += `L${fx} ${fy}Q${bx} ${by} ${bx + ((cx - bx) / after) * r} ${by + ((cy - by) / after) * r}`;
  }
  const [px, py, x, y] = points.slice(-4);
  const down = Math.abs(y - py) >= Math.abs(x - px);
  const head = down ? `M${x - 4} ${y - 6}l4 5 4 -5` : `M${x - 6} ${y - 4}l5 4 -5 4`;
  return [`${d}L${x - (down ? 0 : 1.5)} ${y - (down ? 1.5 : 0)}`, head];
}
