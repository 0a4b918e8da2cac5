"""Samples of a tool version: kept, checked against its adapter, and signed for its contract (C8.8).

A version whose contract says ``samples: required`` is not called before its samples are signed for exactly this
contract. Its next version has another contract, so it is not called before they are signed anew.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

from runtime.access import verbs as v
from runtime.access.authorize import authorize
from runtime.actions.base import CONTROL_CHANNEL, WORK_CHANNEL, check_reason
from runtime.actions.stops import STOPS_CHANGED
from runtime.journal import audit
from runtime.kernel.actor import Actor
from runtime.kernel.canonical import canonical_bytes, digest, loads
from runtime.kernel.errors import BadInput, Conflict, NotFound
from runtime.kernel.ids import uuid7
from runtime.models import ToolSample, ToolSignature, ToolVersion
from runtime.store.tx import Tx, tenant_tx
from runtime.tools.contract import ToolContract, check_contract
from runtime.tools.recordings import check_played, check_sample, read_recording, wanted_kinds, why_unfit

MOST_SAMPLES, MOST_AT_ONCE = 200, 50


class SamplesUnfit(Conflict):
    """The samples do not stand for what the contract promises: nothing is signed."""

    code, title = "samples_unfit", "The samples do not fit"
    remediation = "Read `checks` and `missing`: correct the contract as another version, or record what is missing."


class SampleExists(Conflict):
    """A recording of that name is there with other content."""

    code, title = "sample_exists", "A recording is never changed"
    remediation = "Give the new recording a name of its own."


def add_samples(*, actor: Actor, name: str, version: int, samples: Any) -> dict[str, Any]:
    """Keep recordings of what a version answers, each {name, kind, recording, expect}; at most 50 at once, 200 in all.

    The same again changes nothing. Returns {tool, added, kept}. Raises BadInput with the place, NotFound, SampleExists,
    PermissionDenied. Verb ``tool.register``.
    """
    authorize(actor, v.TOOL_REGISTER)
    if not isinstance(samples, list) or not 0 < len(samples) <= MOST_AT_ONCE:
        mend = "Send a list under `samples`."
        raise BadInput(f"Between 1 and {MOST_AT_ONCE} samples are kept at once.", where="/samples", remediation=mend)
    with tenant_tx(actor.tenant_id) as tx:
        version_id, contract = _locked(tx, name, version)
        checked = [check_sample(contract, one, f"/samples/{at}") for at, one in enumerate(samples)]
        there = _samples(version_id)
        held = {one.name: one.sha256 for one in there}
        now, rows = tx.now(), []
        for at, (one, (recording, sha256)) in enumerate(zip(samples, checked, strict=True)):
            if one["name"] in held:
                if bytes(held[one["name"]]) != sha256:
                    where = f"/samples/{at}/name"
                    raise SampleExists(f"{one['name']!r} is recorded with other content.", where=where)
                continue
            held[one["name"]] = sha256
            rows.append(
                ToolSample(
                    id=uuid7(), tenant_id=actor.tenant_id, tool_version_id=version_id, name=one["name"],
                    kind=one["kind"], recording=recording, expected=one["expect"], sha256=sha256,
                    recorded_by=actor.label, recorded_at=now,
                )
            )  # fmt: skip
        _bound(contract, [*there, *rows])
        _keep(tx, actor, f"{name}@{version}", rows)
    return {"tool": f"{name}@{version}", "added": len(rows), "kept": len(held)}


def _bound(contract: ToolContract, rows: list[ToolSample], where: str = "/samples") -> None:
    """Raise BadInput when these are more recordings than a version keeps, or more than is played at once."""
    if len(rows) > MOST_SAMPLES:
        mend = "Register another version for what changed."
        raise BadInput(f"A version keeps at most {MOST_SAMPLES} recordings.", where=where, remediation=mend)
    check_played(contract, [bytes(one.recording) for one in rows])


def _keep(tx: Tx, actor: Actor, tool: str, rows: list[ToolSample]) -> None:
    if not rows:
        return
    ToolSample.objects.bulk_create(rows)
    hashes = {one.name: bytes(one.sha256).hex() for one in rows}
    _record(tx, actor, tool, "recorded", "", {"samples": hashes})


def check_samples(*, actor: Actor, name: str, version: int) -> dict[str, Any]:
    """Read every recording of a version as a live answer would be read, and tell whether it is what it stands for.

    Returns {tool, contract_sha256, samples_sha256, passed, missing, checks: [{name, kind, expected, found, passed,
    why}]}; ``missing`` are the kinds without a recording. Nothing is called or written. Raises NotFound,
    PermissionDenied. Verb ``tool.register``: playing recordings is work, and it is for whoever signs them.
    """
    authorize(actor, v.TOOL_REGISTER)
    with tenant_tx(actor.tenant_id):
        version_id, contract = _version(name, version)
        rows = _samples(version_id)
    return _checked(contract, rows)


def sign_samples(
    *, actor: Actor, name: str, version: int, reason: str, taken_from: int | None = None
) -> dict[str, Any]:
    """Sign a version's samples for its contract, once all pass and no kind is missing; held calls then go on.

    ``taken_from`` is another version whose recordings are taken over first, those of new names: how a changed contract
    is signed anew. Returns what a check answers with, and {signed_by, signed_at, replayed}; the same contract and
    samples again are signed already. Raises SamplesUnfit with ``checks`` and ``missing``, NotFound, BadInput, Conflict
    when recordings came meanwhile, PermissionDenied. Verb ``tool.register``.
    """
    text = check_reason(reason, required=True)
    authorize(actor, v.TOOL_REGISTER)
    with tenant_tx(actor.tenant_id):
        version_id, contract = _version(name, version)
        rows, taken = _samples(version_id), []
        if taken_from is not None:
            known = {one.name for one in rows}
            taken = [one for one in _samples(_version(name, taken_from)[0]) if one.name not in known]
            _bound(contract, [*rows, *taken], "/taken_from")
    # In no transaction: reading recordings may take a while.
    told = _checked(contract, [*rows, *taken])
    if not told["passed"]:
        raise SamplesUnfit(_summary(told), checks=told["checks"][:50], missing=told["missing"])
    with tenant_tx(actor.tenant_id) as tx:
        _locked(tx, name, version)
        if [one.id for one in _samples(version_id)] != [one.id for one in rows]:
            raise Conflict("Recordings came meanwhile.", remediation="Check them again, then sign.")
        now, digests = tx.now(), {"contract_sha256": contract.digest, "samples_sha256": _digest([*rows, *taken])}
        there = ToolSignature.objects.filter(tool_version_id=version_id, **digests).order_by("-id").first()
        if there is not None:
            return {**told, "signed_by": there.signed_by, "signed_at": there.signed_at, "replayed": True}
        for one in taken:
            one.id, one.tool_version_id, one.recorded_by, one.recorded_at = uuid7(), version_id, actor.label, now
        ToolSample.objects.bulk_create(taken)
        signed = ToolSignature.objects.create(
            id=uuid7(), tenant_id=actor.tenant_id, tool_version_id=version_id, samples=len(rows) + len(taken),
            reason=text, signed_by=actor.label, signed_at=now, **digests,
        )  # fmt: skip
        tx.notify(CONTROL_CHANNEL, STOPS_CHANGED)
        tx.notify(WORK_CHANNEL)
        hashes = {key: value.hex() for key, value in digests.items()}
        _record(tx, actor, contract.reference, "signed", text, {**hashes, "taken_from": taken_from})
    return {**told, "signed_by": signed.signed_by, "signed_at": now, "replayed": False}


def _checked(contract: ToolContract, rows: list[ToolSample]) -> dict[str, Any]:
    checks = []
    for one in rows:
        found = read_recording(contract, loads(bytes(one.recording)))
        why = why_unfit(contract, one.kind, one.expected, found)
        checks.append(
            {"name": one.name, "kind": one.kind, "expected": one.expected, "found": found, "passed": why is None,
             "why": why}
        )  # fmt: skip
    missing = [kind for kind in wanted_kinds(contract) if kind not in {one.kind for one in rows}]
    return {
        "tool": contract.reference,
        "contract_sha256": contract.digest.hex(),
        "samples_sha256": _digest(rows).hex(),
        "passed": not missing and all(one["passed"] for one in checks),
        "missing": missing,
        "checks": checks,
    }


def _summary(told: dict[str, Any]) -> str:
    failed = [one for one in told["checks"] if not one["passed"]]
    if failed:
        return f"{failed[0]['name']}: {failed[0]['why']}" + (f" ({len(failed)} in all)" if len(failed) > 1 else "")
    return f"Nothing is recorded of: {', '.join(told['missing'])}."


def _digest(rows: list[ToolSample]) -> bytes:
    """Return the hash of a set of samples: of their names and hashes, in the order of the names."""
    return digest(canonical_bytes(sorted([one.name, bytes(one.sha256).hex()] for one in rows)))


def _samples(version_id: uuid.UUID) -> list[ToolSample]:
    return list(ToolSample.objects.filter(tool_version_id=version_id).order_by("id"))


def _version(name: str, version: int) -> tuple[uuid.UUID, ToolContract]:
    row = ToolVersion.objects.filter(name=name, number=version).values_list("id", "contract").first()
    if row is None:
        raise NotFound(f"There is no tool {name[:120]}@{version} in this tenant.")
    return row[0], check_contract(json.loads(bytes(row[1])), builtin=True)


def _locked(tx: Tx, name: str, version: int) -> tuple[uuid.UUID, ToolContract]:
    """Return the version under lock: recordings and signatures of it are written one after the other."""
    tx.one("lock_tool", (name, version))
    return _version(name, version)


def _record(tx: Tx, actor: Actor, tool: str, result: str, reason: str, details: dict[str, Any]) -> None:
    audit.record(
        tx,
        actor=actor,
        verb=v.TOOL_REGISTER,
        subject_kind="tool",
        subject_id=tool,
        result=result,
        reason=reason,
        details={"tool": tool, **details},
    )
