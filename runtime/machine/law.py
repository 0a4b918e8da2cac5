"""The law as data (design: state-machine.md). The database guard, the generated page and the tests are made from it."""

from __future__ import annotations

from dataclasses import dataclass

ENGINE, OWNER, OPERATOR, ADMIN, CANCEL, RECONCILER = "engine", "owner", "operator", "admin", "cancel", "reconciler"


@dataclass(frozen=True, slots=True)
class Move:
    """One allowed change: ``by`` names the roles that may cause it, ``why`` is the sentence of the law."""

    subject: str
    source: str
    target: str
    by: frozenset[str]
    why: str


def _moves(subject: str, rows: tuple[tuple[str, str, str, str], ...]) -> dict[tuple[str, str], Move]:
    table = {}
    for source, targets, by, why in rows:
        for target in targets.split():
            table[source, target] = Move(subject, source, target, frozenset(by.split()), why)
    return table


STEP = _moves(
    "step",
    (
        ("waiting", "queued", "engine", "dependencies and planned time satisfied"),
        ("waiting", "hold", "engine operator", "needs approval, input or an external condition; operator pause"),
        ("waiting", "skipped", "operator engine cancel", "operator skip; system with a cause"),
        ("waiting", "mark_successed", "admin", "forced by an admin"),
        ("queued", "running", "engine", "worker claim: lease, owner_epoch + 1, attempt + 1"),
        ("queued", "killed", "operator cancel engine", "operator, cancel, or an OR join that fired"),
        ("queued", "skipped", "operator cancel engine", "operator, cancel, or an OR join that fired"),
        ("queued", "mark_successed", "admin", "forced by an admin"),
        ("running", "succeeded failed", "owner", "the owner of the current epoch"),
        ("running", "killed", "owner operator cancel admin engine", "owner, operator or cancel; an OR join that fired"),
        ("running", "waiting", "owner engine", "retry_scheduled, yielded or given_back; the attempt ends"),
        ("running", "unknown", "owner engine", "lease lost, or receipt unknown with an operation sent"),
        ("hold", "waiting", "engine operator", "approval granted, input given, condition met; operator release"),
        ("hold", "skipped", "operator cancel engine", "rejected, cancelled or operator"),
        ("hold", "mark_successed", "admin", "forced by an admin"),
        ("succeeded", "queued", "operator", "operator rerun"),
        ("failed", "queued", "operator", "operator rerun"),
        ("failed", "mark_successed", "admin", "forced by an admin"),
        ("killed", "queued", "operator", "operator rerun"),
        ("killed", "mark_successed", "admin", "forced by an admin"),
        ("skipped", "waiting", "operator engine", "operator unskip; an upstream_failed skip revives"),
        ("skipped", "mark_successed", "admin", "forced by an admin"),
        ("unknown", "waiting", "reconciler engine", "nothing was sent and the step is replayable, or proved absent"),
        ("unknown", "succeeded failed", "reconciler", "reconciliation or repair, with evidence"),
        ("unknown", "killed", "cancel operator", "cancel: the operation stays open"),
        ("unknown", "mark_successed", "admin", "execution status only; operation and case stay open"),
    ),
)

# Reruns move to a *new row* (execution_version + 1): the old row keeps its status and is superseded. A forced row is
# never left, so the table has no move from it; what follows it up is a row of its own, as terminal is per version.
RERUN_SOURCES = ("succeeded", "failed", "killed", "mark_successed")

RUN = _moves(
    "run",
    (
        ("accepted", "queued", "engine", "first step queued"),
        ("accepted", "cancelling", "cancel", "cancel"),
        ("accepted", "failed", "engine", "deadline before start"),
        (
            "queued",
            "running paused cancelling failed",
            "engine operator cancel",
            "first claim; pause; cancel; deadline",
        ),
        (
            "running",
            (
                "waiting_tool waiting_approval waiting_external paused cancelling compensating needs_attention "
                "completed partially_completed failed"
            ),
            "engine operator cancel",
            "derived from the steps",
        ),
        (
            "waiting_tool",
            "running cancelling needs_attention failed",
            "engine operator cancel",
            "derived from the steps; deadline",
        ),
        (
            "waiting_approval",
            "running cancelling needs_attention failed",
            "engine operator cancel",
            "derived from the steps; deadline",
        ),
        (
            "waiting_external",
            "running cancelling needs_attention failed",
            "engine operator cancel",
            "derived from the steps; deadline",
        ),
        ("paused", "running cancelling needs_attention failed", "engine operator cancel", "resume; cancel; deadline"),
        ("cancelling", "cancelled compensating needs_attention", "engine", "safe point; effects to undo; effect open"),
        (
            "compensating",
            "cancelled partially_completed failed needs_attention",
            "engine",
            "compensations ended",
        ),
        (
            "needs_attention",
            "running compensating completed partially_completed failed cancelled",
            "reconciler",
            "a repair only",
        ),
    ),
)
RUN_ENDED = ("completed", "partially_completed", "failed", "cancelled")
# What somebody who waits for a run is told: its ends, and that it goes on only with a person.
RUN_TOLD = (*RUN_ENDED, "needs_attention")


def run_path(source: str, target: str) -> list[str]:
    """Return the statuses to pass through from ``source`` to ``target``, both ends left out and in; [] if none.

    A run that pauses while it waits, or ends from a wait, passes through ``running`` (and a fresh one through
    ``queued``): each is a move of the law with its own event.
    """
    for path in ([target], ["queued", target], ["running", target], ["queued", "running", target]):
        steps = zip([source, *path], path, strict=False)
        if all(pair in RUN for pair in steps):
            return path
    return []


OPERATION = _moves(
    "operation",
    (
        ("intended", "sent", "owner", "committed before the call"),
        ("intended", "void", "owner engine cancel", "cancelled or grant lost before sending"),
        ("intended", "unknown", "engine", "a crash between intent and call"),
        ("sent", "succeeded refused absent", "owner", "a definite answer"),
        ("sent", "partially_applied unknown", "owner engine", "partial or no answer"),
        ("unknown", "succeeded absent partially_applied needs_human", "reconciler", "query by key"),
        ("absent", "sent", "owner reconciler", "same id and key, only if the contract allows"),
        ("succeeded", "compensating", "engine reconciler", "compensation authorised"),
        ("partially_applied", "compensating", "engine reconciler", "compensation authorised"),
        ("partially_applied", "succeeded needs_human", "reconciler", "the rest was done, or a person decides"),
        ("compensating", "compensated compensation_failed", "owner engine", "the compensation ended"),
        ("needs_human", "succeeded absent compensating written_off", "reconciler", "a repair only"),
        ("compensation_failed", "succeeded absent compensating written_off", "reconciler", "a repair only"),
    ),
)

STEP_STATUSES = "waiting queued running hold succeeded failed killed skipped mark_successed unknown".split()
STEP_ENDED = frozenset({"succeeded", "failed", "killed", "skipped", "mark_successed"})
STEP_ENTRY = ("waiting", "queued", "hold", "skipped")
SKIP_CAUSES = ("user", "branch", "rejected", "upstream_failed", "or_lost", "cancelled", "deadline")


def guard_pairs(table: dict[tuple[str, str], Move]) -> list[str]:
    """Return ``source>target`` of every move a row may make in place, sorted; reruns make a new row instead."""
    pairs = set(table)
    if table is STEP:
        pairs -= {(source, "queued") for source in RERUN_SOURCES}
    return sorted(f"{source}>{target}" for source, target in pairs)


def rows() -> list[tuple[str, str, str, str, str]]:
    """Return the whole law as (subject, source, target, by, why), in a stable order."""
    return [
        (move.subject, move.source, move.target, " ".join(sorted(move.by)), move.why)
        for table in (STEP, RUN, OPERATION)
        for _, move in sorted(table.items())
    ]
