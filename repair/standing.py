"""What a case about no effect stands on now: its messages, its step, its run's effects; read, never changed.

The law says what a kind of case may be closed by (:data:`repair.law.WITHOUT_EFFECT`); here it is said what of that
fits the rows as they are. Pages ask without a lock, the actions ask again under theirs.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from repair.law import COMPENSATE, CONFIRM_ABSENT, RECORD_SUCCESS, RESUME_STEP, WRITE_OFF
from repair.models import Case, Fact
from repair.undoing import why_not_undone
from runtime.graph.plans import plan_of
from runtime.kernel.canonical import loads
from runtime.machine.rows import UNDO_KINDS
from runtime.models import Operation, Quarantined, Run, Step
from runtime.queries.invariants import breaches_of
from runtime.store.tx import Tx, tenant_tx

POISON, BREACH, EFFECTS, ATTENTION = "poison_message", "invariant_breach", "failed_with_effects", "run_attention"
APPLIED = ("succeeded", "partially_applied", "compensation_failed")
_OPEN = ("intended", "sent", "unknown", "needs_human", "partially_applied", "compensation_failed")
MOST_SHOWN = 3


@dataclass(frozen=True, slots=True)
class About:
    """What is asked about: a case's row, or what a page has read of it."""

    id: uuid.UUID
    kind: str
    recovery: str | None
    run_id: uuid.UUID | None
    step_id: uuid.UUID | None

    @classmethod
    def of(cls, case: Case | dict[str, Any]) -> About:
        """Make it of a row or of a page's dictionary."""
        row = case if isinstance(case, dict) else {name: getattr(case, name) for name in cls.__slots__}
        return cls(row["id"], row["kind"], row["recovery"], row["run_id"], row["step_id"])


def why_not_now(tx: Tx, about: About, resolution: str) -> str | None:
    """Return why a permitted resolution of a case about no effect does not fit what is there, one sentence, or None.

    Of a breach nothing is said here: its invariant is searched for when the case is closed (:func:`still_breached`).
    """
    if about.recovery is not None or about.kind == BREACH:
        return None
    if about.kind == POISON:
        return _of_messages(about, resolution)
    if about.kind == EFFECTS:
        return _of_effects(tx, about, resolution)
    if about.kind == ATTENTION:
        return _of_run(about, resolution)
    if about.kind == "stuck" and about.step_id is None:
        return _of_standstill(tx, about, resolution)
    return _of_step(about, resolution)


def told(case_id: uuid.UUID, name: str) -> Any:
    """Return the newest certain value of a fact of the case, None for none."""
    rows = Fact.objects.filter(case_id=case_id, name=name, certain=True).order_by("-id")
    return rows.values_list("value", flat=True).first()


def _of_messages(about: About, resolution: str) -> str | None:
    waits = Quarantined.objects.filter(topic=told(about.id, "topic"), closed_at__isnull=True).exists()
    if resolution == CONFIRM_ABSENT and waits:
        return "Messages of the topic wait in quarantine."
    if resolution in (RESUME_STEP, WRITE_OFF) and not waits:
        return "No message of the topic waits in quarantine any more."
    return None


def _of_step(about: About, resolution: str) -> str | None:
    columns = ("status", "cause", "superseded")
    step = Step.objects.filter(id=about.step_id).values(*columns).first() if about.step_id else None
    if step is None:
        named = resolution in (RECORD_SUCCESS, RESUME_STEP)
        return "The case names no step to resume." if named else None
    held = held_for_recovery(step["status"], step["cause"])
    if resolution == RECORD_SUCCESS and step["status"] not in ("running", "unknown"):
        return "A success is recorded of a step that is unknown; this one is not."
    if about.kind == "by_hand" or step["superseded"]:
        return None
    if about.kind == "version_mismatch" and not held and resolution in (RESUME_STEP, WRITE_OFF):
        return "The step holds no more."
    if resolution == CONFIRM_ABSENT and (held if about.kind == "version_mismatch" else _goes_wrong(step["status"])):
        return "The step is where it was when the case opened."
    return None


def _of_standstill(tx: Tx, about: About, resolution: str) -> str | None:
    """A run that nothing moves is moved by its own verbs; then its case is over."""
    if resolution != CONFIRM_ABSENT:
        return "The case names no step: move or cancel the run itself."
    return None if tx.rows("run_moves", (about.run_id,))[0][0] else "Nothing moves the run yet."


def held_for_recovery(status: str, cause: str | None) -> bool:
    """Whether a step holds because it could not be recovered as it stood."""
    return status == "hold" and cause == "recovery"


def _goes_wrong(status: str) -> bool:
    return status in ("running", "unknown", "failed")


def _of_run(about: About, resolution: str) -> str | None:
    if about.run_id is None:
        return None
    run = Run.objects.filter(id=about.run_id).values("status", "n_unknown").first()
    if run is None or run["status"] != "needs_attention":
        return None
    if run["n_unknown"] or Operation.objects.filter(run_id=about.run_id, status__in=_OPEN).exists():
        return "Something of the run is unknown or open: settle that first."
    if Step.objects.filter(run_id=about.run_id, superseded=False, status="hold", cause="recovery").exists():
        return "A step of the run could not be recovered and holds: settle that first."
    return None


def _of_effects(tx: Tx, about: About, resolution: str) -> str | None:
    if about.run_id is None:
        return None
    if resolution == CONFIRM_ABSENT and applied(about.run_id):
        return "Effects of the run are still applied."
    if resolution == COMPENSATE and not undoable(tx, about.run_id)[0]:
        return "No effect of the run has anything that undoes it by itself."
    return None


def applied(run_id: uuid.UUID) -> list[dict[str, Any]]:
    """Return the run's effects that are there and that nothing undoes yet, the newest first; not what undid others.

    A row: {id, status, business_key, node, by_contract}.
    """
    columns = ("id", "status", "business_key", "step_id", "tool_version__contract")
    rows = list(Operation.objects.filter(run_id=run_id, status__in=APPLIED).order_by("-intended_at").values(*columns))
    steps = {row[0]: row[1:] for row in Step.objects.filter(run_id=run_id).values_list("id", "node", "kind")}
    return [
        {
            **{name: row[name] for name in ("id", "status", "business_key")},
            "node": steps[row["step_id"]][0],
            "by_contract": loads(bytes(row["tool_version__contract"])).get("compensation"),
        }
        for row in rows
        if steps[row["step_id"]][1] not in UNDO_KINDS
    ]


def undoable(tx: Tx, run_id: uuid.UUID) -> tuple[list[uuid.UUID], list[str]]:
    """Return the applied effects that can be undone by an action, newest first, and the keys of those that cannot."""
    rows = applied(run_id)
    version = Run.objects.filter(id=run_id).values_list("workflow_version_id", flat=True).first()
    plan = plan_of(tx, version) if version is not None else None
    can, left = [], []
    for row in rows:
        if row["status"] == "compensation_failed" or why_not_undone(plan, row["node"], row["by_contract"]):
            left.append(row["business_key"])  # what could not be undone has a case of its own
        else:
            can.append(row["id"])
    return can, left


def still_breached(tenant_id: uuid.UUID, facts: dict[str, Any]) -> list[str]:
    """Search again for breaches of the case's invariant, in transactions of its own; returns what was found, [] if it
    holds.

    ``facts`` are {invariant, found}: runs that were found then are folded from their events once more.
    """
    number = facts["invariant"]
    runs = {one for line in facts.get("found") or [] if (one := _uuid(str(line).partition(":")[0])) is not None}
    with tenant_tx(tenant_id):
        known = list(Run.objects.filter(id__in=runs).values_list("id", flat=True)) if number == 3 else []
    found = breaches_of(tenant_id, numbers={number}, runs=known)
    return [f"{row_id}: {problem}"[:300] for _number, rows in found for row_id, problem in rows]


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
