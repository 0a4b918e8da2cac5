"""Drawings: no two boxes touch, every edge runs from its source's edge to its target's and past every other box."""

from __future__ import annotations

import itertools
import json
import time
from typing import Any

import pytest

from runtime.graph.layout import BOX, GROUPED_NODES, Shape, drawing_of, family, shape_of
from runtime.graph.plan import Plan
from runtime.worker.maintenance.layouts import drawings
from tests.support import dags
from tests.support.patience import patient

# These two have loops and are no workflows.
LOOPS = ("asl-account-vending-machine", "asl-idempotent-workflow")
REAL = [name for name in dags.names() if name not in LOOPS]
MARGIN = 0.6


def shape(name: str) -> Shape:
    return shape_of(Plan.from_spec(dags.to_workflow(dags.load(name))))


def wide(n: int) -> Shape:
    return Shape([f"n{i}" for i in range(n)], ["t"] * n, [])


def boxes(drawing: dict[str, Any]) -> list[tuple[float, float, float, float]]:
    corners = drawing["nodes"]
    return [(x, y, x + BOX[0], y + BOX[1]) for x, y in zip(corners[::2], corners[1::2], strict=True)]


def check(drawing: dict[str, Any], edges: list[tuple[int, int]], *, through: bool = True) -> None:
    found = boxes(drawing)
    for x0, y0, x1, y1 in found:
        assert x0 >= 0
        assert y0 >= 0
        assert x1 <= drawing["width"] + 1
        assert y1 <= drawing["height"] + 1
    rows = sorted(found, key=lambda box: (box[1], box[0]) if drawing["direction"] == "TB" else (box[0], box[1]))
    axis = 0 if drawing["direction"] == "TB" else 1
    for a, b in itertools.pairwise(rows):
        same = a[1 - axis] == b[1 - axis]
        assert not same or a[axis + 2] <= b[axis] + MARGIN, (a, b)
    assert len(drawing["edges"]) == len(edges)
    for (source, target), points in zip(edges, drawing["edges"], strict=True):
        line = list(zip(points[::2], points[1::2], strict=True))
        assert on_border(line[0], found[source])
        assert on_border(line[-1], found[target])
        for (ax, ay), (bx, by) in itertools.pairwise(line):
            assert abs(ax - bx) < MARGIN or abs(ay - by) < MARGIN, "an edge is not orthogonal"
            if through and len(found) < 250:
                for box in found:
                    assert not crosses(min(ax, bx), min(ay, by), max(ax, bx), max(ay, by), box), (source, target)


def on_border(point: tuple[float, float], box: tuple[float, float, float, float]) -> bool:
    x, y = point
    near = min(abs(x - box[0]), abs(x - box[2]), abs(y - box[1]), abs(y - box[3]))
    return near < MARGIN and box[0] - MARGIN <= x <= box[2] + MARGIN and box[1] - MARGIN <= y <= box[3] + MARGIN


def crosses(x0: float, y0: float, x1: float, y1: float, box: tuple[float, float, float, float]) -> bool:
    return x1 > box[0] + 1 and x0 < box[2] - 1 and y1 > box[1] + 1 and y0 < box[3] - 1


@pytest.mark.req("A9.7")
@pytest.mark.parametrize("name", REAL)
def test_real_graphs_are_drawn_simply(name):
    graph = shape(name)
    check(drawing_of(graph, "layered"), graph.edges)


@pytest.mark.req("A9.7")
@pytest.mark.parametrize("name", [name for name in REAL if "bwa" not in name and "6seq" not in name])
def test_real_graphs_are_drawn_by_graphlay(name):
    graph = shape(name)
    drawing = drawing_of(graph, "graphlay")
    assert drawing["engine"] == "graphlay"
    check(drawing, graph.edges)


def test_the_process_draws_and_gives_up_in_time():
    small, wide_ = shape("conductor-kitchensink"), shape("wf-bwa-chameleon-large-001")
    begun = time.monotonic()
    made = drawings([small, wide_, small], seconds=patient(3))
    assert time.monotonic() - begun < patient(8)
    assert len(made) == 2, "what stands behind the one it hung on waits for the next turn"
    first, second = (json.loads(line) for line in made)
    assert (first["engine"], second["engine"]) == ("graphlay", "layered")
    check(second, wide_.edges)


def test_a_fan_of_hundreds_shares_a_trunk():
    graph = shape("wf-epigenomics-chameleon-ilmn-6seq-50k-001")
    drawing = drawing_of(graph, "layered")
    assert drawing["direction"] == "LR"
    assert drawing["width"] < 9 * (BOX[0] + 120), "one track per bundle, not per edge"
    groups = drawing["groups"]
    assert len(groups["members"]) == len(graph.names) > GROUPED_NODES
    assert len(groups["labels"]) < 20
    assert sum(count for _, _, count in groups["links"]) == len(graph.edges)
    check(groups, [(a, b) for a, b, _ in groups["links"]])


@pytest.mark.parametrize("n", [0, 1, 7, 60, 3000])
def test_nodes_without_edges_are_put_in_rows(n):
    drawing = drawing_of(wide(n), "graphlay")
    check(drawing, [])
    assert len(set(boxes(drawing))) == n


def test_narrow_graphs_run_down_and_long_fans_along():
    chain = Shape(list("abcdef"), ["t"] * 6, [(i, i + 1) for i in range(5)])
    fan = Shape([f"n{i}" for i in range(41)], ["t"] * 41, [(0, i) for i in range(1, 41)])
    assert drawing_of(chain, "layered")["direction"] == "TB"
    assert drawing_of(fan, "layered")["direction"] == "LR"


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("n12", "n"),
        ("sort_ID0001", "sort"),
        ("map_map_A1_2", "map_map"),
        ("chr21_x", "chr"),
        ("load", "load"),
        ("7", "7"),
    ],
)
def test_siblings_have_one_name(name, word):
    assert family(name) == word
