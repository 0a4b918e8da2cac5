// The overview: every box as a dot of its state's colour on one small canvas, and the frame of what is seen.

import { stateOfGroup } from "./graph-model.js";

const HOLLOW = new Set(["waiting", "skipped", "mark_successed"]);

export class Minimap {
  constructor(host, view, label) {
    Object.assign(this, { view, host });
    this.canvas = Object.assign(document.createElement("canvas"), { tabIndex: -1 });
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", label);
    // Wears a state's class, so that the style sheet says its colour in this theme.
    this.probe = document.createElement("i");
    host.append(this.canvas, this.probe);
    this.picture = document.createElement("canvas");
    this.colours = new Map();
    const go = (event) => {
      const box = this.canvas.getBoundingClientRect();
      const x = (event.clientX - box.left) / this.sx;
      const y = (event.clientY - box.top) / this.sy;
      view.stop();
      view.set(view.width / 2 - x * view.k, view.height / 2 - y * view.k);
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      event.stopPropagation();
      this.canvas.setPointerCapture(event.pointerId);
      go(event);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (this.canvas.hasPointerCapture(event.pointerId)) go(event);
    });
    host.addEventListener("wheel", (event) => event.stopPropagation());
  }

  use(source) {
    this.source = source;
    // A drawing of a hundred screens' height would be a thread: the two directions have scales of their own.
    const { width, height } = source;
    const k = Math.min(150 / width, 130 / height);
    this.width = Math.round(Math.min(150, Math.max(72, width * k)));
    this.height = Math.round(Math.min(190, Math.max(64, height * k)));
    this.sx = this.width / width;
    this.sy = this.height / height;
    const ratio = devicePixelRatio || 1;
    for (const canvas of [this.canvas, this.picture]) {
      canvas.width = this.width * ratio;
      canvas.height = this.height * ratio;
    }
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${this.height}px`;
    this.stale = true;
  }

  // Asked once a theme: to ask for a computed style in the middle of a frame costs that frame.
  #colour(state) {
    if (!this.colours.has(state)) {
      this.probe.className = `probe st-${state}`;
      this.colours.set(state, getComputedStyle(this.probe).color);
    }
    return this.colours.get(state);
  }

  /** The theme changed. */
  recolour() {
    this.colours = new Map();
    this.ink = null;
    this.stale = true;
  }

  get shown() {
    return !this.host.hidden;
  }

  #paint() {
    const ratio = devicePixelRatio || 1;
    const pen = this.picture.getContext("2d");
    const colour = (state) => this.#colour(state);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    const { nodes, box } = this.source;
    const sizeOf = ([w, h]) => [Math.max(1.2, w * this.sx), Math.max(1, h * this.sy)];
    const byState = new Map();
    for (const node of nodes) {
      const state = node.members ? stateOfGroup(node) : node.status;
      if (!byState.has(state)) byState.set(state, []);
      byState.get(state).push(node);
    }
    for (const [state, some] of byState) {
      pen.fillStyle = pen.strokeStyle = colour(state);
      pen.globalAlpha = state === "succeeded" || HOLLOW.has(state) ? 0.55 : 0.95;
      for (const node of some) {
        const [w, h] = sizeOf(node.box || box);
        if (HOLLOW.has(state) && h > 3) pen.strokeRect(node.x * this.sx + 0.5, node.y * this.sy + 0.5, w - 1, h - 1);
        else pen.fillRect(node.x * this.sx, node.y * this.sy, w, h);
      }
    }
    pen.globalAlpha = 1;
    this.ink ||= getComputedStyle(this.host).color;
    this.stale = false;
  }

  draw() {
    if (!this.shown || !this.source) return;
    const now = performance.now();
    // The picture changes with every patch; four times a second is often enough for an overview.
    if (this.stale && now - (this.painted || 0) > 250) {
      this.#paint();
      this.painted = now;
    }
    const ratio = devicePixelRatio || 1;
    const pen = this.canvas.getContext("2d");
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    pen.drawImage(this.picture, 0, 0);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const seen = this.view.seen();
    const x = Math.max(0.5, seen.x * this.sx);
    const y = Math.max(0.5, seen.y * this.sy);
    const w = Math.min(this.width - 0.5, (seen.x + seen.width) * this.sx) - x;
    const h = Math.min(this.height - 0.5, (seen.y + seen.height) * this.sy) - y;
    pen.strokeStyle = this.ink || "#111";
    pen.lineWidth = 1.2;
    pen.strokeRect(x, y, Math.max(3, w), Math.max(3, h));
  }
}
