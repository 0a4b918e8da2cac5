"""What a step that goes on, or is run again, will lead to: the steps that run, those that may, and what is reused.

Foreseen for the case that every step succeeds; where a switch has not decided, what lies behind it may run. Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from runtime.graph.plan import NodePlan, Plan
from runtime.graph.readiness import TERMINAL, ancestors, contribution, counters_from, decide, descendants
from runtime.graph.rewind import affected
from runtime.machine.rows import RunState, StepState

GOES_ON, AGAIN, NEW_RUN, UNDOING, NOTHING = "goes_on", "again", "new_run", "undoing", "nothing"
Choices = dict[str, Collection[str]]
_SUCCEEDED = ("succeeded", "mark_successed")


@dataclass(frozen=True, slots=True)
class Foresight:
    """Nodes in topological order.

    ``how``: the step goes on (goes_on), gets its next execution version (again), is part of a new run of the task
    (new_run), goes on undoing an effect (undoing), or only fails (nothing). ``ended`` are steps under way that are
    ended first.
    """

    how: str
    runs: tuple[str, ...] = ()
    perhaps: tuple[str, ...] = ()
    reused: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()


def foresee(run: RunState, step: StepState, *, same_execution: bool) -> Foresight:
    """Return what resuming ``step`` leads to; every current step of the run is loaded.

    ``same_execution``: what was sent may be sent again under the same execution version.
    """
    if step.undoes:
        on = step.status == "unknown" and same_execution
        return Foresight(UNDOING, (step.node,)) if on else Foresight(NOTHING)
    plan: Plan = run.plan
    if run.ended:
        again = {step.node, *descendants(plan, step.node)}
        kept = [name for name in plan.order if name not in again and run.steps[name].status == "succeeded"]
        reused = tuple(name for name in kept if plan.nodes[name].kind == "tool")
        runs, perhaps = _walk(run, [name for name in plan.order if name not in reused], first=None)
        return Foresight(NEW_RUN, runs, perhaps, reused)
    if (step.status == "unknown" and same_execution) or (step.status == "hold" and step.cause == "recovery"):
        behind = [name for name in descendants(plan, step.node) if run.steps[name].status not in TERMINAL]
        runs, perhaps = _walk(run, [step.node, *behind], first=step.node)
        return Foresight(GOES_ON, runs, perhaps, _before(run, {*runs, *perhaps}))
    behind = affected(run, step.node)
    under_way = tuple(name for name in behind if run.steps[name].status in ("queued", "running", "hold"))
    runs, perhaps = _walk(run, [step.node, *behind], first=step.node)
    return Foresight(AGAIN, runs, perhaps, _before(run, {step.node, *behind}), under_way)


def foresee_forced(run: RunState, step: StepState) -> Foresight:
    """Return what forcing ``step`` leads to: what waits for it goes on, what was skipped because of it revives."""
    if run.ended:
        return Foresight(NOTHING)
    behind = [name for name in descendants(run.plan, step.node) if _waits(run.steps[name])]
    runs, perhaps = _walk(run, [step.node, *behind], first=step.node)
    return Foresight(GOES_ON, runs[1:], perhaps)


def _waits(step: StepState) -> bool:
    return step.status == "waiting" or (step.status == "skipped" and step.cause == "upstream_failed")


def _before(run: RunState, going: Collection[str]) -> tuple[str, ...]:
    """Return the steps whose results are read again: they succeeded, and what goes depends on them."""
    needed = {name for one in going for name in ancestors(run.plan, one)} - set(going)
    return tuple(name for name in run.plan.order if name in needed and run.steps[name].status in _SUCCEEDED)


def _walk(run: RunState, going: list[str], *, first: str | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return which of ``going`` (in topological order) will run, ``first`` whatever is before it, and which may."""
    plan: Plan = run.plan
    ends = {name: (s.status, s.cause) if s.status in TERMINAL else ("succeeded", None) for name, s in run.steps.items()}
    fixed = [name for name, s in run.steps.items() if s.status in TERMINAL and name not in going and not s.undoes]
    chosen = {name: plan.chosen(name, run.steps[name].choice) for name in fixed}
    runs: list[str] = []
    perhaps: list[str] = []
    for name in going:
        node = plan.nodes[name]
        ends[name] = ("succeeded", None)
        if name == first:
            runs.append(name)
            continue
        decision = decide(node, *_counted(plan, name, ends, chosen))
        if decision is not None and decision != "ready":
            ends[name] = ("skipped", decision[1])
        elif _sure(plan, node, ends, chosen, perhaps):
            runs.append(name)
        else:
            perhaps.append(name)
    return tuple(runs), tuple(perhaps)


def _counted(
    plan: Plan, name: str, ends: dict[str, tuple[str, str | None]], chosen: Choices
) -> tuple[int, int, int, int, int]:
    sources = [source for source, _edge in plan.nodes[name].predecessors]
    # A switch that has not decided may take any of its branches.
    choices = {source: chosen.get(source, [name]) for source in sources}
    statuses, causes = {s: ends[s][0] for s in sources}, {s: ends[s][1] for s in sources}
    return counters_from(plan, name, statuses, causes, choices)


def _sure(
    plan: Plan, node: NodePlan, ends: dict[str, tuple[str, str | None]], chosen: Choices, perhaps: list[str]
) -> bool:
    """Whether the node starts whatever undecided switches take: enough of what leads to it is sure to succeed."""
    if not node.predecessors:
        return True
    sure = 0
    for source, edge in node.predecessors:
        if source in perhaps or (edge.case and source not in chosen):
            continue
        taken = not edge.case or node.id in plan.chosen(source, chosen.get(source))
        sure += contribution(*ends[source], edge, taken) in ("ok", "err")
    return sure >= (node.join_n if node.join_policy == "at_least" and node.join_mode == "all" else 1)
