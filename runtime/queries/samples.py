"""Reads of a tool version's samples: what is recorded of it, and for which contract that was signed (C8.8)."""

from __future__ import annotations

from typing import Any

from runtime.access import verbs as v
from runtime.access.authorize import may
from runtime.kernel.actor import Actor
from runtime.kernel.canonical import loads
from runtime.kernel.errors import NotFound
from runtime.models import ToolSample, ToolSignature, ToolVersion
from runtime.queries.base import reading

_MOST_SIGNATURES = 20


def read_samples(*, actor: Actor, name: str, version: int) -> dict[str, Any]:
    """Return {tool, required, signed, blocked, added, samples, signatures} of one version.

    ``blocked``: its contract asks for samples and none are signed for it, so no call of it starts. ``added`` counts
    recordings newer than the newest signature. A sample: {name, kind, expected, sha256, recorded_by, recorded_at}, and
    ``recording`` for who may read payloads; a signature, newest first: {contract_sha256, samples_sha256, samples,
    reason, signed_by, signed_at}. Raises NotFound. Verb ``tool.read``.
    """
    with reading(actor, v.TOOL_READ):
        tool = ToolVersion.objects.filter(name=name, number=version).first()
        if tool is None:
            raise NotFound(f"There is no tool {name[:120]}@{version} in this tenant.")
        whole = may(actor, v.PAYLOAD_READ)
        samples = [_shown(one, whole) for one in ToolSample.objects.filter(tool_version=tool).order_by("id")]
        found = ToolSignature.objects.filter(tool_version=tool).order_by("-id")[:_MOST_SIGNATURES]
        signatures = [_signed(one) for one in found]
    signed = any(one["contract_sha256"] == bytes(tool.contract_sha256).hex() for one in signatures)
    required = loads(bytes(tool.contract)).get("samples") == "required"
    newest = signatures[0]["signed_at"] if signatures else None
    return {
        "tool": f"{name}@{version}",
        "required": required,
        "signed": signed,
        "blocked": required and not signed,
        "added": sum(newest is None or one["recorded_at"] > newest for one in samples),
        "samples": samples,
        "signatures": signatures,
    }


def unsigned_among(*, actor: Actor, tools: list[dict[str, Any]]) -> set[Any]:
    """Return the ids of those of ``tools``, as they are listed, that are not called for want of a signature.

    Verb ``tool.read``.
    """
    asking = {one["id"]: one["contract_sha256"] for one in tools if one["contract"].get("samples") == "required"}
    if not asking:
        return set()
    with reading(actor, v.TOOL_READ):
        rows = ToolSignature.objects.filter(tool_version_id__in=asking)
        signed = {(row[0], bytes(row[1]).hex()) for row in rows.values_list("tool_version_id", "contract_sha256")}
    return {version_id for version_id, sha256 in asking.items() if (version_id, sha256) not in signed}


def _shown(one: ToolSample, whole: bool) -> dict[str, Any]:
    shown = {
        "name": one.name,
        "kind": one.kind,
        "expected": one.expected,
        "sha256": bytes(one.sha256).hex(),
        "recorded_by": one.recorded_by,
        "recorded_at": one.recorded_at,
    }
    return {**shown, "recording": loads(bytes(one.recording))} if whole else shown


def _signed(one: ToolSignature) -> dict[str, Any]:
    return {
        "contract_sha256": bytes(one.contract_sha256).hex(),
        "samples_sha256": bytes(one.samples_sha256).hex(),
        "samples": one.samples,
        "reason": one.reason,
        "signed_by": one.signed_by,
        "signed_at": one.signed_at,
    }
