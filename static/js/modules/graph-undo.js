// Steps that undo an effect, or check that: no workflow has them, so the drawing has no place of theirs. Where there are
// some, the picture opens a strip behind their step's layer, and they hang in it on a dashed line. A strip moves all that
// lies behind it by the same length, so that every line stays as straight as it was routed.

import { STATUS, WORDS, detail, spoken } from "./graph-words.js";
import { svg } from "./graph-svg.js";
import { seen } from "./unseen.js";

const WIDTH = 74;
const HEIGHT = 20;
const LINE = 10;
const GAP = 4;
const NAME = /^undo(-check)?(?:@(\d+))?:(.+)$/s;
const NOTHING = { status: "waiting", cause: null, attempt: 0, version: 0, execution_version: 0 };

/** The node of a step that undoes what `undone` of the model did; null for a name that is none, or of no node there. */
export function undoNode(model, name, { kind, tool = null, step = null } = {}) {
  const found = NAME.exec(name);
  const undone = found && model.byId.get(found[3]);
  if (!undone) return null;
  const check = found[1] !== undefined;
  const line = found[2] ? Number(found[2]) : 1;
  return {
    ...NOTHING, ...step, step: step?.id || null, id: name, title: WORDS.undoes(check, seen(undone.title)), label: undone.label,
    kind: kind || (check ? "compensation_check" : "compensation"), tool, undoes: undone, check, line, box: [WIDTH, HEIGHT],
    index: undone.index + (2 * line + check) / 1e6, level: undone.level, x: 0, y: 0,
    before: [undone], after: [], ins: [], outs: [],
  };
}

/** Hang a node on the step it undoes, in the order of the times it was asked for. */
export function hang(node) {
  const { undoes } = node;
  undoes.undo = [...(undoes.undo || []), node].sort((a, b) => a.index - b.index);
}

/**
 * Give everything its place: strips where something is undone, what hangs in them, and all else moved behind them.
 * Returns whether anything that stood there before has moved.
 */
export function place(model) {
  const down = model.layout.direction === "TB";
  const { box } = model.layout;
  const [axis, size, step] = down ? ["y", box[1], HEIGHT + GAP] : ["x", box[0], WIDTH + GAP];
  const strips = new Map();
  for (const node of model.nodes) {
    if (!node.undo) continue;
    const at = node.own[axis] + size;
    strips.set(at, Math.max(strips.get(at) || 0, LINE + linesOf(node).length * step));
  }
  const key = [...strips].sort((a, b) => a[0] - b[0]).join();
  const moved = key !== (model.strips || "");
  if (moved) stretch(model, axis, [...strips].sort((a, b) => a[0] - b[0]));
  model.strips = key;
  for (const node of model.nodes) if (node.undo) hangUp(node, box, down, step);
  model.undoEdges = model.undoing.map((node) => edgeTo(node, box, down));
  return moved;
}

// The executions of a node whose effects are undone, oldest first: each has a line of its own.
const linesOf = (node) => [...new Set(node.undo.map((one) => one.line))].sort((a, b) => a - b);

function stretch(model, axis, strips) {
  const at = strips.map(([place]) => place);
  let total = 0;
  const sums = strips.map(([, extra]) => (total += extra));
  // How far a place moves: by all strips that lie before it. A strip's own beginning, where boxes end, stays.
  const shift = (value) => {
    let [low, high] = [0, at.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (at[middle] + 0.01 < value) low = middle + 1;
      else high = middle;
    }
    return value + (low ? sums[low - 1] : 0);
  };
  const odd = axis === "y" ? 1 : 0;
  for (const node of model.nodes) node[axis] = shift(node.own[axis]);
  for (const edge of model.edges) edge.points = edge.own.map((value, i) => (i % 2 === odd ? shift(value) : value));
  model.size = { ...model.layout, [axis === "y" ? "height" : "width"]: model.layout[axis === "y" ? "height" : "width"] + total };
}

// Undoing and check of one execution stand side by side, and leave free where the step's own lines go out: its middle.
function hangUp(node, box, down, step) {
  const lines = linesOf(node);
  for (const one of node.undo) {
    const away = LINE + lines.indexOf(one.line) * step;
    one.x = down ? node.x + (one.check ? box[0] - WIDTH : 0) : node.x + box[0] + away;
    one.y = down ? node.y + box[1] + away : node.y + (one.check ? box[1] - HEIGHT : 0);
  }
}

function edgeTo(node, box, down) {
  const { undoes } = node;
  const before = undoes.undo.filter((one) => one.check === node.check && one.line < node.line).at(-1);
  const from = before || undoes;
  const [w, h] = before ? [WIDTH, HEIGHT] : box;
  const points = down ? [node.x + WIDTH / 2, from.y + h, node.x + WIDTH / 2, node.y]
    : [from.x + w, node.y + HEIGHT / 2, node.x, node.y + HEIGHT / 2];
  return { source: undoes, target: node, state: "undo", points };
}

export function drawUndo(node) {
  const [w, h] = node.box;
  const g = svg("g", { class: "nd undo", transform: `translate(${node.x} ${node.y})`, tabindex: "-1", role: "button" });
  g.node = node;
  const title = svg("title");
  const halo = svg("rect", { class: "halo", x: -3, y: -3, width: w + 6, height: h + 6, rx: h / 2 + 3 });
  const rect = svg("rect", { class: "bx", width: w, height: h, rx: h / 2 });
  const mark = svg("svg", { class: "mark", x: 5, y: 4, width: 12, height: 12, viewBox: "0 0 16 16" });
  const use = svg("use");
  mark.append(use);
  const name = svg("text", { class: "nu", x: 22, y: 14 });
  g.append(title, halo, rect, mark, name);
  g.parts = { title, use, name };
  return g;
}

/** Bring it up to date; `ticking` changes nothing, since it shows no time. */
export function fillUndo(g, node, ticking = false) {
  if (ticking) return;
  const { parts } = g;
  const kept = ["crit", "sel", "dim"].filter((name) => g.classList.contains(name)).join(" ");
  g.setAttribute("class", `nd undo st-${node.status} ${kept}`);
  parts.use.setAttribute("href", `#m-${node.status}`);
  parts.name.textContent = `${node.check ? WORDS.check : WORDS.undo}${node.attempt > 1 ? ` ×${node.attempt}` : ""}`;
  parts.title.textContent = [node.title, node.tool, `${STATUS[node.status]} · ${detail(node)[0]}`].filter(Boolean).join("\n");
  g.setAttribute("aria-label", spoken(node));
}
