"""Finds the loops of a graph that should have none, so that a refusal can name their nodes in order (A9.1)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

Graph = Mapping[str, Sequence[str]]


def components(graph: Graph) -> list[list[str]]:
    """Return the strongly connected components that contain a loop, each in the order of ``graph``.

    ``graph`` maps every node to its successors. Tarjan's algorithm without recursion: a chain may be 10,000 long.
    """
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    found: list[set[str]] = []
    for start in graph:
        if start in index:
            continue
        work = [(start, iter(graph[start]))]
        index[start] = low[start] = len(index)
        stack.append(start)
        on_stack.add(start)
        while work:
            node, successors = work[-1]
            for other in successors:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(graph[other])))
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    found.append(_pop(stack, on_stack, node))
    looping = [part for part in found if len(part) > 1 or any(n in graph[n] for n in part)]
    place = {node: i for i, node in enumerate(graph)}
    return sorted((sorted(part, key=place.__getitem__) for part in looping), key=lambda part: place[part[0]])


def _pop(stack: list[str], on_stack: set[str], root: str) -> set[str]:
    part = set()
    while True:
        node = stack.pop()
        on_stack.discard(node)
        part.add(node)
        if node == root:
            return part


def shortest_loop(graph: Graph, component: Sequence[str]) -> list[str]:
    """Return the nodes of a shortest loop through the first node of ``component``, in the order of its edges."""
    inside, start = set(component), component[0]
    came_from: dict[str, str] = {}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for other in graph[node]:
            if other == start:
                path = [node]
                while path[-1] != start:
                    path.append(came_from[path[-1]])
                return path[::-1]
            if other in inside and other not in came_from:
                came_from[other] = node
                queue.append(other)
    raise ValueError(f"{start} is on no loop")
