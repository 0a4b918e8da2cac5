"""The manifest of a run: a hash over workflow, tools, policy and code version, bound when the run is created (C4.8)."""

from __future__ import annotations

import hashlib
import json
import tomllib
import uuid
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import orjson
from django.apps import apps

from runtime.graph.plan import Plan
from runtime.kernel import seams
from runtime.kernel.canonical import canonical_bytes, digest
from runtime.kernel.classes import WorkClass
from runtime.kernel.errors import InvalidWorkflow
from runtime.kernel.ids import uuid7
from runtime.queries.base import parsed
from runtime.queries.classes import classes_of
from runtime.store.tx import Tx

# What is in force in a tenant: (name of a policy, text that stands for its content), by name.
Policies: TypeAlias = tuple[tuple[str, str], ...]

_bound: dict[tuple[uuid.UUID, Policies], uuid.UUID] = {}
_pools: dict[uuid.UUID, Mapping[str, str]] = {}
_scopes: dict[uuid.UUID, dict[str, list[str]]] = {}


_ROOT = Path(__file__).resolve().parents[2]


def executed_files() -> list[Path]:
    """Return the files whose content decides what a run does: those of every app, since upper ones gate and repair."""
    homes = [path for app in apps.get_app_configs() if (path := Path(app.path)).parent == _ROOT]
    return sorted(path for home in homes for kind in ("*.py", "*.sql") for path in home.rglob(kind))


@cache
def code_version() -> str:
    """Return the version of the code that runs: the project's, and a hash over what is executed (C4.8)."""
    seen = hashlib.sha256()
    for path in executed_files():
        seen.update(str(path.relative_to(_ROOT)).encode() + b"\0" + path.read_bytes())
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    return f"{project['version']}+{seen.hexdigest()[:12]}"


def clock_and_policies(tx: Tx) -> tuple[datetime, Policies, dict[str, WorkClass]]:
    """Return ``qd_now()``, what is in force in the tenant and its classes of work; call it after the locks are held.

    One round trip. What is in force is what bounds the tenant's tools (``bounds``: regions, scopes) and what upper apps
    registered; what is not set is left out. A manifest carries versions and digests alone: what a policy holds is not
    told to all who read a run.
    """
    asked = {"bounds": "policy_sha256", **seams.policies()}
    with tx.pipeline():
        clock = tx.send("now")
        answers = {name: tx.send(query) for name, query in sorted(asked.items())}
        settings = tx.send("read_settings", (tx.tenant_id,))
    now = clock.fetchone()
    assert now is not None
    rows = ((name, answer.fetchone()) for name, answer in answers.items())
    in_force = tuple((name, row[0]) for name, row in rows if row is not None)
    said = settings.fetchone()
    return now[0], in_force, classes_of(parsed(said[0]) if said is not None else {})


def split_reference(reference: str) -> tuple[str, int]:
    """Split ``name@version``; registration has checked the form."""
    name, _, number = reference.rpartition("@")
    return name, int(number)


def manifest_of(
    tx: Tx, workflow_version_id: uuid.UUID, spec_sha256: bytes, plan: Plan, policies: Policies
) -> uuid.UUID:
    """Return the id of the manifest for a new run under ``policies``, written once per content.

    Raises InvalidWorkflow.
    """
    if (known := _bound.get((workflow_version_id, policies))) is not None:
        return known
    references = sorted(plan.tools)
    names, numbers = zip(*map(split_reference, references), strict=True) if references else ((), ())
    rows = tx.rows("tools_by_name", (list(names), list(numbers)))
    found = {f"{row[1]}@{row[2]}": bytes(row[4]).hex() for row in rows}
    # What undoes an effect is bound with the run as well; a contract may name it where the workflow does not.
    undoing = {json.loads(bytes(row[3])).get("compensation") for row in rows} - {None, *found}
    if undoing:
        more, versions = zip(*map(split_reference, sorted(undoing)), strict=True)
        rows = tx.rows("tools_by_name", (list(more), list(versions)))
        found |= {f"{row[1]}@{row[2]}": bytes(row[4]).hex() for row in rows}
    if missing := [r for r in references if r not in found]:
        raise InvalidWorkflow(f"Tools are not registered: {', '.join(missing)}.", where="/nodes")
    body = canonical_bytes(
        {
            "workflow_version": str(workflow_version_id),
            "workflow_sha256": spec_sha256.hex(),
            "tools": found,
            "policy": dict(policies),
            "code_version": code_version(),
        }
    )
    sha256 = digest(body)
    tx.send("insert_manifest", (uuid7(), tx.tenant_id, sha256, body))
    row = tx.one("manifest_by_content", (sha256,))
    assert row is not None
    # Bound only for versions that are committed: a rolled back registration must not leave an id behind.
    if len(_bound) > 4096:
        _bound.clear()
    _pending(tx, (workflow_version_id, policies), row[0])
    return row[0]


def tool_pools(tx: Tx, workflow_version_id: uuid.UUID, plan: Plan) -> Mapping[str, str]:
    """Return the pools that tools of a workflow ask for in their contracts, by reference; versions never change."""
    found = _pools.get(workflow_version_id)
    if found is None:
        pools = {tool: one.get("pool", "default") for tool, one in _contracts(tx, plan).items()}
        found = {tool: pool for tool, pool in pools.items() if pool != "default"}
        if len(_pools) > 4096:
            _pools.clear()
        _pools[workflow_version_id] = found
    return found


def tool_scopes(tx: Tx, workflow_version_id: uuid.UUID, plan: Plan) -> dict[str, list[str]]:
    """Return the scopes that tools of a workflow ask for in their contracts, by reference; versions never change."""
    found = _scopes.get(workflow_version_id)
    if found is None:
        found = {tool: one.get("scopes", []) for tool, one in _contracts(tx, plan).items()}
        if len(_scopes) > 4096:
            _scopes.clear()
        _scopes[workflow_version_id] = found
    return found


def _contracts(tx: Tx, plan: Plan) -> dict[str, dict[str, Any]]:
    names, numbers = zip(*map(split_reference, sorted(plan.tools)), strict=True) if plan.tools else ((), ())
    rows = tx.rows("tools_by_name", (list(names), list(numbers)))
    return {f"{row[1]}@{row[2]}": orjson.loads(bytes(row[3])) for row in rows}


def _pending(tx: Tx, bound_to: tuple[uuid.UUID, Policies], manifest_id: uuid.UUID) -> None:
    from django.db import transaction

    transaction.on_commit(lambda: _bound.__setitem__(bound_to, manifest_id), using=tx.using)
