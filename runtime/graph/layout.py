"""Where the nodes and edges of a workflow version are drawn. Versions are immutable, so this is made once and stored.

``graphlay`` ranks, orders and places the nodes; it holds the interpreter's lock for seconds, so it is only asked in a
process of its own (``runtime.worker.maintenance.layouts``). ``layered`` does the same more simply and at once, for
whoever looks before that is done and for graphs that graphlay takes too long for. Edges are routed here in both cases:
a fan of hundreds of edges shares one trunk (``channels``), which keeps wide graphs small.

Small graphs run from top to bottom; whatever fits a screen better from left to right does that.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from runtime.graph.channels import Hop, assign_tracks, flat, simplified
from runtime.graph.layers import Layered, arrange, layered, ranks

if TYPE_CHECKING:
    from runtime.graph.plan import Plan

FORMAT = 1
BOX = (164.0, 44.0)
MARGIN = 20.0
# Above this, graphlay is asked to be fast; above that, the drawing also has groups to start from.
BALANCED_NODES = 800
GROUPED_NODES = 1000
MAX_GROUPS = 160
# Distances: between nodes of a layer, of a passing edge, first and further tracks of a channel.
_NODE_GAP = {"TB": 24.0, "LR": 16.0}
_PASSING = 14.0
_CHANNEL = {"TB": (22.0, 8.0), "LR": (36.0, 8.0)}
_SCREEN = (1080.0, 620.0)

Direction = Literal["TB", "LR"]
Engine = Literal["graphlay", "layered"]
Edges = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Shape:
    """What a drawing is made of: names and tools of the nodes in topological order, edges between their numbers."""

    names: list[str]
    tools: list[str]
    edges: list[tuple[int, int]]


def shape_of(plan: Plan) -> Shape:
    """Return the shape of a workflow; its edges are in the order of :func:`edges_in`."""
    place = {name: index for index, name in enumerate(plan.order)}
    tools = [plan.nodes[name].tool or plan.nodes[name].kind for name in plan.order]
    return Shape(list(plan.order), tools, [(place[source], place[target]) for source, target in edges_in(plan)])


def edges_in(plan: Plan) -> list[tuple[str, str]]:
    """Return (source, target) of every edge: by target in ``plan.order``, then as the specification lists them."""
    return [(source, name) for name in plan.order for source, _ in plan.nodes[name].predecessors]


def drawing_of(shape: Shape, engine: Engine) -> dict[str, Any]:
    """Return a drawing: {format, engine, direction, width, height, box, nodes, edges, groups}; lengths are pixels.

    ``nodes`` is x, y (the upper left corner) of each node; ``edges`` has a list x, y, x, y, … for each edge. ``groups``
    is None up to GROUPED_NODES, else a drawing of groups with their labels, links and each node's group (``members``).
    Raises ValueError when graphlay does not take the graph.
    """
    drawing = draw(len(shape.names), shape.edges, engine)
    grouped = len(shape.names) > GROUPED_NODES
    drawing["groups"] = _groups(shape, ranks(len(shape.names), shape.edges)) if grouped else None
    return drawing


def draw(n: int, edges: Edges, engine: Engine) -> dict[str, Any]:
    """Return a drawing of ``n`` nodes in topological order. Raises ValueError when graphlay does not take the graph."""
    joined = sorted({node for edge in edges for node in edge})
    place = {node: index for index, node in enumerate(joined)}
    inner = [(place[source], place[target]) for source, target in edges]
    rank = ranks(len(joined), inner)
    direction = _direction(rank)
    if engine == "graphlay" and joined:
        graph = _by_graphlay(len(joined), inner, direction)
    else:
        graph = layered(len(joined), inner, rank)
        arrange(graph, _across(direction), _NODE_GAP[direction], _PASSING)
    drawing = {"format": FORMAT, "engine": engine, "direction": direction, "box": list(BOX), **_route(graph, direction)}
    if len(joined) < n:
        _add_lonely(drawing, n, place)
    return drawing


def _add_lonely(drawing: dict[str, Any], n: int, place: dict[int, int]) -> None:
    """Put the nodes without an edge in rows below the rest."""
    dx, dy, drawn = BOX[0] + _NODE_GAP["TB"], BOX[1] + _NODE_GAP["LR"], drawing["nodes"]
    alone = n - len(place)
    columns = max(
        1, round((max(drawing["width"], _SCREEN[0]) - 2 * MARGIN) / dx), math.ceil(math.sqrt(alone * dy / dx * 1.7))
    )
    top = drawing["height"] if place else MARGIN
    corners: list[tuple[float, float]] = []
    rows = 0
    for node in range(n):
        if (at := place.get(node)) is not None:
            corners.append((drawn[2 * at], drawn[2 * at + 1]))
            continue
        corners.append((MARGIN + rows % columns * dx, top + rows // columns * dy))
        rows += 1
    drawing["nodes"] = flat(corners)
    drawing["width"] = round(max(drawing["width"], 2 * MARGIN + min(alone, columns) * dx - _NODE_GAP["TB"]))
    drawing["height"] = round(top + -(-alone // columns) * dy - _NODE_GAP["LR"] + MARGIN)


def _direction(rank: Sequence[int]) -> Direction:
    """Return the direction in which more of the drawing fits a screen."""
    deep, wide = max(rank, default=0) + 1, max(Counter(rank).values(), default=1)
    (w, h), (sw, sh) = BOX, _SCREEN
    down = min(1.0, sw / (wide * (w + _NODE_GAP["TB"])), sh / (deep * (h + _CHANNEL["TB"][0])))
    along = min(1.0, sw / (deep * (w + _CHANNEL["LR"][0])), sh / (wide * (h + _NODE_GAP["LR"])))
    return "TB" if down >= along else "LR"


def _across(direction: Direction) -> float:
    return BOX[0] if direction == "TB" else BOX[1]


def _along(direction: Direction) -> float:
    return BOX[1] if direction == "TB" else BOX[0]


def _by_graphlay(n: int, edges: Edges, direction: Direction) -> Layered:
    """Return layers and places as graphlay finds them."""
    import graphlay  # a compiled module that only the layout process needs

    request = graphlay.Graph()
    for index in range(n):
        request.node(index, width=BOX[0], height=BOX[1])
    for source, target in edges:
        request.edge(source, target)
    gap = _NODE_GAP[direction]
    options = {
        "direction": "topbottom" if direction == "TB" else "leftright",
        "effort": "balanced" if n <= BALANCED_NODES else "fast",
        "spacing": {"node_gap": gap, "dummy_gap": _PASSING, "port_gap": 4.0, "port_stroke_clear": 4.0},
    }
    found = graphlay.layout(request, preset="process_map", options=options)
    along, across = ("y", "x") if direction == "TB" else ("x", "y")
    rank = [int(node["rank"]) for node in found.nodes]
    if any(rank[source] >= rank[target] for source, target in edges):
        raise ValueError("graphlay turned an edge round")
    graph = layered(n, edges, rank)
    middle = {rank[i]: float(node["center"][along]) for i, node in enumerate(found.nodes)}
    graph.cross = [float(node["center"][across]) for node in found.nodes] + [0.0] * (graph.items - n)
    for chain, edge in zip(graph.chains, found.edges, strict=True):
        points = [(float(p[along]), float(p[across])) for p in edge["points"]]
        for item in chain[1:-1]:
            graph.cross[item] = _crossing(points, middle.get(graph.rank[item], 0.0))
    return graph


def _crossing(points: list[tuple[float, float]], flow: float) -> float:
    """Return where a line passes ``flow``."""
    for (a, _), (b, cross) in itertools.pairwise(points):
        if min(a, b) <= flow <= max(a, b):
            return cross
    return points[-1][1]


def _route(graph: Layered, direction: Direction) -> dict[str, Any]:
    """Route every edge through the channels and return sizes, corners and lines."""
    hops: list[list[Hop]] = [[] for _ in graph.layers]
    ways: list[list[Hop]] = []
    for chain in graph.chains:
        way = [Hop(t, h, graph.cross[t], graph.cross[h]) for t, h in itertools.pairwise(chain)]
        for hop in way:
            hops[graph.rank[hop.tail]].append(hop)
        ways.append(way)
    first, more = _CHANNEL[direction]
    thick = _along(direction)
    start: list[float] = []
    flow = MARGIN
    for channel in hops:
        start.append(flow)
        flow += thick + first + more * max(0, assign_tracks(channel) - 1)
    low = min((graph.cross[i] for i in range(graph.items)), default=0.0) - _across(direction) / 2 - MARGIN
    high = max((graph.cross[i] for i in range(graph.items)), default=0.0) + _across(direction) / 2 + MARGIN
    lines = [_line(graph, way, start, thick, first, more, low, direction) for way in ways]
    corners: list[tuple[float, float]] = []
    for node in range(graph.n):
        along, across = start[graph.rank[node]], graph.cross[node] - low - _across(direction) / 2
        corners.append((across, along) if direction == "TB" else (along, across))
    size = (high - low, (start[-1] + thick if start else 0.0) + MARGIN)
    width, height = size if direction == "TB" else size[::-1]
    return {"width": round(width), "height": round(height), "nodes": flat(corners), "edges": lines}


def _line(
    graph: Layered,
    way: list[Hop],
    start: list[float],
    thick: float,
    first: float,
    more: float,
    low: float,
    d: Direction,
) -> list[Any]:
    points: list[tuple[float, float]] = []
    for hop in way:
        begin = start[graph.rank[hop.tail]] + thick
        points.append((begin, hop.start))
        if not hop.straight:
            trunk = begin + first / 2 + more * hop.track
            points += [(trunk, hop.start), (trunk, hop.end)]
        points.append((start[graph.rank[hop.head]], hop.end))
    turned = [(cross - low, flow) if d == "TB" else (flow, cross - low) for flow, cross in simplified(points)]
    return flat(turned)


_WORD = re.compile(r"[A-Za-z0-9]+|[^A-Za-z0-9]+")


def family(name: str) -> str:
    """Return what siblings' names share: the words before the first with a digit, or that word without its number."""
    words = _WORD.findall(name)
    first = next((i for i, word in enumerate(words) if any(c.isdigit() for c in word)), len(words))
    return "".join(words[:first]).rstrip("-_. #/") or words[first].rstrip("0123456789") or name


def _groups(shape: Shape, rank: Sequence[int]) -> dict[str, Any]:
    """Return a drawing in which the siblings of a layer are one.

    Siblings are named alike but for a number; when that leaves too many, those of one tool; then the whole layer.
    """
    keys: list[tuple[int, str]] = []
    for coarse in range(3):
        words = ([family(name) for name in shape.names], shape.tools, [""] * len(shape.names))[coarse]
        keys = list(zip(rank, words, strict=True))
        if len(set(keys)) <= MAX_GROUPS:
            break
    order = sorted(set(keys), key=lambda key: key[0])
    place = {key: index for index, key in enumerate(order)}
    members = [place[key] for key in keys]
    between = Counter((members[source], members[target]) for source, target in shape.edges)
    size = Counter(members)
    labels = [word for _, word in order]
    for index, group in enumerate(members):
        if size[group] == 1:
            labels[group] = shape.names[index]
    links = [[source, target, count] for (source, target), count in between.items()]
    return {**draw(len(order), list(between), "layered"), "members": members, "labels": labels, "links": links}
