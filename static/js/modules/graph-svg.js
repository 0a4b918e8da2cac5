const NS = "http://www.w3.org/2000/svg";

/** Make an SVG element. */
export function svg(name, attributes = {}) {
  const element = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

/** Make an HTML element; `text` becomes its content, `on` its listeners. */
export function html(name, { text, on, ...attributes } = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== null) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  for (const [key, listener] of Object.entries(on || {})) element.addEventListener(key, listener);
  element.append(...children);
  return element;
}

/** A state's mark, from the page's sprite. */
export function mark(status, size = "mark-14") {
  const element = svg("svg", { class: `mark st-${status} ${size}`, viewBox: "0 0 16 16", "aria-hidden": "true" });
  element.append(svg("use", { href: `#m-${status}` }));
  return element;
}

/** An icon of a few strokes, 24 × 24. */
export function icon(d, size = "i-14") {
  const element = svg("svg", { class: `i ${size}`, viewBox: "0 0 24 24", "aria-hidden": "true" });
  element.append(svg("path", { d }));
  return element;
}
