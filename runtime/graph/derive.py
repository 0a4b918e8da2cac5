"""The status of a Run, derived from its steps. Pure functions; the order is that of the law of states (A2, B8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from runtime.graph.plan import Plan
from runtime.graph.readiness import TERMINAL

FinalStatus = Literal["completed", "partially_completed", "failed"]

# A skip with one of these causes is what the author or the operator wanted; every other one is a bad end.
_BENIGN_CAUSES = frozenset({"user", "branch", "or_lost"})


@dataclass(frozen=True, slots=True)
class RunCounts:
    """What is known of a Run's steps and operations when its status is derived.

    ``open_steps``: not terminal. ``live``: queued or running. ``timers``: waiting with a not_before (retry, timer).
    ``hold_approval``, ``hold_external``: in hold, by what they wait for (an operator's hold counts as external).
    ``unknown``: steps whose effect is not known. ``troubled``: steps that ended badly (``is_bad``).
    ``open_operations``: those of ``machine.operations.OPEN``. ``started``: whether any step was ever claimed or held.
    The flags are the Run's: ``cancelling`` (cancel was accepted), ``attention`` (an open repair case), ``paused``.
    ``compensating``: operations that are being undone, each by one open step.
    """

    open_steps: int = 0
    live: int = 0
    timers: int = 0
    hold_approval: int = 0
    hold_external: int = 0
    unknown: int = 0
    troubled: int = 0
    open_operations: int = 0
    started: bool = False
    cancelling: bool = False
    compensating: int = 0
    attention: bool = False
    paused: bool = False


def derive_run(counts: RunCounts, finish: Callable[[], FinalStatus]) -> str:
    """Return the status the Run has by its steps.

    cancelling > compensating > needs_attention > paused > running > waiting_tool > waiting_approval >
    waiting_external > queued; a final status only when no step is open, no step is unknown and no operation is open.
    ``finish`` answers the final status when a step ended badly (``final_status``) and is not asked otherwise.
    An accepted Run with nothing queued yet stays ``accepted``.
    """
    c = counts
    settled = c.unknown == 0 and c.open_operations == 0
    others = c.open_steps - c.compensating
    # A compensation of which nobody knows what it did, and whose doubt a person owns, is that person's business.
    undoing = c.compensating and not (c.attention and c.unknown)
    if c.cancelling:
        # Nothing moves any more but an effect is unsettled: that is a person's business (cancelling → needs_attention).
        if c.live > c.compensating or others > c.unknown:
            return "cancelling"
        if undoing:
            return "compensating"
        return "cancelled" if settled and not c.attention else "needs_attention"
    if undoing and (c.attention or others <= 0):
        return "compensating"
    if c.attention:
        return "needs_attention"
    if c.open_steps == 0 and settled:
        return finish() if c.troubled else "completed"
    if c.paused:
        return "paused"
    return _going_on(c)


def _going_on(c: RunCounts) -> str:
    if c.live:
        return "running" if c.started else "queued"
    if c.unknown or c.timers or (c.open_steps == 0 and c.open_operations):
        return "waiting_tool"
    if c.hold_approval:
        return "waiting_approval"
    if c.hold_external:
        return "waiting_external"
    # Only steps with open dependencies: between two moves of one transaction, or before the first step was queued.
    return "running" if c.started else "accepted"


def is_bad(status: str, cause: str | None) -> bool:
    """Return whether a terminal step ended badly.

    Bad are failed, killed, and skipped for the causes rejected, upstream_failed, cancelled and deadline. Not bad are
    a skip by a user, a branch not taken, and a loser of an OR join (also when it had to be killed).
    """
    if status in ("failed", "killed"):
        return cause != "or_lost"
    return status == "skipped" and cause not in _BENIGN_CAUSES


def final_status(plan: Plan, statuses: Mapping[str, str], causes: Mapping[str, str | None]) -> FinalStatus:
    """Return how a Run ends whose steps are all terminal.

    A bad step (``is_bad``) is *handled* when its node has successors and each of its outgoing edges is
    continue_on_error or optional, or enters a join that tolerates failures (``any``, ``at_least``, ``all_done``); see
    ``NodePlan.handles_failure``. A bad sink is never handled. A tolerant join that does not get enough is itself
    skipped with upstream_failed, is bad, and is judged by its own edges.

    - ``failed``: some bad step is not handled;
    - ``partially_completed``: there are bad steps and all are handled;
    - ``completed``: no step is bad.

    Raises ValueError when a step is missing or not terminal.
    """
    troubled = False
    for node_id, node in plan.nodes.items():
        status = statuses.get(node_id, "")
        if status not in TERMINAL:
            raise ValueError(f"step {node_id} is {status or 'missing'}, not terminal")
        if is_bad(status, causes.get(node_id)):
            if not node.handles_failure:
                return "failed"
            troubled = True
    return "partially_completed" if troubled else "completed"
