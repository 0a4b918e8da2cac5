"""What follows a step: all of it is counted, and a wide graph is walked once and not once a node."""

from __future__ import annotations

import re
from typing import Any

from dashboard.presenters import consequences, payload
from tests.support.engine import Engine
from tests.support.pages import Reader, node


class Counted(list[dict[str, Any]]):
    """Edges that count how often somebody walks along all of them."""

    walks = 0

    def __iter__(self) -> Any:
        self.walks += 1
        return super().__iter__()


def graph_of(edges: list[tuple[str, str, bool | None]]) -> dict[str, Any]:
    names = list(dict.fromkeys(name for source, target, _taken in edges for name in (source, target)))
    step = {"status": "waiting"}
    nodes = [
        {"id": name, "title": name, "tool": None, "kind": "tool", "step": step, "join": {"mode": "all"}}
        for name in names
    ]
    found = Counted({"source": source, "target": target, "taken": taken} for source, target, taken in edges)
    return {"nodes": nodes, "edges": found}


def titles(graph: dict[str, Any], name: str) -> list[str]:
    return [one["title"] for one in payload.follows(graph, name)]


def test_what_follows_is_everything_that_can_be_reached():
    graph = graph_of([("a", "b", None), ("a", "c", False), ("b", "d", True), ("c", "e", None), ("x", "d", None)])
    assert titles(graph, "a") == ["b", "d"]
    assert titles(graph, "x") == ["d"]
    assert titles(graph, "d") == []


def test_a_wide_fan_is_walked_a_fixed_number_of_times():
    few, many = (graph_of([("a", f"b{i}", None) for i in range(size)]) for size in (10, 1000))
    for graph, size in ((few, 10), (many, 1000)):
        assert len(payload.follows(graph, "a")) == size
        root = {**graph["nodes"][0], "step": {"status": "running", "cause": None, "superseded": False}}
        shown = consequences._follows("skip", root, graph)
        assert len(shown) == consequences.NAMED + 1
        assert str(size - consequences.NAMED) in shown[-1][1]
    assert few["edges"].walks == many["edges"].walks


def test_pages_say_how_many_more_steps_follow(tenant):
    engine = Engine(tenant)
    ask = {"id": "ask", "kind": "approval", "title": "All of them?", "role": "approver"}
    fan = [node(f"n{i}", "ask") for i in range(12)]
    run_id = engine.submit({"format": "quarterdeck/1", "name": "fan", "nodes": [ask, *fan]}, {})
    approver = Reader(tenant, "approver")
    link = re.search(r'href="(/inbox/[0-9a-f-]{36}/)"', approver.get("/inbox/"))
    assert link is not None
    assert "and 6 more steps" in approver.get(link.group(1))
    step = engine.step(run_id, "ask")
    assert "and 4 more steps" in Reader(tenant, "admin").get(f"/steps/{step.id}/verbs/skip/")
