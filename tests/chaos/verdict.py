"""What is counted when it is calm again: nothing lost after a 202, nothing twice in the books, every doubt owned."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import psycopg

ROOT = Path(__file__).resolve().parents[2]
# How a run may end without all that it was asked for.
SHORT = ("partially_completed", "failed", "cancelled")
ENDED = ("completed", *SHORT)
# What leaves nothing outside.
_NOTHING_LEFT = ("compensated", "absent", "refused", "void")
# Workflow → what a run of it is to do outside.
EFFECTS = {"order": ("pay", "ship", "mail"), "deal": ("bill", "book")}
# Among so many deals some have surely been asked about, and some been undone.
_MANY_DEALS = 60

_RUNS = """SELECT r.id::text, r.status, r.reason, r.attention, t.request_key, t.workflow_name, t.id::text
  FROM qd_run r JOIN qd_task t ON t.id = r.task_id WHERE r.tenant_id = %s"""
_OPERATIONS = """SELECT id::text, business_key, status, sends, run_id::text, next_query_at, error FROM qd_operation
  WHERE tenant_id = %s"""
_QUESTIONS = "SELECT coalesce(sum(queries), 0)::int FROM qd_operation WHERE tenant_id = %s"
_OPEN_STEPS = """SELECT s.run_id::text, s.node, s.status, s.cause, s.claimable, s.not_before, s.deps_left, w.ended_at,
  w.end_reason FROM qd_step s LEFT JOIN qd_worker_session w ON w.id = s.worker_session_id
  WHERE s.tenant_id = %s AND s.run_id = ANY(%s::uuid[]) AND NOT s.superseded
    AND s.status NOT IN ('succeeded', 'failed', 'killed', 'skipped', 'mark_successed')"""


def connect(console: Any) -> psycopg.Connection[Any]:
    """Look past the walls: as the embedded server's superuser."""
    return psycopg.connect(console.postgres.admin_url("quarterdeck"), autocommit=True)


def resting(run: tuple[Any, ...]) -> bool:
    """Say whether a run has ended or is in somebody's hands."""
    return run[1] in ENDED or run[1] == "needs_attention"


def wait_for_rest(console: Any, scene: Any, load: Any, seconds: float) -> list[str]:
    """Wait until every run rests; return those that do not, told in words."""
    until = time.monotonic() + seconds
    while True:
        try:
            with connect(console) as connection:
                runs = connection.execute(_RUNS, [scene.tenant_id]).fetchall()
                restless = [run for run in runs if not resting(run)]
                if not restless:
                    return []
                if time.monotonic() > until:
                    return _told(connection, scene, restless)
        except psycopg.OperationalError as problem:
            if time.monotonic() > until:
                return [f"the database does not come back: {problem}"]
        time.sleep(0.5)


def _told(connection: Any, scene: Any, restless: list[tuple[Any, ...]]) -> list[str]:
    steps = defaultdict(list)
    for run_id, *step in connection.execute(_OPEN_STEPS, [scene.tenant_id, [run[0] for run in restless]]):
        steps[run_id].append(" ".join(str(part) for part in step))
    return [f"run {run[0]} ({run[5]} {run[4]}) is {run[1]}: {steps[run[0]]}" for run in restless]


def judge(console: Any, scene: Any, load: Any, shop: Any, unrested: list[str]) -> dict[str, Any]:
    """Count everything; return facts and ``breaches``."""
    with connect(console) as connection:
        runs = {run[0]: run for run in connection.execute(_RUNS, [scene.tenant_id]).fetchall()}
        operations = connection.execute(_OPERATIONS, [scene.tenant_id]).fetchall()
        [(questions,)] = connection.execute(_QUESTIONS, [scene.tenant_id]).fetchall()
    effects = shop.effects()
    breaches = [f"not at rest: {one}" for one in unrested]
    breaches += _lost(load, runs)
    breaches += _books(runs, operations, effects)
    breaches += _untold(load, runs, effects)
    if len(effects) < len(load.accepted):
        breaches.append(f"only {len(effects)} effects of {len(load.accepted)} accepted orders: too little was proved")
    undone = sum(operation[2] == "compensated" for operation in operations)
    if sum(run[5] == "deal" for run in runs.values()) >= _MANY_DEALS and not (questions and undone):
        breaches.append(f"{questions} questions and {undone} effects undone: too little was proved")
    invariants = _invariants()
    breaches += [
        f"invariant {one['number']} ({one['name']}): {one['breaches']}" for one in invariants if one["ok"] is False
    ]
    doubts = [one for one in operations if one[2] in ("unknown", "needs_human", "sent", "intended")]
    return {
        "breaches": breaches,
        "asked": len(load.keys),
        "accepted": len(load.accepted),
        "answers": load.refusals,
        "cancels": load.cancelled,
        "runs": dict(Counter(run[1] for run in runs.values())),
        "operations": dict(Counter(one[2] for one in operations)),
        "effects": len(effects),
        "without_effect": dict(Counter(run[1] for _key, run in missing(load, runs, effects) if run)),
        "doubts": len(doubts),
        "questions": questions,
        "undone": undone,
        "invariants": {one["number"]: one["ok"] for one in invariants},
    }


def _lost(load: Any, runs: dict[str, tuple[Any, ...]]) -> list[str]:
    """Find what a 202 promised and is not there, and keys that made more than one task."""
    found = [f"one key, two answers: {one}" for one in load.conflicts]
    for order, (task_id, run_id) in load.accepted.items():
        run = runs.get(run_id)
        if run is None or run[6] != task_id or run[4] != order:
            found.append(f"accepted and lost: {order} → task {task_id}, run {run_id}")
    by_key = Counter(run[4] for run in runs.values())
    found += [f"{count} tasks under the key {key}" for key, count in by_key.items() if count > 1]
    found += [f"nobody asked for {key}" for key in by_key if key not in load.keys]
    return found


def _books(runs: dict[str, tuple[Any, ...]], operations: list[Any], effects: list[dict[str, Any]]) -> list[str]:
    """Hold the ledger against the shop's books, key by key."""
    found = []
    found += _standing(runs, operations)
    by_operation = Counter(entry["key"] for entry in effects)
    by_business = Counter(
        f"{entry['path'].split('?')[0].rsplit('/', 1)[-1]}:{entry['body']['order']}" for entry in effects
    )
    known = {operation[0] for operation in operations}
    found += [f"{key} was done {count} times" for key, count in by_business.items() if count > 1]
    found += [f"an effect under an unknown operation: {key}" for key in by_operation if key not in known]
    wanted: dict[str, set[str]] = defaultdict(set)
    for operation_id, key, status, sends, run_id, next_query_at, _error in operations:
        run, done = runs[run_id], by_operation[operation_id]
        wanted[run_id].add(key)
        where = f"{key}: {status}, sends {sends}, in the books {done} times, run {run_id} {run[1]}"
        if status in ("succeeded", "compensated") and done != 1:
            found.append(f"succeeded without its effect: {where}")
        if status in ("refused", "absent", "void") and done:
            found.append(f"denied but done: {where}")
        if status in ("intended", "sent"):
            found.append(f"under way for ever: {where}")
        owned = run[1] == "needs_attention" and _owned(run[3])
        if status in ("unknown", "needs_human") and not owned and next_query_at is None:
            found.append(f"a doubt without an owner: {where}")
        if run[1] == "completed" and status not in ("succeeded", "compensated"):
            found.append(f"completed without its effect: {where}")
    for run in runs.values():
        asked = EFFECTS.get(run[5], ())
        if run[1] == "completed" and asked and len(wanted[run[0]]) != len(asked):
            found.append(f"completed, but of its effects the ledger knows {sorted(wanted[run[0]])}: run {run[0]}")
        if run[1] == "needs_attention" and not _owned(run[3]):
            found.append(f"needs attention of nobody: run {run[0]} {run[3]}")
    return found


def _standing(runs: dict[str, tuple[Any, ...]], operations: list[Any]) -> list[str]:
    """Find effects of deals that failed and that were not undone."""
    failed = [one for one in operations if runs[one[4]][5] == "deal" and runs[one[4]][1] == "failed"]
    left = [one for one in failed if one[2] not in _NOTHING_LEFT and not one[1].startswith("undo:")]
    return [f"not undone although its deal failed: {one[1]}: {one[2]}, run {one[4]}" for one in left]


def missing(load: Any, runs: dict[str, tuple[Any, ...]], effects: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    """Return (business key, run) of what accepted orders ask for and the shop's books do not have."""
    there = {f"{entry['path'].split('?')[0].rsplit('/', 1)[-1]}:{entry['body']['order']}" for entry in effects}
    orders = [(order, runs.get(run_id)) for order, (_task, run_id) in load.accepted.items()]
    asked = [
        (f"{what}:{order}", run)
        for order, run in orders
        for what in EFFECTS.get("order" if run is None else run[5], ())
    ]
    return [(key, run) for key, run in asked if key not in there]


def _untold(load: Any, runs: dict[str, tuple[Any, ...]], effects: list[dict[str, Any]]) -> list[str]:
    """Find keys without their effect whose run does not say so: it ended short of it, or somebody owns it."""
    found = []
    for key, run in missing(load, runs, effects):
        told = run is not None and (run[1] in SHORT or (run[1] == "needs_attention" and _owned(run[3])))
        if not told:
            found.append(f"not done, and nothing tells of it: {key}, run {run and run[:2]}")
    return found


def _owned(attention: Any) -> bool:
    return bool(attention) and all(attention.get(name) for name in ("owner", "evidence", "due"))


def _invariants() -> list[dict[str, Any]]:
    answer = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "invariants", "--sample", "100000"],
        env={**os.environ, "QUARTERDECK_DB_ROLE": "worker"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    try:
        return json.loads(answer.stdout)
    except ValueError:
        return [{"number": 0, "name": "the check itself", "ok": False, "breaches": answer.stderr[-2000:]}]
