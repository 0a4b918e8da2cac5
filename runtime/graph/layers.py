"""A layered drawing of an acyclic graph in plain Python: ranks, order, places. Enough to look at, made in no time.

Items are nodes (0 … n-1) and, behind them, the bends of edges that pass a layer.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

SWEEPS = 4


@dataclass(slots=True)
class Layered:
    """Items by layer. ``chains`` gives each edge as the items it passes, one a layer; ``cross`` each item's place."""

    n: int
    rank: list[int]
    layers: list[list[int]] = field(default_factory=list)
    chains: list[list[int]] = field(default_factory=list)
    cross: list[float] = field(default_factory=list)

    @property
    def items(self) -> int:
        return len(self.rank)


def ranks(n: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return each node's layer: as late as its predecessors ask, roots as late as their first successor allows.

    Nodes are numbered in topological order.
    """
    rank = [0] * n
    fed = [False] * n
    for source, target in sorted(edges):
        rank[target] = max(rank[target], rank[source] + 1)
        fed[target] = True
    first: dict[int, int] = {}
    for source, target in edges:
        first[source] = min(first.get(source, rank[target]), rank[target])
    for node in range(n):
        if not fed[node] and node in first:
            rank[node] = first[node] - 1
    return rank


def layered(n: int, edges: Sequence[tuple[int, int]], rank: Sequence[int]) -> Layered:
    """Return layers with an item for every layer an edge passes; the order is that of the nodes."""
    graph = Layered(n, list(rank))
    graph.layers = [[] for _ in range(max(rank, default=-1) + 1)]
    for node in range(n):
        graph.layers[rank[node]].append(node)
    for source, target in edges:
        chain = [source]
        for layer in range(rank[source] + 1, rank[target]):
            item = graph.items
            graph.rank.append(layer)
            graph.layers[layer].append(item)
            chain.append(item)
        graph.chains.append([*chain, target])
    return graph


def neighbours(graph: Layered) -> tuple[list[list[int]], list[list[int]]]:
    """Return for each item those before and those after it."""
    before: list[list[int]] = [[] for _ in range(graph.items)]
    after: list[list[int]] = [[] for _ in range(graph.items)]
    for chain in graph.chains:
        for tail, head in itertools.pairwise(chain):
            after[tail].append(head)
            before[head].append(tail)
    return before, after


def arrange(graph: Layered, size: float, gap: float, thin: float) -> None:
    """Order the layers and place their items: nodes ``size`` wide and ``gap`` apart, passing edges ``thin``."""
    before, after = neighbours(graph)
    place = [0.0] * graph.items
    for layer in graph.layers:
        for index, item in enumerate(layer):
            place[item] = float(index)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for layer in graph.layers if down else reversed(graph.layers):
            toward = before if down else after
            layer.sort(key=lambda item, t=toward: _mean(item, t[item], place))  # type: ignore[misc]
            for index, item in enumerate(layer):
                place[item] = float(index)
    graph.cross = [0.0] * graph.items
    for layer in graph.layers:
        _pack(graph, layer, [0.0] * len(layer), size, gap, thin)
    for sweep in range(2 * SWEEPS):
        down = sweep % 2 == 0
        for layer in graph.layers if down else reversed(graph.layers):
            toward = before if down else after
            wanted = [_mean(item, toward[item] or [item], graph.cross) for item in layer]
            _pack(graph, layer, wanted, size, gap, thin)


def _mean(item: int, around: list[int], place: list[float]) -> float:
    return sum(place[other] for other in around) / len(around) if around else place[item]


def _pack(graph: Layered, layer: list[int], wanted: list[float], size: float, gap: float, thin: float) -> None:
    """Put a layer as near to ``wanted`` as its order and distances allow (isotonic regression by pooling)."""
    half = [(size + gap if item < graph.n else thin) / 2 for item in layer]
    offset, total = [], 0.0
    for index, own in enumerate(half):
        total += own + (half[index - 1] if index else 0.0)
        offset.append(total)
    blocks: list[tuple[float, int]] = []
    for index, place in enumerate(wanted):
        sum_, count = place - offset[index], 1
        while blocks and blocks[-1][0] * count >= sum_ * blocks[-1][1]:
            other, more = blocks.pop()
            sum_, count = sum_ + other, count + more
        blocks.append((sum_, count))
    index = 0
    for sum_, count in blocks:
        for _ in range(count):
            graph.cross[layer[index]] = sum_ / count + offset[index]
            index += 1
