"""The audit of acts: what people and service identities did, and what was denied to them (A10.3, engine.md 9).

One hash chain per tenant. ``sha256 = SHA-256(previous_sha256 + body)`` where ``body`` is the canonical JSON of the
whole entry, its number included; the head row names the newest link. So an edit, a deletion, a reordering or a cut tail
shows, and where. The head's lock is the hottest of a tenant: :func:`record` is a transaction's last statement.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from runtime.kernel.actor import Actor
from runtime.kernel.canonical import canonical_bytes, digest, loads
from runtime.store.tx import Tx, columns_of, tenant_tx

GENESIS = bytes(32)
PAGE = 2_000
_TEXT_LIMITS = {"actor": 200, "verb": 60, "subject_kind": 40, "subject_id": 200, "result": 40}


@dataclass(frozen=True, slots=True)
class Act:
    """One act to be recorded. ``details`` is JSON: what was decided and under which policy, never a secret."""

    verb: str
    subject_kind: str
    subject_id: object
    run_id: uuid.UUID | None = None
    result: str = "done"
    reason: str = ""
    details: dict[str, Any] | None = None


def record(
    tx: Tx,
    *,
    actor: Actor,
    verb: str,
    subject_kind: str,
    subject_id: object,
    run_id: uuid.UUID | None = None,
    result: str = "done",
    reason: str = "",
    details: dict[str, Any] | None = None,
) -> None:
    """Append one act in the caller's transaction. Call it last: it takes the tenant's hottest lock.

    The engine's own moves live in the event ledger: with the engine as actor nothing is written.
    """
    record_many(tx, actor=actor, acts=[Act(verb, subject_kind, subject_id, run_id, result, reason, details)])


def record_many(tx: Tx, *, actor: Actor, acts: Sequence[Act]) -> None:
    """Append several acts of one actor under one lock of the head, in their order. Call it last."""
    if actor.is_engine or not acts:
        return
    if actor.tenant_id != tx.tenant_id:
        raise ValueError("the actor belongs to another tenant than the transaction")
    number, previous, now = _lock_head(tx)
    first, rows = number, []
    for act in acts:
        number += 1
        entry = _entry(tx.tenant_id, number, now, actor, act)
        body = canonical_bytes(entry)
        current = digest(previous + body)
        columns = [entry[name] for name in ("actor", "verb", "subject_kind", "subject_id")]
        rows.append((number, now, *columns, act.run_id, entry["result"], entry["reason"], body, previous, current))
        previous = current
    with tx.pipeline():
        tx.send("audit_insert", (tx.tenant_id, *columns_of(rows, 12)))
        moved = tx.send("audit_move_head", (number, previous, tx.tenant_id, first))
    if moved.rowcount != 1:
        raise RuntimeError("the audit head moved under its lock")


def _lock_head(tx: Tx) -> tuple[int, bytes, datetime]:
    row = tx.one("audit_lock_head", (tx.tenant_id,))
    if row is None:
        tx.send("audit_make_head", (tx.tenant_id, GENESIS))
        row = tx.one("audit_lock_head", (tx.tenant_id,))
        assert row is not None
    # Read after the lock is held, so that times grow with numbers.
    return row[0], bytes(row[1]), tx.now()


def _time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def _entry(tenant_id: uuid.UUID | None, number: int, at: datetime, actor: Actor, act: Act) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "tenant_id": str(tenant_id),
        "number": number,
        "at": _time(at),
        "actor": actor.label,
        "user_id": actor.user_id,
        "token_id": str(actor.token_id) if actor.token_id else None,
        "verb": act.verb,
        "subject_kind": act.subject_kind,
        "subject_id": str(act.subject_id),
        "run_id": str(act.run_id) if act.run_id else None,
        "result": act.result,
        "reason": act.reason,
        "details": act.details,
    }
    for name, limit in _TEXT_LIMITS.items():
        entry[name] = entry[name][:limit]
    return entry


def record_denied(
    actor: Actor, *, verb: str, subject_kind: str, subject_id: object, reason: str = "", details: Any = None
) -> None:
    """Record in a transaction of its own that something was denied: the refused transaction itself is gone.

    What was denied may name anything, such as an address with a NUL: what cannot be stored is written as its escape.
    """
    with tenant_tx(actor.tenant_id) as tx:
        record(
            tx,
            actor=actor,
            verb=verb,
            subject_kind=subject_kind,
            subject_id=_storable(str(subject_id)),
            result="denied",
            reason=_storable(reason),
            details=details,
        )


def _storable(text: str) -> str:
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()


@dataclass(slots=True)
class Report:
    """What :func:`verify` found. ``breaches``: {number, problem}; empty when the chain holds.

    ``head_number`` and ``head_sha256`` name the newest link: kept elsewhere, they prove later that no tail was cut and
    rewritten together with the head.
    """

    tenant_id: uuid.UUID
    entries: int = 0
    head_number: int = 0
    head_sha256: str = GENESIS.hex()
    breaches: list[dict[str, Any]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.breaches

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        return {
            "tenant_id": str(self.tenant_id),
            "ok": self.ok,
            "entries": self.entries,
            "head": {"number": self.head_number, "sha256": self.head_sha256},
            "breaches": self.breaches,
        }


def verify(tenant_id: uuid.UUID, *, using: str = "default", most: int = 100) -> Report:
    """Walk a tenant's chain and return where it is broken; at most ``most`` breaches are listed.

    Entries appended while it walks are left for the next time: the head is read first.
    """
    report = Report(tenant_id)
    with tenant_tx(tenant_id, using=using) as tx:
        head = tx.one("audit_head", (tenant_id,)) or (0, GENESIS)
        report.head_number, report.head_sha256 = head[0], bytes(head[1]).hex()
        walk = _Walk(report, most)
        while rows := tx.dicts("audit_read", (tenant_id, walk.number, head[0], PAGE)):
            for row in rows:
                walk.step(row)
        walk.end(head[0], bytes(head[1]))
        # An entry appended meanwhile is above the head that was read: look again before calling it foreign.
        now = tx.one("audit_head", (tenant_id,)) or (0, GENESIS)
        for (number,) in tx.rows("audit_above", (tenant_id, now[0])):
            walk.breach(number, "the entry lies outside the chain: its number was never given out")
    return report


class _Walk:
    def __init__(self, report: Report, most: int) -> None:
        self.report, self.most = report, most
        self.number, self.sha256 = 0, GENESIS

    def breach(self, number: int, problem: str) -> None:
        if len(self.report.breaches) < self.most:
            self.report.breaches.append({"number": number, "problem": problem})

    def step(self, row: dict[str, Any]) -> None:
        number, body = row["number"], bytes(row["body"])
        self.report.entries += 1
        if number != self.number + 1:
            gap = f"{self.number + 1}" if number == self.number + 2 else f"{self.number + 1} to {number - 1}"
            self.breach(self.number + 1, f"deleted: entry {gap} is missing")
        elif bytes(row["previous_sha256"]) != self.sha256:
            self.breach(number, "its link does not match the entry before it: reordered, replaced or edited")
        if digest(bytes(row["previous_sha256"]) + body) != bytes(row["sha256"]):
            self.breach(number, "edited: the content does not have its hash")
        else:
            for name in _differences(row, body):
                self.breach(number, f"edited: column {name} differs from the hashed content")
        self.number, self.sha256 = number, bytes(row["sha256"])

    def end(self, head_number: int, head_sha256: bytes) -> None:
        if self.number != head_number:
            self.breach(self.number + 1, f"deleted: the chain ends at {self.number}, its head is {head_number}")
        elif self.sha256 != head_sha256:
            self.breach(head_number, "the newest entry is not the one the head names")


def _differences(row: dict[str, Any], body: bytes) -> list[str]:
    entry = loads(body)
    shown = {**row, "at": _time(row["at"]), "run_id": str(row["run_id"]) if row["run_id"] else None}
    names = ("number", "at", "actor", "verb", "subject_kind", "subject_id", "run_id", "result", "reason")
    return [name for name in names if shown[name] != entry.get(name)]
