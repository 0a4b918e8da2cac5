"""Going back: which steps a rerun touches, their fresh rows, and counters from scratch (the law's "Rerun").

Works on all current rows of one run in memory, under its lock; callers have ended what was open.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from runtime.graph.propagate import Load, resolve
from runtime.graph.readiness import TERMINAL, Counters, contribution, counters_from, decide
from runtime.kernel.ids import uuid7
from runtime.machine.apply import move_step, note, replace_step, touch
from runtime.machine.rows import RunState, StepState


def affected(run: RunState, node: str) -> list[str]:
    """Return the nodes whose work depends on ``node`` as it now goes back, in topological order, without itself.

    Left out, with what only they lead to: a forced step and a user's skip, which are a person's decisions and
    contribute the same whatever happens before them; and an OR join that another branch has satisfied already.
    """
    plan = run.plan
    touched = {node}
    found = []
    for name in plan.order[plan.nodes[node].index + 1 :]:
        before = plan.nodes[name].predecessors
        if not any(source in touched for source, _edge in before):
            continue
        step = run.steps[name]
        if step.status == "mark_successed" or (step.status == "skipped" and step.cause == "user"):
            continue
        if plan.nodes[name].join_mode == "any" and step.deps_ok > 0 and _satisfied(run, name, touched):
            continue
        touched.add(name)
        found.append(name)
    return found


def _satisfied(run: RunState, name: str, touched: set[str]) -> bool:
    """Whether a source outside ``touched`` satisfies the OR join ``name``."""
    for source, edge in run.plan.nodes[name].predecessors:
        step = run.steps[source]
        if source in touched or step.status not in TERMINAL:
            continue
        chosen = not edge.case or name in run.plan.chosen(source, step.choice)
        if contribution(step.status, step.cause, edge, chosen) == "ok":
            return True
    return False


def counters(run: RunState, node: str) -> Counters:
    """Return the counters of ``node`` over the current rows of its sources."""
    sources = [source for source, _edge in run.plan.nodes[node].predecessors]
    return counters_from(
        run.plan,
        node,
        {name: run.steps[name].status for name in sources},
        {name: run.steps[name].cause for name in sources},
        {name: choice for name in sources if (choice := run.steps[name].choice) is not None},
    )


def set_counters(step: StepState, now: Counters) -> None:
    """Write counters into a row in memory."""
    step.deps_left, step.deps_ok, step.deps_bskip, step.deps_err, step.deps_bad = now


def recount(run: RunState, node: str) -> None:
    """Set an undecided step's counters anew, with an event: one of its sources went back or changed its end.

    The time limit of a join begins again with the first input that ends; ``queries.fold`` knows it by the counters.
    """
    step = run.steps[node]
    set_counters(step, counters(run, node))
    if step.cause is None and not step.counts_ended:
        step.not_before = None
    touch(run, step)
    note(run, "STEP_RECOUNTED", step, payload={"deps": step.deps()})


def renew(
    run: RunState, nodes: Iterable[str], *, first: str | None, actor: str | None, reason: str | None
) -> list[StepState]:
    """Give every node a fresh waiting row at its next execution version; ``first`` is the one that was asked for.

    ``nodes`` are in topological order, so that each counts the fresh rows before it as not ended.
    """
    rows = []
    for name in nodes:
        old = run.steps[name]
        new = _next_version(run, old)
        # Its own old row stands in nobody's way: counters look at the sources only.
        set_counters(new, counters(run, name))
        asked = name == first
        replace_step(
            run,
            old,
            new,
            type="STEP_RERUN" if asked else "STEP_RENEWED",
            actor=actor if asked else None,
            reason=reason if asked else f"follows {first}" if first else reason,
        )
        rows.append(new)
    return rows


def _next_version(run: RunState, old: StepState) -> StepState:
    """Return the waiting row that follows ``old``. Its epoch goes on from there, so that it only ever grows."""
    assert run.now is not None
    return StepState(
        uuid7(), run.id, old.node, old.kind, old.execution_version + 1, False, "waiting", None, 1, old.owner_epoch, 0,
        old.priority, old.pool, True, None, None, 0, 0, 0, 0, 0, False, False, None, None, run.now,
        None, None, None, home_pool=old.home_pool,
    )  # fmt: skip


def change_end(
    run: RunState, node: str, load: Load, *, actor: str | None, reason: str | None
) -> list[tuple[RunState, StepState]]:
    """Follow a step whose end became another one (forced) or none (wanted again): recount, revive, decide.

    Steps that still wait for their inputs are counted anew. A step skipped as ``upstream_failed`` that would not be
    skipped now revives, and so on behind it (the law: "system, when an upstream_failed skip revives"). Returns the
    steps that ended thereby, for ``propagate``.
    """
    plan = run.plan
    changed = {node}
    waiting = []
    for name in plan.order[plan.nodes[node].index + 1 :]:
        if not any(source in changed for source, _edge in plan.nodes[name].predecessors):
            continue
        step = run.steps[name]
        if step.undecided:
            if not (plan.nodes[name].join_mode == "any" and step.deps_ok > 0):
                if step.deps() != [*counters(run, name)]:
                    recount(run, name)
                waiting.append(step)
        elif step.status == "skipped" and step.cause == "upstream_failed":
            now = counters(run, name)
            if decide(plan.nodes[name], *now) != ("skip", "upstream_failed"):
                set_counters(step, now)
                payload = {"deps": step.deps()}
                move_step(
                    run, step, "waiting", by="engine", type="STEP_REVIVED", actor=actor, reason=reason, payload=payload
                )
                changed.add(name)
                waiting.append(step)
    ended: list[tuple[RunState, StepState]] = []
    for step in waiting:
        resolve(run, step, ended, load)
    return ended


def lost_before(run: RunState, names: Iterable[str], *, without: Collection[str] = ()) -> list[str]:
    """Return the steps an OR join among ``names`` ended when it fired, and those before them, in topological order.

    When the join goes back they are among its inputs again: else it would fail with the one it had chosen. ``names``
    themselves are not among them, nor are those in ``without`` and what only leads to them.
    """
    plan, back = run.plan, set(names)
    wanted = {name for name in back if plan.nodes[name].join_mode == "any" or run.steps[name].cause == "or_lost"}
    found = []
    for name in reversed(plan.order):
        if run.steps[name].cause != "or_lost" or name in back or name in without:
            continue
        if any(target in wanted for target, _edge in plan.nodes[name].successors):
            wanted.add(name)
            found.append(name)
    return found[::-1]
