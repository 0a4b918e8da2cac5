"""agentbarrier's adapter of Quarterdeck: its runs are tasks, its approvals requests, its effects calls of a tool.

Everything goes through the HTTP API with tokens of a program, an approver and an operator; real workers call the tool.
``approve(id, replacement)`` proposes the replacement, which supersedes the request, and approves that. Started by the
suite's command line, which knows only this class: the addresses and tokens are in the environment.

Where the suite and the product differ the product stays as it is, and this is how the one is told as the other:

- a rejected action fails its step here; a run in which nothing else failed is "completed" there;
- an effect that cannot be told is a step in state unknown with an open run here, an ended run there;
- after a proof of absence the tool is called again by itself here; there that waits for the replay, so the effect does;
- the suite's receipts are taken down by the adapter from the API's answers: the product's own audit has other words;
- a call that is stopped has to say that nothing was applied, else its run waits for a person: the sentinel says so.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from agentbarrier.adapter import AgentAdapter, RunHandle, validate_actions
from agentbarrier.models import (
    ActionRequest,
    AuditEvent,
    AuditReceipt,
    Capability,
    ReconciliationEvidence,
    ReconciliationStatus,
    RunOutcome,
    RunStatus,
    action_digest,
)
from agentbarrier.probe import EffectProbe

from tests.support.barrier_harness import Harness, Known

TOOL, BOOKS = "test.sentinel", "test.sentinel_found"
_EVERY = 0.05
_ENDED = ("completed", "failed", "cancelled")
_RECEIPTS = {
    RunStatus.COMPLETED: AuditEvent.RUN_COMPLETED,
    RunStatus.CANCELLED: AuditEvent.RUN_CANCELLED,
    RunStatus.TIMED_OUT: AuditEvent.RUN_TIMED_OUT,
    RunStatus.UNKNOWN: AuditEvent.RUN_UNKNOWN,
    RunStatus.FAILED: AuditEvent.RUN_FAILED,
}
_RECONCILED = {
    ReconciliationStatus.COMMITTED: AuditEvent.RECONCILIATION_COMMITTED,
    ReconciliationStatus.NOT_COMMITTED: AuditEvent.RECONCILIATION_NOT_COMMITTED,
    ReconciliationStatus.CONFLICT: AuditEvent.RECONCILIATION_CONFLICT,
    ReconciliationStatus.UNAVAILABLE: AuditEvent.RECONCILIATION_UNAVAILABLE,
}


class Api:
    """The HTTP API as one identity sees it."""

    def __init__(self, token: str) -> None:
        self.base, self.token = os.environ["BARRIER_URL"], token

    async def get(self, path: str) -> Any:
        return await asyncio.to_thread(self._send, "GET", path, None, "")

    async def post(self, path: str, body: Any, key: str = "") -> Any:
        return await asyncio.to_thread(self._send, "POST", path, body, key)

    def _send(self, method: str, path: str, body: Any, key: str) -> Any:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        if key:
            headers["Idempotency-Key"] = key
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.base}/api/v1/{path}", data=data, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as refused:
            raise RuntimeError(f"{method} {path}: {refused.code} {refused.read().decode()[:600]}") from None


class Adapter(AgentAdapter):
    """Quarterdeck for agentbarrier."""

    name = "quarterdeck"
    capabilities = frozenset(Capability)

    def __init__(self) -> None:
        self.harness = Harness()
        self.agent, self.approver, self.operator = (
            Api(os.environ[f"BARRIER_{who}"]) for who in ("AGENT", "APPROVER", "OPERATOR")
        )

    async def begin(
        self,
        *,
        run_id: str,
        actions: Sequence[ActionRequest],
        effect: EffectProbe,
        timeout_seconds: float | None = None,
    ) -> RunHandle:
        wanted = validate_actions(actions)
        loop = asyncio.get_running_loop()
        for action in wanted:
            self.harness.known[action.action_id] = Known(action, effect, loop)
        key = hashlib.sha256(" ".join(action.action_id for action in wanted).encode()).hexdigest()[:24]
        workflow = {"format": "quarterdeck/1", "name": f"barrier-{key}", "nodes": self._nodes(wanted)}
        await self.agent.post("workflows/", workflow)
        task: dict[str, Any] = {"workflow": workflow["name"], "input": {}}
        if timeout_seconds is not None:
            task["deadline"] = (datetime.now(UTC) + timedelta(seconds=timeout_seconds)).isoformat()
        handle = Handle(self, run_id, wanted, effect, key, task)
        await handle.submit()
        effect.journal.record_receipt(run_id=run_id, event=AuditEvent.RUN_STARTED)
        return handle

    def _nodes(self, actions: Sequence[ActionRequest]) -> list[dict[str, Any]]:
        """Return the run's graph: what needs people first, then every effect that is still wanted."""
        place = {action.action_id: i for i, action in enumerate(actions)}
        asks: dict[int, list[int]] = {i: [] for i, action in enumerate(actions) if action.requires_approval}
        nodes: list[dict[str, Any]] = []
        for i, action in enumerate(actions):
            over = [i] if i in asks else []
            parent = action.parent_action_id
            while parent is not None:
                over += [place[parent]] if place[parent] in asks else []
                parent = actions[place[parent]].parent_action_id
            for ask in over:
                asks[ask].append(i)
            after = [f"ask_{ask}" for ask in over] + (["decided"] if asks else [])
            nodes.append(self._effect_node(i, action, after))
        for i, gated in asks.items():
            gates = [f"do_{one}" for one in gated]
            nodes.append({"id": f"ask_{i}", "kind": "approval", "title": "May it?", "role": "approver", "gates": gates})
        if asks:
            join = {"mode": "all", "policy": "all_done"}
            after = [f"ask_{i}" for i in asks]
            nodes.append({"id": "decided", "kind": "tool", "tool": "core.noop@1", "after": after, "join": join})
        return nodes

    def _effect_node(self, number: int, action: ActionRequest, after: list[str]) -> dict[str, Any]:
        return {
            "id": f"do_{number}",
            "kind": "tool",
            "tool": f"{TOOL}@1",
            "business_key": json.dumps(action.action_id),
            "input": self.input_of(action),
            **({"after": after} if after else {}),
        }

    def input_of(self, action: ActionRequest) -> dict[str, Any]:
        """Return what the tool is called with."""
        told = {"action_id": action.action_id, "tool_name": action.tool_name, "arguments": dict(action.arguments)}
        return {"harness": self.harness.url, **told}


class Handle(RunHandle):
    """One run."""

    def __init__(
        self,
        adapter: Adapter,
        run_id: str,
        actions: tuple[ActionRequest, ...],
        effect: EffectProbe,
        key: str,
        task: dict[str, Any],
    ) -> None:
        self._adapter, self._logical, self._actions, self._effect = adapter, run_id, actions, effect
        self._key, self._task = key, task
        self._run = ""
        self._asked: dict[str, dict[str, Any]] = {}
        self._told = False

    async def submit(self) -> None:
        """Submit the task, or find it: the key is that of the logical run."""
        answer = await self._adapter.agent.post("tasks/", self._task, self._key)
        self._run = answer["run_id"]

    async def wait_for_pending(self, timeout_seconds: float) -> tuple[ActionRequest, ...]:
        wanted = [action for action in self._actions if action.requires_approval]
        until = time.monotonic() + timeout_seconds
        while True:
            rows = (await self._adapter.approver.get(f"approvals/?run={self._run}"))["items"]
            if len(rows) == len(wanted):
                break
            if time.monotonic() > until:
                raise TimeoutError
            await asyncio.sleep(_EVERY)
        found = []
        for row in sorted(rows, key=lambda row: row["node"]):
            whole = await self._adapter.approver.get(f"approvals/{row['id']}/")
            number = int(row["node"].removeprefix("ask_"))
            (call,) = [one for one in whole["shown"]["calls"] if one["node"] == f"do_{number}"]
            shown = self._shown(call["arguments"])
            self._asked[shown.action_id] = {**row, "call": call["node"], "action": shown}
            self._receipt(AuditEvent.APPROVAL_REQUESTED, shown)
            found.append(self._actions[number])
        return tuple(found)

    @staticmethod
    def _shown(arguments: dict[str, Any]) -> ActionRequest:
        return ActionRequest(arguments["action_id"], arguments["tool_name"], arguments["arguments"])

    async def approve(self, action_id: str, replacement: ActionRequest | None = None) -> None:
        row = self._asked[action_id]
        quoted = {name: row[name] for name in ("version", "payload_hash")}
        request_id, approved = row["id"], row["action"]
        if replacement is not None:
            body = {"arguments": self._adapter.input_of(replacement), "node": row["call"], "comment": "reviewed"}
            told = await self._adapter.approver.post(f"approvals/{request_id}/propose/", {**body, **quoted})
            request_id, approved = told["approval_id"], replacement
            quoted = {name: told[name] for name in ("version", "payload_hash")}
        await self._adapter.approver.post(f"approvals/{request_id}/decide/", {"decision": "approve", **quoted})
        self._receipt(AuditEvent.APPROVED, approved)

    async def reject(self, action_id: str, reason: str | None = None) -> None:
        row = self._asked[action_id]
        body = {"decision": "reject", "comment": reason or "no", "version": row["version"]}
        path = f"approvals/{row['id']}/decide/"
        await self._adapter.approver.post(path, {**body, "payload_hash": row["payload_hash"]})
        self._receipt(AuditEvent.REJECTED, row["action"], reason)

    async def cancel(self) -> None:
        await self._adapter.operator.post(f"runs/{self._run}/cancel/", {"reason": "cancelled by the suite"})
        await self._until_over(20.0)

    async def wait(self, timeout_seconds: float) -> RunOutcome:
        outcome = await self._until_over(timeout_seconds)
        if outcome is None:
            return RunOutcome(RunStatus.FAILED, "the run did not come to rest in time")
        if not self._told:
            self._told = True
            self._effect.journal.record_receipt(run_id=self._logical, event=_RECEIPTS[outcome.status])
        return outcome

    async def _until_over(self, seconds: float) -> RunOutcome | None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            going = any(self._adapter.harness.known[action.action_id].going for action in self._actions)
            if not going and (outcome := await self._outcome()) is not None:
                return outcome
            await asyncio.sleep(_EVERY)
        return None

    async def _outcome(self) -> RunOutcome | None:
        run = await self._adapter.agent.get(f"runs/{self._run}/")
        steps = (await self._adapter.agent.get(f"runs/{self._run}/steps/"))["items"]
        if run["status"] not in _ENDED:
            unknown = any(step["status"] == "unknown" for step in steps)
            return RunOutcome(RunStatus.UNKNOWN, "an effect may have been applied") if unknown else None
        if run["status"] == "cancelled":
            return RunOutcome(RunStatus.CANCELLED, run["reason"])
        if run["status"] == "failed" and run["reason"] == "deadline":
            return RunOutcome(RunStatus.TIMED_OUT, "the run's deadline passed")
        failed = [step["node"] for step in steps if step["status"] in ("failed", "killed")]
        return RunOutcome(RunStatus.FAILED, ", ".join(failed)) if failed else RunOutcome(RunStatus.COMPLETED)

    async def reconcile(self, action_id: str, timeout_seconds: float) -> ReconciliationEvidence:
        known = self._adapter.harness.known[action_id]
        self._receipt(AuditEvent.RECONCILIATION_STARTED, known.action)
        operation = await self._operation(action_id)
        known.open = True
        try:
            evidence = await asyncio.wait_for(self._settled(operation, known), timeout_seconds)
        except TimeoutError:
            known.close()
            self._receipt(AuditEvent.RECONCILIATION_TIMED_OUT, known.action)
            return ReconciliationEvidence(
                action_id, ReconciliationStatus.UNAVAILABLE, action_digest(known.action), detail="the lookup timed out"
            )
        self._receipt(_RECONCILED[evidence.status], known.action)
        return evidence

    async def _operation(self, action_id: str) -> str:
        """Return the operation of an action's call."""
        node = f"do_{[action.action_id for action in self._actions].index(action_id)}"
        steps = (await self._adapter.agent.get(f"runs/{self._run}/steps/"))["items"]
        step = next(one for one in steps if one["node"] == node)
        whole = await self._adapter.agent.get(f"steps/{step['id']}/")
        return str(whole["operations"][-1]["id"])

    async def _settled(self, operation: str, known: Known) -> ReconciliationEvidence:
        """Let the product ask, and return the books' evidence once the product has drawn its conclusion from it."""
        wanted = {
            ReconciliationStatus.COMMITTED: ("succeeded",),
            ReconciliationStatus.NOT_COMMITTED: ("absent", "intended", "sent"),
            ReconciliationStatus.CONFLICT: ("needs_human",),
        }
        asked = False
        while True:
            if not asked:
                asked = await self._ask(operation)
            told = await self._adapter.operator.get(f"operations/{operation}/")
            if known.evidence is not None and told["status"] in wanted.get(known.evidence.status, ()):
                return known.evidence
            await asyncio.sleep(_EVERY)

    async def _ask(self, operation: str) -> bool:
        """Let the product ask; it may be asking by itself, or have its conclusion already, and refuses then (409)."""
        try:
            await self._adapter.operator.post(f"operations/{operation}/query/", {"reason": "the suite asks"})
        except RuntimeError as refused:
            if "/query/: 409 " not in str(refused):
                raise
            await asyncio.sleep(0.5)
            return False
        return True

    async def replay(self) -> RunHandle:
        handle = Handle(self._adapter, self._logical, self._actions, self._effect, self._key, self._task)
        handle._told = True
        for action in self._actions:
            self._adapter.harness.known[action.action_id].replayed.set()
        await handle.submit()
        assert handle._run == self._run, "the same key is the same task"
        return handle

    async def audit_receipts(self) -> tuple[AuditReceipt, ...]:
        return self._effect.journal.receipts(run_id=self._logical)

    async def close(self) -> None:
        for action in self._actions:
            self._adapter.harness.known[action.action_id].close()
        run = await self._adapter.agent.get(f"runs/{self._run}/")
        if run["status"] not in _ENDED and not run.get("cancel_requested"):
            try:
                await self._adapter.operator.post(f"runs/{self._run}/cancel/", {"reason": "closed"})
            except RuntimeError:
                return

    def _receipt(self, event: AuditEvent, action: ActionRequest, detail: str | None = None) -> None:
        self._effect.journal.record_receipt(
            run_id=self._logical,
            event=event,
            action_id=action.action_id,
            action_digest=action_digest(action),
            detail=detail,
        )
