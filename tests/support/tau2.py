"""The tau2 tasks of ``QUARTERDECK_INPUTS`` as workflows against third-party MCP servers, and what must come of them.

A task is a chain of tool calls whose effect on the servers' database is known. The servers keep no idempotency keys, so
a write whose answer is lost is an open question; what really happened is told by the state file, which the server
writes after each call and which no part of ours touches.

The state key separates tasks: ``tau2/<domain>/<number>/<run>``. One process per key, so calls of one task are in a row
and each has a server of its own (``session="call"``), unless a test keeps everything in one worker.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from runtime.tools.calls import CallRequest, call
from runtime.tools.contract import ToolContract, check_contract
from tests.support.dags import inputs

DOMAINS = ("retail", "airline")


@cache
def load(domain: str) -> Mapping[str, Any]:
    """Return the file of a domain: ``meta``, ``tool_types`` and ``tasks``."""
    with (inputs() / "agent_tasks" / f"tau2_{domain}_train.json").open(encoding="utf-8") as file:
        return json.load(file)


def available() -> bool:
    """Say whether the inputs are there."""
    return all((inputs() / "agent_tasks" / f"tau2_{domain}_train.json").is_file() for domain in DOMAINS)


def contracts(domain: str, state_dir: Path, *, session: str = "call") -> list[ToolContract]:
    """Return the contracts of a domain's tools, version 1, named ``tau2.<domain>.<tool>``."""
    return [_contract(domain, tool, kind, state_dir, session) for tool, kind in load(domain)["tool_types"].items()]


def _contract(domain: str, tool: str, kind: str, state_dir: Path, session: str) -> ToolContract:
    writes = kind == "write"
    return check_contract(
        {
            "name": f"tau2.{domain}.{tool}",
            "version": 1,
            "adapter": "mcp",
            "config": {
                "tool": tool,
                "command": f"tau2-{domain}-mcp",
                "env": {f"TAU2_{domain.upper()}_MCP_STATE_DIR": str(state_dir)},
                "session": session,
                "session_key": "state_key",
            },
            "input_schema": {
                "type": "object",
                "required": ["state_key"],
                "properties": {"state_key": {"type": "string", "pattern": f"^tau2/{domain}/"}},
            },
            "side_effect": "write" if writes else "read",
            # It keeps no keys and can look nothing up: after a lost answer only a person can know.
            "recovery": "human" if writes else "replayable",
            "on_error": "refused",
            "timeout_s": 60,
        }
    )


@dataclass(frozen=True)
class Task:
    """One tau2 task in one test run. ``run`` sets its state apart from every other run's."""

    domain: str
    data: Mapping[str, Any]
    state_dir: Path
    run: str

    @property
    def number(self) -> str:
        return str(self.data["id"]).rpartition("/")[2]

    @property
    def state_key(self) -> str:
        return f"tau2/{self.domain}/{self.number}/{self.run}"

    @property
    def steps(self) -> list[dict[str, Any]]:
        return list(self.data["steps"])

    @property
    def input(self) -> dict[str, Any]:
        """The input of the workflow's run."""
        return {"state_key": self.state_key}

    @property
    def writes(self) -> list[tuple[str, dict[str, Any]]]:
        """The writing calls, in order, the one that the shop refuses included."""
        return [(step["tool"], step["args"]) for step in self.steps if step["kind"] == "write"]

    @property
    def failing(self) -> list[str]:
        """The nodes whose call the server answers with an error."""
        return [node_id(step) for step in self.steps if step["error"] is not None]

    def workflow(self) -> dict[str, Any]:
        """Return the task as a workflow: a chain of its steps; a step after a failing one goes on all the same."""
        nodes, before = [], None
        for step in self.steps:
            node: dict[str, Any] = {
                "id": node_id(step),
                "kind": "tool",
                "tool": f"tau2.{self.domain}.{step['tool']}@1",
                "input": {**step["args"], "state_key": {"$": "input.state_key"}},
            }
            if step["kind"] == "write":
                node["business_key"] = f"input.state_key + '/{step['i']}'"
            if before is not None:
                goes_on = {"node": node_id(before), "on_failure": "continue_on_error"}
                node["after"] = [goes_on if before["error"] is not None else node_id(before)]
            nodes.append(node)
            before = step
        return {
            "format": "quarterdeck/1",
            "name": f"tau2-{self.domain}-{self.number}",
            "input_schema": {"type": "object", "required": ["state_key"]},
            # A task may ask for nothing; a workflow has at least one step.
            "nodes": nodes or [{"id": "nothing", "kind": "tool", "tool": "core.noop@1", "input": {}}],
        }

    def reset(self) -> None:
        """Start a fresh database through the server's own tool; once, before the run."""
        tool = _contract(self.domain, "reset_state", "generic", self.state_dir, "call")
        result = call(CallRequest(tool=tool, arguments={"state_key": self.state_key}))
        assert result.kind == "ok", result

    @property
    def state_file(self) -> Path:
        return self.state_dir / f"{hashlib.sha256(self.state_key.encode()).hexdigest()}.json"

    def state(self) -> dict[str, Any]:
        """Return what the server has written: ``db`` and ``calls``."""
        return json.loads(self.state_file.read_text(encoding="utf-8"))

    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        """Return every call that the server really carried out or refused, in order: tool and arguments."""
        made = [entry["tau2_tool_call"] for entry in self.state()["calls"]]
        return [(one["name"], one["arguments"]) for one in made]

    def writes_made(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the writing ones among ``calls``."""
        kinds = load(self.domain)["tool_types"]
        return [(tool, arguments) for tool, arguments in self.calls() if kinds[tool] == "write"]


def node_id(step: Mapping[str, Any]) -> str:
    """Return the node id of a step."""
    return f"s{step['i']}_{step['tool']}"


def tasks(domain: str, state_dir: Path, run: str, *, first: int | None = None) -> Iterator[Task]:
    """Yield a domain's tasks; with ``first`` so many of them, those with the most writes in front."""
    found = list(load(domain)["tasks"])
    if first is not None:
        found = sorted(found, key=lambda task: -int(task["n_write"]))[:first]
    for data in found:
        yield Task(domain, data, state_dir, run)


def canonical_sha256(db: Any) -> str:
    """Return the hash of a database by the inputs' rule: nulls dropped, every number a float, keys sorted."""
    text = json.dumps(_normal(db), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _normal(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _normal(part) for key, part in value.items() if part is not None}
    if isinstance(value, list):
        return [_normal(part) for part in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    return value


def check_done(task: Task) -> None:
    """Assert that a task ran through: each writing call once and in order (primary), the final database (secondary)."""
    assert task.writes_made() == task.writes, f"{task.state_key}: the call log shows other writes"
    assert len(task.calls()) == len(task.steps), f"{task.state_key}: the call log shows other calls"
    assert canonical_sha256(task.state()["db"]) == task.data["final_db_canonical_sha256"], task.state_key


def check_no_second_send(task: Task, settled: int) -> None:
    """Assert, after a kill, that nothing was sent twice or out of order.

    ``settled`` is the number of writes whose answer the engine recorded: those were made; the next one may have been
    made or not (its answer was lost); none after it may have been made.
    """
    made = task.writes_made()
    assert made == task.writes[: len(made)], f"{task.state_key}: a write was repeated or came out of order"
    assert settled <= len(made) <= min(settled + 1, len(task.writes)), (
        f"{task.state_key}: {len(made)} writes, {settled} settled"
    )
