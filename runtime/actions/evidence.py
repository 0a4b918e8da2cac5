"""What a run left behind becomes Evidence when a verdict cites it; whose it is and its hash are looked at (A2.4)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

import orjson

from runtime.kernel.actor import Actor
from runtime.kernel.canonical import canonical_bytes, digest
from runtime.kernel.conf import conf
from runtime.kernel.errors import Conflict, NotFound, NotIntact
from runtime.kernel.ids import uuid7
from runtime.store.results import store_results
from runtime.store.tx import Tx

Kind = Literal["evidence", "artifact", "operation", "checkpoint"]
# Sources whose content is a reference to an artifact instead of the content itself; no tool has such a name.
_ARTIFACT, _IN_ARTIFACT = "artifact:", ":artifact"
_QUERIES = {
    "evidence": "evidence_for_evidence",
    "operation": "operation_for_evidence",
    "checkpoint": "checkpoint_for_evidence",
}


@dataclass(frozen=True, slots=True)
class Reference:
    """What a verdict cites: evidence that is there, an artifact, an operation's answer, or the checkpoint of a step
    (``id`` is the step's). ``sha256`` is the hash of what the verifier looked at, None where they do not say."""

    kind: Kind
    id: uuid.UUID
    sha256: bytes | None = None


@dataclass(frozen=True, slots=True)
class _Found:
    """A thing of the task: its hash, whether it has it, and its content; None where that stays in ``artifact_id``."""

    run_id: uuid.UUID
    step_id: uuid.UUID | None
    observed_at: datetime
    sha256: bytes
    intact: bool
    content: bytes | None
    artifact_id: uuid.UUID | None = None


def cite(
    tx: Tx, *, actor: Actor, task_id: uuid.UUID, run_id: uuid.UUID, criterion: str, references: Sequence[Reference]
) -> list[uuid.UUID]:
    """Return the ids of the evidence that ``references`` name, in their order, each once.

    Evidence that is there is compared with its hash. Of anything else a snapshot is written: the content itself, or
    {artifact_id, sha256} where it is an artifact or too large for a row. Raises NotFound (not of this task; ids of
    others are answered the same), NotIntact (what is stored, or what was looked at, has another hash), Conflict
    (there is no content, or no more), each with ``where`` /evidence/i.
    """
    wanted = list(dict.fromkeys(references))
    found = {kind: _find(tx, actor, task_id, run_id, kind, wanted) for kind in {one.kind for one in wanted}}
    cited: list[uuid.UUID] = []
    for index, one in enumerate(wanted):
        where = f"/evidence/{index}"
        thing = found[one.kind].get(one.id)
        if thing is None:
            raise NotFound(f"This task has no such {one.kind}.", where=where)
        _check(one, thing, where)
        cited.append(one.id if one.kind == "evidence" else _snapshot(tx, task_id, criterion, one, thing))
    return list(dict.fromkeys(cited))


def _find(
    tx: Tx, actor: Actor, task_id: uuid.UUID, run_id: uuid.UUID, kind: Kind, wanted: Iterable[Reference]
) -> dict[uuid.UUID, _Found]:
    """Return what there is of a kind, by id; the others are not this task's."""
    ids = sorted(one.id for one in wanted if one.kind == kind)
    if kind == "artifact":
        return _find_artifacts(tx, actor, task_id, run_id, ids)
    found = {}
    for name, of_run, step_id, at, sha256, intact, content, artifact_id, source in tx.rows(
        _QUERIES[kind], (task_id, ids)
    ):
        body = None if content is None else bytes(content)
        one = _Found(of_run, step_id, at, bytes(sha256 or b""), intact is not False, body, artifact_id)
        found[name] = _referred(one) if source.startswith(_ARTIFACT) or source.endswith(_IN_ARTIFACT) else one
    return _with_artifacts(tx, found)


def _find_artifacts(
    tx: Tx, actor: Actor, task_id: uuid.UUID, run_id: uuid.UUID, ids: list[uuid.UUID]
) -> dict[uuid.UUID, _Found]:
    """Return the task's artifacts, which expire no more; one that has expired meanwhile has no content."""
    rows = tx.rows("artifacts_for_evidence", {"ids": ids, "task": task_id, "by": actor.label})
    kept = {row[0] for row in tx.rows("keep_artifacts", (sorted(row[0] for row in rows),))}
    return {
        name: _Found(run_id, None, at, bytes(sha256), intact is True, None, name if name in kept else None)
        for name, at, sha256, intact in rows
    }


def _referred(one: _Found) -> _Found:
    """Return evidence as what its content refers to; one that is damaged stays as it is."""
    if not one.intact or one.content is None:
        return one
    value = orjson.loads(one.content)
    sha256, artifact_id = bytes.fromhex(value["sha256"]), uuid.UUID(value["artifact_id"])
    return replace(one, sha256=sha256, content=None, artifact_id=artifact_id)


def _with_artifacts(tx: Tx, found: dict[uuid.UUID, _Found]) -> dict[uuid.UUID, _Found]:
    """Compare contents that are kept as artifacts with the hashes they are cited by."""
    ids = sorted({one.artifact_id for one in found.values() if one.artifact_id is not None})
    held = {row[0]: row[1:] for row in tx.rows("artifacts_intact", (ids,))} if ids else {}
    for name, one in found.items():
        if one.artifact_id is not None:
            sha256, intact = held.get(one.artifact_id, (b"", None))
            good = intact is True and bytes(sha256) == one.sha256
            found[name] = replace(one, intact=good, artifact_id=None if intact is None else one.artifact_id)
    return found


def _check(one: Reference, thing: _Found, where: str) -> None:
    if thing.content is None and thing.artifact_id is None:
        raise Conflict(
            f"The {one.kind} has no content, or has none any more.",
            where=where,
            remediation="Cite what was stored of it elsewhere, or record `undecided`.",
        )
    if not thing.intact:
        raise NotIntact(f"What is stored of the {one.kind} does not have its hash.", where=where)
    if one.sha256 is not None and one.sha256 != thing.sha256:
        raise NotIntact(
            f"The {one.kind} has another hash than the one that was sent.",
            where=f"{where}/sha256",
            remediation="Look at it again, and send the hash of what is there.",
        )


def _snapshot(tx: Tx, task_id: uuid.UUID, criterion: str, one: Reference, thing: _Found) -> uuid.UUID:
    """Write a piece of evidence and return its id."""
    content, artifact_id, source = thing.content, thing.artifact_id, f"{one.kind}:{one.id}"
    if content is not None and len(content) > conf().inline_result_bytes:
        artifact_id, content = store_results(tx, {thing.sha256: content})[thing.sha256], None
    if content is None:
        content = canonical_bytes({"artifact_id": str(artifact_id), "sha256": thing.sha256.hex()})
        source += "" if one.kind == "artifact" else _IN_ARTIFACT
    evidence_id = uuid7()
    tx.send(
        "verdict_insert_evidence",
        (
            evidence_id, tx.tenant_id, task_id, thing.run_id, thing.step_id, criterion, source, content,
            digest(content), thing.observed_at,
        ),
    )  # fmt: skip
    return evidence_id
