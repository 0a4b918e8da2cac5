"""The tool registry of a tenant: immutable versions in the database, contracts cached in the process (C3.1)."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any

from runtime.access.authorize import authorize
from runtime.journal import audit
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, Conflict, NotFound
from runtime.kernel.ids import uuid7
from runtime.store.tx import Tx, tenant_tx
from runtime.tools.commands import command_allowed, foreign_secrets
from runtime.tools.contract import ToolContract, check_contract, parse_reference


@dataclass(frozen=True, slots=True)
class RegisteredTool:
    """A contract and the id of the row that holds it; ``unsigned``: no call of it before its samples are signed."""

    id: uuid.UUID
    contract: ToolContract
    unsigned: bool = False


_cache: dict[tuple[uuid.UUID | None, str], RegisteredTool] = {}


def register_tool(*, actor: Actor, contract: dict[str, Any], builtin: bool = False) -> dict[str, Any]:
    """Register one version of a tool; the same content again answers the same row.

    Raises BadInput naming each wrong place, Conflict when this version exists with other content, PermissionDenied.
    """
    authorize(actor, "tool.register")
    checked = check_contract(contract, builtin=builtin)
    _check_command(checked)
    with tenant_tx(actor.tenant_id) as tx:
        _check_secrets(tx, checked)
        row = tx.one(
            "insert_tool_version",
            (
                uuid7(),
                actor.tenant_id,
                checked.name,
                checked.version,
                checked.canonical,
                checked.digest,
                checked.side_effect,
                checked.recovery,
                actor.label,
            ),
        )
        created = row is not None
        _bound(tx, actor, checked)
        if row is None:
            held = tx.rows("tools_by_name", ([checked.name], [checked.version]))[0]
            if bytes(held[4]) != checked.digest:
                raise Conflict(
                    f"Tool {checked.reference} exists with another contract; a version is never changed.",
                    where="/version",
                    remediation=f"Register it as version {checked.version + 1}.",
                )
            row = held
        else:
            audit.record(
                tx,
                actor=actor,
                verb="tool.register",
                subject_kind="tool",
                subject_id=str(row[0]),
                result="registered",
                details={"tool": checked.reference, "sha256": checked.digest.hex()},
            )
    return {"tool_version_id": str(row[0]), "name": checked.name, "version": checked.version, "created": created}


def _bound(tx: Tx, actor: Actor, contract: ToolContract) -> None:
    """Make a limit of what the contract says about its rate and concurrency (C2.7)."""
    rate = contract.rate_limit
    if rate is not None:
        tx.send(
            "put_limit",
            {
                "id": uuid7(), "tenant": tx.tenant_id, "scope": "tool", "name": contract.reference,
                "origin": "contract", "most": rate.get("concurrency"), "calls": rate.get("calls"),
                "per_s": rate.get("per_s"), "reason": "", "by": actor.label,
                "expected": None, "stands": True,
            },
        )  # fmt: skip


def _check_command(contract: ToolContract) -> None:
    """A stdio server runs as the worker's own user, so the installation says which programs may be started (C7.7)."""
    command = contract.config.get("command") if contract.adapter == "mcp" else None
    if command is not None and not command_allowed(command):
        raise BadInput(
            f"The program {command!r} may not be started here.",
            where="/config/command",
            remediation="Whoever runs the installation adds it to QUARTERDECK_MCP_COMMANDS.",
        )


def _check_secrets(tx: Tx, contract: ToolContract) -> None:
    """A secret in the worker's environment is one tenant's: another tenant's tool must not carry it away (C7.6)."""
    slug = str(tx.one("own_slug")[0])  # type: ignore[index]
    if foreign := foreign_secrets(contract.config, slug):
        own = f"QUARTERDECK_TOOL_{slug.upper().replace('-', '_')}_…"
        raise BadInput(
            f"The variable {foreign[0]} does not belong to this tenant.",
            where="/config",
            remediation=f"Name the variable {own} and set it for the workers.",
        )


def known_tool(tenant_id: uuid.UUID, reference: str) -> RegisteredTool | None:
    """Return a tool that this process has read before, without asking the database."""
    return _cache.get((tenant_id, reference))


def tool_of(tx: Tx, reference: str) -> RegisteredTool:
    """Return the tenant's registered tool ``name@version``. Raises NotFound."""
    key = (tx.tenant_id, reference)
    found = _cache.get(key)
    if found is None:
        name, number = parse_reference(reference)
        rows = tx.rows("tools_by_name", ([name], [number]))
        if not rows:
            raise NotFound(f"Tool {reference} is not registered.", remediation="Register it with POST tools/.")
        if len(_cache) > 10_000:
            _cache.clear()
        contract = check_contract(json.loads(bytes(rows[0][3])), builtin=True)
        found = RegisteredTool(rows[0][0], contract, _unsigned(tx, contract, rows[0][0]))
        if not found.unsigned:  # what is signed stays so; what is not is asked again
            _cache[key] = found
    return found


def _unsigned(tx: Tx, contract: ToolContract, version_id: uuid.UUID) -> bool:
    """Say whether a version waits for its samples to be signed (C8.8); only those that ask for it are looked up."""
    return contract.samples == "required" and not tx.rows("tool_is_signed", (version_id,))[0][0]


def read_tool(tenant_id: uuid.UUID, reference: str) -> RegisteredTool:
    """Return a tool; one that this process has not read before in a transaction of its own. Raises NotFound."""
    if (found := known_tool(tenant_id, reference)) is not None:
        return found
    with tenant_tx(tenant_id) as tx:
        return tool_of(tx, reference)
