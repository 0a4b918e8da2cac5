// What the drawing knows: nodes, edges, counts, the critical path. No element of the page is touched here.

import { hang, place, undoNode } from "./graph-undo.js";
import { ENDED } from "./graph-words.js";
import { seen } from "./unseen.js";

const OK = new Set(["succeeded", "mark_successed"]);
const ACTIVE = new Set(["queued", "running", "hold", "unknown"]);
export const ORDER = ["succeeded", "running", "hold", "unknown", "failed", "killed", "mark_successed", "skipped", "queued", "waiting"];
const SLACK_MS = 5;
const NOTHING = { status: "waiting", cause: null, attempt: 0, version: 0, execution_version: 0 };

export class Model {
  constructor(graph) {
    this.layout = this.size = graph.layout;
    this.run = graph.run;
    this.seq = graph.last_included_seq;
    this.nodes = graph.nodes.map((one, index) => ({
      ...NOTHING, ...one.step, step: one.step?.id || null, index, id: one.id, title: seen(one.title), kind: one.kind,
      tool: one.tool, level: one.level, x: one.x, y: one.y, own: { x: one.x, y: one.y }, group: one.group, before: [], after: [], ins: [],
      outs: [],
    }));
    nameShort(this.nodes);
    this.byId = new Map(this.nodes.map((node) => [node.id, node]));
    this.edges = graph.edges.map((one, index) => {
      const source = this.byId.get(one.source);
      const target = this.byId.get(one.target);
      const edge = { index, source, target, case: one.case, points: one.points, own: one.points, state: "todo",
        forgiving: one.optional || one.on_failure === "continue_on_error" };
      source.outs.push(edge);
      target.ins.push(edge);
      source.after.push(target);
      target.before.push(source);
      return edge;
    });
    for (const edge of this.edges) edge.state = stateOf(edge);
    for (const node of this.nodes) readTimes(node);
    this.counts = new Map();
    for (const node of this.nodes) this.#count(node.status, 1);
    // What undoes an effect hangs on its step: it is counted, found and opened, and lies on no way through the graph.
    this.undoing = [];
    this.undoEdges = [];
    for (const one of graph.undoing || []) this.#hang(one.id, one);
    place(this);
    this.groups = this.layout.groups ? groupsOf(this) : null;
    this.critical = new Set();
    this.criticalEdges = new Set();
  }

  /** Every step that is drawn. */
  get all() {
    return this.undoing.length ? [...this.nodes, ...this.undoing] : this.nodes;
  }

  #hang(name, known) {
    const node = undoNode(this, name, known);
    if (!node) return null;
    this.undoing.push(node);
    this.byId.set(name, node);
    hang(node);
    readTimes(node);
    this.#count(node.status, 1);
    return node;
  }

  #count(status, by) {
    this.counts.set(status, (this.counts.get(status) || 0) + by);
  }

  /**
   * Take run and steps over; return the nodes that changed, and say in `edgesMoved` whether edges did, in `grown` whether
   * steps came that undo effects, and in `placed` whether the drawing moved for them. An older state never replaces a
   * newer one.
   */
  apply(run, steps) {
    this.run = run;
    this.edgesMoved = this.grown = this.placed = false;
    const changed = new Set();
    for (const step of steps) {
      let node = this.byId.get(step.node);
      if (!node) {
        node = this.#hang(step.node, { kind: step.kind });
        this.grown ||= node !== null;
      }
      if (!node || older(step, node)) continue;
      if (step.status !== node.status) {
        this.#count(node.status, -1);
        this.#count(step.status, 1);
        const group = this.groups?.nodes[node.group];
        if (group) {
          group.counts.set(node.status, group.counts.get(node.status) - 1);
          group.counts.set(step.status, (group.counts.get(step.status) || 0) + 1);
        }
      }
      const since = step.since || (step.status === node.status && step.execution_version === node.execution_version ? node.since : null);
      Object.assign(node, step, { since, step: step.id, id: node.id, node: undefined });
      readTimes(node);
      changed.add(node);
    }
    if (this.grown) this.placed = place(this);
    for (const node of changed) {
      for (const edges of [node.outs, node.ins]) {
        for (const edge of edges) {
          const state = stateOf(edge);
          if (state !== edge.state) this.edgesMoved = true;
          edge.state = state;
        }
      }
    }
    return changed;
  }

  matches(query, statuses) {
    const words = query.trim().toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length && !statuses.size) return null;
    const found = new Set();
    for (const node of this.all) {
      if (statuses.size && !statuses.has(node.status)) continue;
      const text = `${node.title} ${node.id} ${node.tool || node.kind} ${node.status}`.toLowerCase();
      if (words.every((word) => text.includes(word))) found.add(node);
    }
    return found;
  }

  /**
   * The chain that decides how long the run takes: back from the step that ended last or is still under way, each time
   * to the input that ended last before it began; then on along the longest way that is still to go.
   */
  findCritical() {
    this.critical.clear();
    this.criticalEdges.clear();
    const end = (node) => node.endedAt ?? (ACTIVE.has(node.status) ? Infinity : null);
    const rest = this.#remaining();
    let last = null;
    for (const node of this.nodes) {
      if (!node.startedAt && !ACTIVE.has(node.status)) continue;
      if (node.status === "skipped" || end(node) === null) continue;
      const better = !last || end(node) > end(last) || (end(node) === end(last) && rest[node.index] > rest[last.index]);
      if (better) last = node;
    }
    if (!last) last = this.nodes.reduce((a, b) => (!a || rest[b.index] > rest[a.index] ? b : a), null);
    if (!last) return;
    this.critical.add(last);
    for (let node = last; ;) {
      const begun = node.queuedAt ?? node.startedAt ?? Infinity;
      let edge = null;
      // The input that ended last before this began; one that ended later (an OR join does not wait) only if none did.
      for (const one of node.ins) {
        const done = end(one.source);
        if (done === null || one.state === "skip" || one.source.status === "skipped") continue;
        const best = edge && end(edge.source);
        const late = done > begun + SLACK_MS;
        if (!edge || (late ? false : best > begun + SLACK_MS || done > best)) edge = one;
      }
      if (!edge) break;
      this.criticalEdges.add(edge);
      this.critical.add((node = edge.source));
    }
    for (let node = last; ;) {
      let edge = null;
      for (const one of node.outs) {
        if (one.state === "skip" || ENDED.has(one.target.status)) continue;
        if (!edge || rest[one.target.index] > rest[edge.target.index]) edge = one;
      }
      if (!edge) break;
      this.criticalEdges.add(edge);
      this.critical.add((node = edge.target));
    }
  }

  // The number of steps on the longest way that is still to go from each node.
  #remaining() {
    const rest = new Int32Array(this.nodes.length);
    for (let i = this.nodes.length - 1; i >= 0; i -= 1) {
      const node = this.nodes[i];
      let most = 0;
      for (const edge of node.outs) if (edge.state !== "skip") most = Math.max(most, rest[edge.target.index]);
      rest[i] = most + (ENDED.has(node.status) ? 0 : 1);
    }
    return rest;
  }
}

// What nearly all names begin with says nothing in a box; the whole name stands in its title.
function nameShort(nodes) {
  if (nodes.length < 8) return;
  const counts = new Map();
  for (const { title } of nodes) {
    for (let i = title.search(/[:/._-]/); i > 0; i = nextBreak(title, i)) {
      const prefix = title.slice(0, i + 1);
      counts.set(prefix, (counts.get(prefix) || 0) + 1);
    }
  }
  let common = "";
  for (const [prefix, n] of counts) if (n > nodes.length * 0.8 && prefix.length > common.length) common = prefix;
  if (common.length < 5) return;
  for (const node of nodes) {
    if (node.title.startsWith(common) && node.title.length > 20) node.label = `…${node.title.slice(common.length)}`;
  }
}

function nextBreak(text, from) {
  const next = text.slice(from + 1).search(/[:/._-]/);
  return next < 0 ? -1 : from + 1 + next;
}

function readTimes(node) {
  node.queuedAt = node.queued_at ? Date.parse(node.queued_at) : null;
  node.startedAt = node.started_at ? Date.parse(node.started_at) : null;
  node.endedAt = node.finished_at ? Date.parse(node.finished_at) : null;
}

function older(step, node) {
  if (step.execution_version !== node.execution_version) return step.execution_version < node.execution_version;
  return step.version < node.version;
}

// done: the way was gone; todo: it may be gone; skip: it was not taken.
function stateOf(edge) {
  const { source, target } = edge;
  if (edge.case && source.choice && !source.choice.includes(target.id)) return "skip";
  if (OK.has(source.status)) return target.status === "skipped" && target.cause === "branch" ? "skip" : "done";
  if (source.status === "skipped") return source.cause === "user" ? "done" : "skip";
  if (ENDED.has(source.status)) return edge.forgiving && target.status !== "skipped" ? "done" : "skip";
  if (target.status === "skipped" || target.status === "killed") return "skip";
  return "todo";
}

function groupsOf(model) {
  const { groups } = model.layout;
  const nodes = groups.labels.map((label, index) => ({
    index, id: `group-${index}`, title: seen(label), x: groups.nodes[2 * index], y: groups.nodes[2 * index + 1], members: [],
    counts: new Map(), ins: [], outs: [], before: [], after: [], group: true,
  }));
  for (const node of model.nodes) {
    const group = nodes[node.group];
    group.members.push(node);
    group.counts.set(node.status, (group.counts.get(node.status) || 0) + 1);
  }
  const edges = groups.links.map(([source, target, count], index) => {
    const edge = { index, source: nodes[source], target: nodes[target], count, points: groups.edges[index], state: "done" };
    edge.source.outs.push(edge);
    edge.target.ins.push(edge);
    edge.source.after.push(edge.target);
    edge.target.before.push(edge.source);
    return edge;
  });
  return { nodes, edges, width: groups.width, height: groups.height, box: groups.box };
}

/** A group's most telling state: what needs a person first, then what moves, then what is left. */
export function stateOfGroup(group) {
  for (const status of ["unknown", "failed", "hold", "killed", "running", "queued", "waiting"]) {
    if (group.counts.get(status)) return status;
  }
  return group.counts.get("succeeded") ? "succeeded" : group.counts.get("mark_successed") ? "mark_successed" : "skipped";
}
