"""agentbarrier, a suite of others, drives the HTTP API and real workers through all of its scenarios."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.api import caller
from tests.support.web import Web
from tests.support.workers import python_tool

ROOT = Path(__file__).resolve().parents[2]
PEOPLE = {"AGENT": "integrator", "APPROVER": "approver", "OPERATOR": "oncall"}
LOOKUP = {
    "input": {"harness": {"$": "arguments.harness"}, "action_id": {"$": "arguments.action_id"}},
    "applied": "answer.found",
    "matches": "answer.matches",
    "consistent_after_s": 0,
}


@pytest.mark.proof
@pytest.mark.timeout(900)
@pytest.mark.req("C5.3", "C5.4", "C5.5", "C5.6", "A7.2")
def test_every_scenario_passes_and_none_is_skipped(stack, desk, tmp_path):
    pytest.importorskip("agentbarrier")
    query = desk.tool(python_tool("sentinel_found"))
    retry = {"max_attempts": 3, "initial_s": 0.1, "max_s": 1}
    config = {"entry_point": "test.sentinel", "kill_grace_s": 20}
    asked = {"recovery": "query", "query": query, "lookup": LOOKUP, "retry": retry, "config": config}
    desk.tool(python_tool("sentinel", runs="process", writes=True, **asked))
    with Web(stack.database) as web:
        environment = {
            **os.environ,
            "BARRIER_URL": web.url,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
            **{f"BARRIER_{who}": str(caller(desk.tenant, role).token) for who, role in PEOPLE.items()},
        }
        report = tmp_path / "report.json"
        command = [sys.executable, "-m", "agentbarrier", "verify", "tests.support.barrier:Adapter", "--strict-skips"]
        command += ["--json", str(report), "--settle", "0.5", "--operation-timeout", "60", "--tool-timeout", "15"]
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=800, check=False
        )
        said = f"{done.stdout[-8000:]}\n{done.stderr[-4000:]}\n{web.output[-2000:]}"
    assert done.returncode == 0, said
    summary = json.loads(report.read_text())["summary"]
    assert (summary["passed"], summary["failed"], summary["errors"], summary["skipped"]) == (11, 0, 0, 0), said
