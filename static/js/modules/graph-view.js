// Pan and zoom: mouse, wheel, touch and keys move one transform; whoever draws is told once a frame.

export const MIN_ZOOM = 0.02;
export const MAX_ZOOM = 2;
const CALM = matchMedia("(prefers-reduced-motion: reduce)");

export class View {
  /** `size()` gives the drawing's width and height; `moved()` is called at most once a frame. */
  constructor(canvas, { size, moved }) {
    Object.assign(this, { canvas, size, moved, x: 0, y: 0, k: 1 });
    this.pointers = new Map();
    this.dragged = false;
    canvas.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.#down(event));
    canvas.addEventListener("pointermove", (event) => this.#move(event));
    for (const name of ["pointerup", "pointercancel", "lostpointercapture"]) canvas.addEventListener(name, (event) => this.#up(event));
    // A drag that ends over a node is no click on it.
    canvas.addEventListener("click", (event) => {
      if (this.dragged) event.stopPropagation();
      this.dragged = false;
    }, { capture: true });
    new ResizeObserver(() => this.#resized()).observe(canvas);
    this.#resized();
  }

  #resized() {
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    this.#tell();
  }

  #tell() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = null;
      this.moved();
    });
  }

  /** The part of the drawing that is seen, in its own coordinates. */
  seen() {
    return { x: -this.x / this.k, y: -this.y / this.k, width: this.width / this.k, height: this.height / this.k };
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  /** Where a place of the screen lies in the drawing. */
  inside(event) {
    const { x, y } = this.point(event);
    return { x: (x - this.x) / this.k, y: (y - this.y) / this.k };
  }

  set(x, y, k = this.k) {
    this.k = Math.min(MAX_ZOOM, Math.max(MIN_ZOOM, k));
    const { width, height } = this.size();
    // Some of the drawing always stays in sight.
    const keep = 60;
    this.x = Math.min(this.width - keep, Math.max(keep - width * this.k, x));
    this.y = Math.min(this.height - keep, Math.max(keep - height * this.k, y));
    this.#tell();
  }

  pan(dx, dy) {
    this.stop();
    this.set(this.x + dx, this.y + dy);
  }

  zoom(factor, at = { x: this.width / 2, y: this.height / 2 }) {
    this.stop();
    const k = Math.min(MAX_ZOOM, Math.max(MIN_ZOOM, this.k * factor));
    this.set(at.x - ((at.x - this.x) * k) / this.k, at.y - ((at.y - this.y) * k) / this.k, k);
  }

  fitting(margin = 24) {
    const { width, height } = this.size();
    return Math.min(1, (this.width - margin) / width, (this.height - margin) / height);
  }

  fit(smooth = true) {
    const { width, height } = this.size();
    const k = Math.max(MIN_ZOOM, this.fitting());
    const to = [(this.width - width * k) / 2, Math.max(4, (this.height - height * k) / 2), k];
    if (smooth) this.glide(...to);
    else this.jump(...to);
  }

  /** Bring a rectangle of the drawing into the middle, as large as it fits between `low` and `high`. */
  show(box, { low = 0.7, high = 1, smooth = true } = {}) {
    const k = Math.min(high, Math.max(low, Math.min((this.width - 80) / box.width, (this.height - 80) / box.height)));
    // Not past the drawing's own edges: no empty half of a screen.
    const { width, height } = this.size();
    const within = (at, own, whole) => (own * k <= whole - 32 ? at : Math.max(whole - own * k - 16, Math.min(16, at)));
    const x = within(this.width / 2 - (box.x + box.width / 2) * k, width, this.width);
    const y = within(this.height / 2 - (box.y + box.height / 2) * k, height, this.height);
    if (smooth) this.glide(x, y, k);
    else this.jump(x, y, k);
  }

  /** Move as little as possible so that a rectangle is in sight. */
  reveal(box) {
    const seen = this.seen();
    const edge = 24 / this.k;
    const over = (low, high, from, to) => (low < from + edge ? from + edge - low : high > to - edge ? to - edge - high : 0);
    const dx = over(box.x, box.x + box.width, seen.x, seen.x + seen.width);
    const dy = over(box.y, box.y + box.height, seen.y, seen.y + seen.height);
    if (dx || dy) this.glide(this.x + dx * this.k, this.y + dy * this.k, this.k);
  }

  // A glide that is under way would go on to its own end.
  jump(x, y, k) {
    this.stop();
    this.set(x, y, k);
  }

  glide(x, y, k) {
    this.stop();
    if (CALM.matches) {
      this.set(x, y, k);
      return;
    }
    const from = { x: this.x, y: this.y, k: this.k };
    const begun = performance.now();
    const step = () => {
      const t = Math.min(1, (performance.now() - begun) / 200);
      const s = 1 - (1 - t) ** 3;
      this.set(from.x + (x - from.x) * s, from.y + (y - from.y) * s, from.k + (k - from.k) * s);
      this.motion = t < 1 ? requestAnimationFrame(step) : null;
    };
    step();
  }

  stop() {
    if (this.motion) cancelAnimationFrame(this.motion);
    this.motion = null;
  }

  #wheel(event) {
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 16 : 1;
    if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(-event.deltaY * unit * 0.004), this.point(event));
    else if (event.shiftKey && !event.deltaX) this.pan(-event.deltaY * unit, 0);
    else this.pan(-event.deltaX * unit, -event.deltaY * unit);
  }

  #down(event) {
    if (event.button !== 0) return;
    this.stop();
    this.pointers.set(event.pointerId, this.point(event));
    this.dragged = this.pointers.size > 1;
    this.travelled = 0;
  }

  #move(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before) return;
    const here = this.point(event);
    this.pointers.set(event.pointerId, here);
    if (this.pointers.size === 1) {
      this.travelled += Math.abs(here.x - before.x) + Math.abs(here.y - before.y);
      if (this.travelled < 4 && !this.dragged) return;
      if (!this.dragged) this.canvas.setPointerCapture(event.pointerId);
      this.dragged = true;
      this.canvas.classList.add("dragging");
      this.set(this.x + here.x - before.x, this.y + here.y - before.y);
      return;
    }
    const [other] = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, point]) => point);
    const was = Math.hypot(before.x - other.x, before.y - other.y);
    const is = Math.hypot(here.x - other.x, here.y - other.y);
    const middle = { x: (here.x + other.x) / 2, y: (here.y + other.y) / 2 };
    this.set(this.x + (here.x - before.x) / 2, this.y + (here.y - before.y) / 2);
    if (was > 8) this.zoom(is / was, middle);
  }

  #up(event) {
    this.pointers.delete(event.pointerId);
    if (!this.pointers.size) this.canvas.classList.remove("dragging");
  }

  /** Keys that move the picture; returns whether this was one. */
  key(event) {
    const far = event.shiftKey ? 240 : 80;
    const moves = { ArrowLeft: [far, 0], ArrowRight: [-far, 0], ArrowUp: [0, far], ArrowDown: [0, -far] };
    if (event.ctrlKey || event.metaKey || event.altKey) return false;
    if (moves[event.key]) this.pan(...moves[event.key]);
    else if (event.key === "+" || event.key === "=") this.zoom(1.25);
    else if (event.key === "-") this.zoom(0.8);
    else if (event.key === "0") this.fit();
    else return false;
    event.preventDefault();
    return true;
  }
}
