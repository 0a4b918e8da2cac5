// One node's box: mark, name, what it is and how it stands, attempts; or a group's: how many, and how they stand.

import { KIND, STATUS, WORDS, detail, spoken } from "./graph-words.js";
import { ORDER, stateOfGroup } from "./graph-model.js";
import { svg } from "./graph-svg.js";

const measure = document.createElement("canvas").getContext("2d");
const cuts = new Map();

const NAME = "500 12.5px";
const LINE = "400 11.5px";
let family = null;

function widthOf(text, font) {
  family ||= getComputedStyle(document.body).fontFamily;
  measure.font = `${font} ${family}`;
  return measure.measureText(text).width;
}

// Names of one workflow differ at their end more often than at their beginning, so both ends stay; sentences keep theirs.
function shortened(text, length, font) {
  if (font !== NAME) return `${text.slice(0, length).trimEnd()}…`;
  if (text.startsWith("…")) return `…${text.slice(text.length - length + 1)}`;
  const head = Math.ceil(length * 0.4);
  return `${text.slice(0, head).trimEnd()}…${text.slice(text.length - (length - head)).trimStart()}`;
}

/** `text` cut to `width` pixels; the whole of it stands in the box's title. */
function cut(text, width, font) {
  const key = `${font}|${Math.round(width)}|${text}`;
  if (!cuts.has(key)) {
    let shown = text;
    if (widthOf(text, font) > width) {
      let low = 1;
      let high = text.length;
      while (low < high) {
        const middle = Math.ceil((low + high) / 2);
        if (widthOf(shortened(text, middle, font), font) <= width) low = middle;
        else high = middle - 1;
      }
      shown = shortened(text, low, font);
    }
    if (cuts.size > 20000) cuts.clear();
    cuts.set(key, shown);
  }
  return cuts.get(key);
}

const parted = new Map();

// Where a name may go on in a second line: after a space or a mark that joins words, and between any two Han characters.
const BREAK = /[\s\-_./:]|[\u3400-\u9fff]/;

/** A name in one line where it fits `width` pixels, else in two; the second is cut where even that is too little. */
function twoLines(text, width) {
  const key = `${Math.round(width)}|${text}`;
  if (!parted.has(key)) {
    let at = 0;
    if (widthOf(text, NAME) > width) {
      for (let next = 1; next < text.length && widthOf(text.slice(0, next).trimEnd(), NAME) <= width; next += 1) {
        if (BREAK.test(text[next - 1])) at = next;
      }
    }
    if (parted.size > 20000) parted.clear();
    parted.set(key, at ? [text.slice(0, at), cut(text.slice(at), width, NAME)] : [cut(text, width, NAME)]);
  }
  return parted.get(key);
}

/** Write the name and leave the line below its place: three lines stand closer than two. */
function writeName(parts, text) {
  const lines = twoLines(text, parts.box[0] - 48);
  const two = lines.length === 2;
  parts.name.replaceChildren(...lines.map((line, at) => {
    const span = svg("tspan", { x: 38, y: two ? [14, 26.5][at] : 18.5 });
    span.textContent = line;
    return span;
  }));
  for (const part of [parts.line, parts.more]) part.setAttribute("y", two ? 39 : 34);
}

const kinds = new Map();

function kindWidth(kind) {
  if (!kinds.has(kind)) kinds.set(kind, widthOf(kind, LINE));
  return kinds.get(kind);
}

export function drawBox(node, box) {
  const g = svg("g", { class: "nd", transform: `translate(${node.x} ${node.y})`, tabindex: "-1", role: "button" });
  g.node = node;
  const title = svg("title");
  const halo = svg("rect", { class: "halo", x: -4, y: -4, width: box[0] + 8, height: box[1] + 8, rx: 9 });
  const rect = svg("rect", { class: "bx", width: box[0], height: box[1], rx: 6 });
  g.append(title, halo);
  if (node.members?.length > 1) g.append(svg("rect", { class: "bx under", x: 4, y: 4, width: box[0], height: box[1], rx: 6 }));
  const mark = svg("svg", { class: "mark", x: 11, y: 13, width: 18, height: 18, viewBox: "0 0 16 16" });
  const use = svg("use");
  mark.append(use);
  const name = svg("text", { class: "nt", x: 38, y: 18.5 });
  const line = svg("text", { class: "ns", x: 38, y: 34 });
  const state = svg("tspan");
  if (!(node.members?.length > 1)) line.append(`${KIND[node.kind] || node.kind || ""} · `, state);
  const more = svg("text", { class: "na", x: box[0] - 10, y: 34, "text-anchor": "end" });
  g.append(rect, mark, name, line, more);
  g.parts = { title, use, name, line, state, more, box };
  if (node.members?.length > 1) {
    g.parts.bar = svg("g", { class: "bar", transform: `translate(38 38)` });
    g.append(g.parts.bar);
  }
  return g;
}

/** Bring a box up to date; with `ticking` only what time alone changes. */
export function fillBox(g, node, ticking = false) {
  const { parts } = g;
  const [text, toned] = detail(node);
  const key = `${node.status}|${node.attempt}|${node.execution_version}|${text}`;
  if (parts.key === key) return;
  parts.key = key;
  const kind = `${KIND[node.kind] || node.kind} · `;
  const width = parts.box[0] - 38 - (node.attempt > 1 ? 32 : 10);
  parts.state.setAttribute("class", toned ? "nsx" : "");
  parts.state.textContent = cut(text, width - kindWidth(kind), toned ? "500 11.5px" : LINE);
  if (ticking) return;
  if (parts.status !== node.status) {
    parts.status = node.status;
    const kept = ["crit", "sel", "dim"].filter((name) => g.classList.contains(name)).join(" ");
    g.setAttribute("class", `nd st-${node.status} ${kept}`);
    parts.use.setAttribute("href", `#m-${node.status}`);
  }
  writeName(parts, node.label || node.title);
  parts.more.textContent = node.attempt > 1 ? `×${node.attempt}` : "";
  parts.title.textContent = `${node.title}\n${node.tool || KIND[node.kind] || node.kind}\n${STATUS[node.status]}${node.error ? ` · ${node.error}` : ""}`;
  g.setAttribute("aria-label", spoken(node));
}

export function fillGroup(g, group) {
  if (group.members.length === 1) {
    fillBox(g, { ...group.members[0], title: group.title });
    return;
  }
  const { parts } = g;
  const found = ORDER.filter((status) => group.counts.get(status));
  const key = found.map((status) => `${status}${group.counts.get(status)}`).join();
  if (parts.key === key) return;
  parts.key = key;
  const status = stateOfGroup(group);
  const kept = ["crit", "sel", "dim"].filter((name) => g.classList.contains(name)).join(" ");
  g.setAttribute("class", `nd group st-${status} ${kept}`);
  parts.use.setAttribute("href", `#m-${status}`);
  parts.name.textContent = cut(group.title, parts.box[0] - 48, NAME);
  const done = (group.counts.get("succeeded") || 0) + (group.counts.get("mark_successed") || 0);
  parts.line.setAttribute("y", 31.5);
  parts.line.textContent = done === group.members.length ? WORDS.count(done) : WORDS.of(done, group.members.length);
  const words = found.map((one) => `${STATUS[one]} ${group.counts.get(one)}`).join(", ");
  parts.title.textContent = `${group.title}\n${words}`;
  g.setAttribute("aria-label", `${group.title}, ${WORDS.count(group.members.length)}: ${words}`);
  const width = parts.box[0] - 48;
  let x = 0;
  parts.bar.replaceChildren(...found.map((one) => {
    const w = Math.max(2, (width * group.counts.get(one)) / group.members.length);
    const rect = svg("rect", { class: `seg-${one} st-${one}`, x, width: Math.max(1, w - 1), height: 3, rx: 1 });
    x += w;
    return rect;
  }));
}
