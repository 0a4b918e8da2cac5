// The run's graph: `<section id="graph" data-run data-after data-step-url data-tenant>` becomes a live drawing.
// Without this module the list in the section stays, and with it every step's address.

import { Model } from "./graph-model.js";
import { Drawer } from "./graph-drawer.js";
import { Head } from "./graph-head.js";
import { Lanes } from "./graph-lanes.js";
import { Minimap } from "./graph-map.js";
import { Scene } from "./graph-scene.js";
import { html, icon } from "./graph-svg.js";
import { steer } from "./graph-steer.js";
import { Tools } from "./graph-tools.js";
import { View } from "./graph-view.js";
import { WORDS, asOf } from "./graph-words.js";
import { RunStream } from "./stream.js";
import { now } from "./times.js";

const URGENT = ["unknown", "failed", "hold", "running", "killed", "queued"];
const PHONE = matchMedia("(max-width: 720px)");

class Graph {
  constructor(root, graph) {
    this.root = root;
    // A picture of the past stands still: its clock is that of its event, and nothing is listened to.
    if (root.dataset.until) asOf(graph.at);
    this.model = new Model(graph);
    this.pending = { run: null, steps: new Map() };
    this.head = new Head();
    this.criticalOn = true;
    this.mode = this.model.groups ? "groups" : "steps";
    this.#build();
    this.#use(this.mode, false);
    this.#listen();
    this.drawer = root.dataset.until ? this.#past() : new Drawer(root.dataset.stepUrl, {
      closed: (node) => this.#unselect(node),
      moved: (name) => this.#addressed(name),
    });
    this.#first();
    if (root.dataset.until) return;
    this.stream = new RunStream(root.dataset.run, {
      after: this.model.seq,
      onSnapshot: (message) => this.#take(message),
      onPatch: (message) => this.#take(message),
      onState: (state, problem) => this.#state(state, problem),
    });
    setInterval(() => this.#tick(), 1000);
  }

  // What stands for the drawer in the past: a step opens its events.
  #past() {
    this.root.dataset.seq = this.model.seq;
    return { node: null, named: null, close: () => {}, open: (node) => location.assign(eventsOf(this.root, node)) };
  }

  #build() {
    const tools = html("div", { class: "tools" });
    this.canvas = html("div", { class: "canvas", tabindex: "0", role: "application", "aria-label": WORDS.drawing(this.model.nodes.length, this.model.undoing.length) });
    this.lanesHost = html("div", { class: "phone-list" });
    const mini = html("div", { class: "mini" });
    this.percent = html("span", { text: "100 %" });
    const button = (label, d, act) => html("button", { class: "btn btn-icon", type: "button", title: label, "aria-label": label, on: { click: act } }, icon(d));
    const zoom = html("div", { class: "zoom" }, button(WORDS.zoomOut, "M5 12h14", () => this.view.zoom(0.8)), this.percent,
      button(WORDS.zoomIn, "M5 12h14M12 5v14", () => this.view.zoom(1.25)),
      button(WORDS.fit, "M8 3H5a2 2 0 0 0-2 2v3M21 8V5a2 2 0 0 0-2-2h-3M3 16v3a2 2 0 0 0 2 2h3M16 21h3a2 2 0 0 0 2-2v-3", () => this.view.fit()));
    this.note = html("p", { class: "gnote note", hidden: "", role: "status" });
    this.canvas.append(mini, zoom);
    for (const old of this.root.querySelectorAll("[data-fallback]")) old.remove();
    this.root.append(tools, this.note, this.canvas, this.lanesHost);
    this.root.classList.add("drawn");
    this.view = new View(this.canvas, { size: () => this.source, moved: () => this.#frame() });
    this.scene = new Scene(this.canvas, this.view);
    this.minimap = new Minimap(mini, this.view, WORDS.overview);
    const address = this.root.dataset.until ? (node) => eventsOf(this.root, node) : undefined;
    this.lanes = new Lanes(this.lanesHost, { open: (node) => this.select(node), address });
    this.lanes.use(this.model);
    this.tools = new Tools(tools, {
      changed: () => this.#filter(),
      next: (back) => this.#next(back),
      critical: (on) => {
        this.criticalOn = on;
        this.#restyle();
      },
      mode: this.model.groups ? (mode) => this.#use(mode, true) : null,
      list: (way) => {
        this.root.classList.toggle("as-map", way === "map");
        this.tools.choose(way);
        this.lanes.look();
      },
    });
    this.tools.count(this.model.counts);
  }

  get source() {
    const { model } = this;
    if (this.mode === "groups") {
      const { nodes, edges, width, height, box } = model.groups;
      return { nodes, edges, width, height, box, direction: model.layout.groups.direction, critical: new Set(), criticalEdges: new Set() };
    }
    const { width, height, box, direction } = model.size;
    const edges = model.undoing.length ? [...model.edges, ...model.undoEdges] : model.edges;
    return { nodes: model.all, edges, width, height, box, direction, critical: model.critical, criticalEdges: model.criticalEdges };
  }

  #use(mode, fit) {
    this.mode = mode;
    this.tools?.choose(mode);
    this.#findCritical();
    this.scene.selected = this.scene.focused = null;
    const { source } = this;
    this.scene.use(source);
    this.minimap.use(source);
    this.root.classList.toggle("grouped", mode === "groups");
    this.#overview();
    if (fit) this.#sight(null);
    else this.#frame();
  }

  // The overview belongs to drawings of more than 200 boxes, and to any that is larger than its window.
  #overview() {
    const { source } = this;
    const large = source.nodes.length > 200 || source.width * this.view.k > this.view.width * 1.05 || source.height * this.view.k > this.view.height * 1.05;
    this.minimap.host.hidden = !large;
  }

  #findCritical() {
    if (this.criticalOn) this.model.findCritical();
    else {
      this.model.critical.clear();
      this.model.criticalEdges.clear();
    }
    this.criticalStale = false;
  }

  #restyle() {
    const before = [...this.model.critical];
    this.#findCritical();
    const { critical } = this.model;
    const same = before.length === critical.size && before.every((node) => critical.has(node));
    if (same) return;
    this.scene.restyle();
    this.lanes.touch(critical);
    this.#frame();
  }

  #frame() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = null;
      this.#overview();
      this.scene.draw();
      this.minimap.draw();
      const percent = `${Math.round(this.view.k * 100)} %`;
      if (this.percent.textContent !== percent) this.percent.textContent = percent;
    });
  }

  // -- the first sight: all of it when it can be read so, else what needs somebody, else the beginning

  #first() {
    const named = this.model.byId.get(this.drawer.named);
    if (named) {
      this.drawer.node = named;
      this.#mark(named);
    }
    if (!this.view.width) {
      // Not laid out yet, or a phone's list is shown instead.
      new ResizeObserver((_, observer) => {
        if (!this.view.width) return;
        observer.disconnect();
        this.#firstSight(named);
      }).observe(this.canvas);
      return;
    }
    this.#firstSight(named);
  }

  #firstSight(named) {
    if (this.mode === "groups" && named) this.#use("steps", false);
    this.#sight(named);
  }

  #sight(named) {
    const k = this.view.fitting();
    if (!named && (k >= 0.62 || this.mode === "groups")) {
      this.view.fit(false);
      return;
    }
    const urgent = URGENT.map((status) => this.model.all.find((node) => node.status === status)).find(Boolean);
    const node = named || urgent || this.model.nodes[0];
    if (!node) return;
    if (k >= 0.62) this.view.fit(false);
    else this.view.show(this.scene.boxOf(node), { low: 0.8, high: 0.8, smooth: false });
  }

  // -- what the stream tells: collected, and drawn once a frame

  #take(message) {
    const { pending } = this;
    pending.run = message.run;
    for (const step of message.steps) pending.steps.set(step.node, step);
    if (this.drawing) return;
    this.drawing = true;
    if (document.hidden) setTimeout(() => this.#draw(), 250);
    else requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    this.drawing = false;
    const { pending, model } = this;
    const begun = performance.now();
    this.pending = { run: null, steps: new Map() };
    const changed = model.apply(pending.run, pending.steps.values());
    if (model.grown) this.#grow();
    const touched = new Set(changed);
    // What stands after an ended step counts its inputs.
    for (const node of changed) for (const next of node.after) if (next.before.length > 1) touched.add(next);
    if (touched.size) {
      if (this.mode === "groups") this.scene.touch(new Set([...changed].map((node) => model.groups.nodes[(node.undoes || node).group])));
      else this.scene.touch(touched, model.edgesMoved);
      this.lanes.touch(touched);
      this.minimap.stale = true;
      this.tools.count(model.counts);
      if (this.tools.statuses.size) this.#filter(false);
      if (this.drawer.node && changed.has(this.drawer.node)) this.drawer.refresh();
      this.criticalStale = true;
    }
    this.head.count(model.run.seq);
    // Drawn now, not in a frame to come: this is one.
    if (this.waiting) cancelAnimationFrame(this.waiting);
    this.waiting = null;
    this.scene.draw();
    this.minimap.draw();
    this.stream.confirm(model.run.seq);
    this.root.dataset.seq = model.run.seq;
    performance.measure("qd:draw", { start: begun });
    document.dispatchEvent(new CustomEvent("qd:drawn", { detail: { seq: model.run.seq } }));
  }

  // Steps came that undo effects: they hang on theirs, and what lies behind makes room. Nothing else is chosen or moved.
  #grow() {
    this.canvas.setAttribute("aria-label", WORDS.drawing(this.model.nodes.length, this.model.undoing.length));
    this.lanes.use(this.model);
    if (this.mode === "groups") return;
    const { source } = this;
    const held = document.activeElement?.node;
    if (this.model.placed) this.scene.use(source);
    else this.scene.grow(source);
    // Boxes made anew have not the keyboard that one of them had.
    if (held && this.model.placed) this.scene.focus(held);
    this.minimap.use(source);
  }

  #state(state, problem) {
    document.dispatchEvent(new CustomEvent("qd:live", { detail: { state: state === "gone" ? "lost" : state, at: state === "live" ? now() : undefined } }));
    this.root.dataset.state = state;
    if (state === "gone") {
      this.note.replaceChildren(`${WORDS.gone} ${problem?.detail || ""} `, html("a", { class: "link", href: location.href, text: WORDS.again }));
      this.note.hidden = false;
    } else if (state === "live") this.note.hidden = true;
  }

  #tick() {
    if (document.hidden || this.root.dataset.state === "paused") return;
    if (this.criticalStale && this.criticalOn && this.mode === "steps") this.#restyle();
    this.scene.tick();
    this.lanes.tick();
    if (this.minimap.stale || this.scene.stale.edges) this.#frame();
    this.head.tick(this.model.run.seq);
  }

  // -- filter and search

  #filter(anew = true) {
    const { model, tools } = this;
    const matched = model.matches(tools.query, tools.statuses);
    this.found = matched === null ? null : [...matched].sort((a, b) => a.index - b.index);
    if (anew) this.at = -1;
    tools.matched(tools.query ? this.found : null, Math.max(0, this.at));
    this.scene.matched = matched;
    this.scene.restyle();
    this.lanes.matched = matched;
    this.lanes.relist();
    this.#frame();
    if (anew && tools.query && this.found?.length) this.#next(false, false);
  }

  #next(back, focus = true) {
    const { found } = this;
    if (!found?.length) return;
    this.at = (this.at + (back ? -1 : 1) + found.length) % found.length;
    this.tools.matched(found, this.at);
    const node = found[this.at];
    if (this.mode === "groups") this.#use("steps", false);
    this.view.show(this.scene.boxOf(node), { low: 0.8, high: 1 });
    this.scene.selected = node;
    this.scene.restyle();
    this.lanes.reveal(node);
    if (focus && !PHONE.matches && this.tools.query === "") this.scene.focus(node);
  }

  // -- selection

  select(node) {
    if (node.members) {
      this.#openGroup(node);
      return;
    }
    this.#mark(node);
    this.drawer.open(node);
  }

  #mark(node) {
    this.scene.selected = this.lanes.selected = node;
    this.scene.restyle();
    this.lanes.tick();
    this.#frame();
  }

  #unselect(node) {
    this.#mark(null);
    if (node && this.scene.shown.has(node)) this.scene.focus(node);
  }

  #addressed(name) {
    const node = name && this.model.byId.get(name);
    if (node) {
      this.#mark(node);
      this.drawer.open(node, { push: false });
    } else if (this.drawer.node) this.drawer.close({ push: false });
  }

  #openGroup(group) {
    this.#use("steps", false);
    const [first] = group.members;
    const { box } = this.source;
    const many = group.members.reduce((a, n) => ({ x: Math.min(a.x, n.x), y: Math.min(a.y, n.y), r: Math.max(a.r, n.x + box[0]), b: Math.max(a.b, n.y + box[1]) }),
      { x: first.x, y: first.y, r: 0, b: 0 });
    const all = { x: many.x, y: many.y, width: many.r - many.x, height: many.b - many.y };
    const fits = all.width * 0.5 < this.view.width && all.height * 0.5 < this.view.height;
    const urgent = group.members.find((node) => URGENT.includes(node.status)) || first;
    this.view.show(fits ? all : this.scene.boxOf(urgent), { low: fits ? 0.5 : 0.8, high: fits ? 1 : 0.8 });
  }

  // -- mouse and keys

  #listen() {
    document.addEventListener("qd:live-click", () => {
      if (this.stream.state === "paused") this.stream.resume();
      else this.stream.pause();
    });
    this.canvas.addEventListener("click", (event) => {
      if (event.target.closest(".mini, .zoom")) return;
      const node = event.target.closest?.(".nd")?.node || (this.scene.readable ? null : this.scene.at(this.view.inside(event)));
      if (node) this.select(node);
    });
    this.canvas.addEventListener("focusin", (event) => {
      const node = event.target.closest?.(".nd")?.node;
      if (node) this.scene.focused = node;
    });
    this.canvas.addEventListener("keydown", (event) => steer(this, event));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.minimap.recolour();
      this.#frame();
    });
  }
}

const eventsOf = (root, node) => `${root.dataset.eventsUrl}?node=${encodeURIComponent(node.id)}`;

async function start(root) {
  const until = root.dataset.until ? `&until=${root.dataset.until}` : "";
  const headers = root.dataset.tenant ? { "X-Quarterdeck-Tenant": root.dataset.tenant } : {};
  try {
    const answer = await fetch(`/api/v1/runs/${root.dataset.run}/graph/?steps=brief${until}`, { headers });
    if (!answer.ok) throw new Error(String(answer.status));
    const graph = new Graph(root, await answer.json());
    root.graph = graph;
    root.dataset.ready = "true";
  } catch (problem) {
    root.prepend(html("p", { class: "gnote note", role: "alert", text: `${WORDS.failed} ` }));
    throw problem;
  }
}

const root = document.getElementById("graph");
if (root) start(root);
