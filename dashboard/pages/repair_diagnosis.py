"""Why a case's step stands where it does, on the case's own page: the questions of a run's tab Why."""

from __future__ import annotations

from typing import Any

from dashboard.pages import requests, run_tabs
from dashboard.presenters import why, why_focus
from dashboard.presenters.repairs import board
from dashboard.presenters.undoing import all_steps
from repair.queries import cases_of_run
from runtime.access import verbs as v
from runtime.access.authorize import may
from runtime.kernel.actor import Actor
from runtime.queries import run_parts
from runtime.queries.graphs import read_graph
from runtime.queries.runs import read_run


def diagnosis(actor: Actor, case: dict[str, Any]) -> dict[str, Any] | None:
    """Return {run, headline, focus, answers, board} for the case's step, or for what holds its run up; None: no run.

    ``focus`` is the node that is asked about, None where nothing stands in the way; ``board`` every effect of the run
    with what became of it. Who may not read runs or their operations gets None.
    """
    if case["run_id"] is None or not (may(actor, v.RUN_READ) and may(actor, v.OPERATION_READ)):
        return None
    graph, run = read_graph(actor=actor, run_id=case["run_id"]), read_run(actor=actor, run_id=case["run_id"])
    blockers = why_focus.blockers(graph, graph["at"])
    nodes = {node["id"]: node for node in all_steps(graph)}
    focus = nodes.get(case["node"]) or (nodes.get(blockers[0].node) if blockers else None)
    operations = run_parts.list_operations(actor=actor, run_id=run["id"])
    found: dict[str, Any] = {"run": run, "headline": why_focus.headline(run, blockers), "focus": focus, "answers": []}
    found["board"] = board(operations, cases_of_run(actor=actor, run_id=run["id"]))
    if focus is not None:
        asked = requests.of_run(actor, run["id"])
        context = {"run": run, "graph": graph, "now": graph["at"], "operations": operations, "requests": asked}
        found["answers"] = why.answer(run_tabs.facts(actor, context, focus))
    return found
