// The drawing by keyboard: arrows go along the edges from box to box, Enter opens a step, the rest moves the picture.

/** Take a key pressed in the drawing. */
export function steer(graph, event) {
  if (event.target.closest(".zoom")) return;
  const { scene, view } = graph;
  const node = event.target.closest?.(".nd")?.node;
  if (!node) {
    if (event.key === "Enter" && !event.target.closest("button")) {
      const start = scene.selected || nearest(graph);
      if (start) go(graph, start);
    } else view.key(event);
    return;
  }
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    graph.select(node);
  } else if (event.key === "Escape") {
    event.stopPropagation();
    if (graph.drawer.node) graph.drawer.close();
    else graph.canvas.focus();
  } else if (event.key.startsWith("Arrow") && !event.shiftKey) {
    event.preventDefault();
    const next = neighbour(graph, node, event.key);
    if (next) go(graph, next);
  } else view.key(event);
}

function go(graph, node) {
  graph.view.reveal(graph.scene.boxOf(node));
  graph.scene.focus(node);
}

// Along the edges in the direction they run; across them to the next of the layer.
function neighbour(graph, node, key) {
  const { nodes, direction } = graph.source;
  const down = direction === "TB";
  const along = down ? { ArrowDown: "after", ArrowUp: "before" } : { ArrowRight: "after", ArrowLeft: "before" };
  const [axis, level] = down ? ["x", "y"] : ["y", "x"];
  const nearer = (a, b) => Math.abs(a[axis] - node[axis]) - Math.abs(b[axis] - node[axis]);
  if (along[key]) return [...node[along[key]]].sort(nearer)[0];
  // What undoes a step's effect comes right after it, before the layer's next box.
  const step = node.undoes || node;
  const layer = nodes.filter((one) => !one.undoes && one[level] === step[level]).sort((a, b) => a[axis] - b[axis]);
  const row = layer.flatMap((one) => [one, ...(one.undo || [])]);
  return row[row.indexOf(node) + (key === "ArrowRight" || key === "ArrowDown" ? 1 : -1)];
}

function nearest({ scene, view, source }) {
  const seen = view.seen();
  const [x, y] = [seen.x + seen.width / 2, seen.y + seen.height / 2];
  const far = (node) => Math.hypot(node.x - x, node.y - y);
  return [...scene.shown.keys()].sort((a, b) => far(a) - far(b))[0] || source.nodes[0];
}
