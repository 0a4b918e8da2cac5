"""The real tasks, call by call, against the third-party servers: the adapter and the helper agree with the truth."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from runtime.graph.validate import check_workflow
from runtime.tools.adapters.mcp import shutdown
from runtime.tools.builtin import BUILTIN_CONTRACTS
from runtime.tools.calls import CallRequest, CallResult, call
from tests.support import tau2
from tests.support.patience import patient

pytestmark = [
    pytest.mark.req("B7.1"),
    pytest.mark.skipif(not tau2.available(), reason="QUARTERDECK_INPUTS: no agent tasks"),
]

ROOT = Path(__file__).resolve().parents[2]
AMOUNT = [pytest.param(6, id="some"), pytest.param(None, id="all", marks=pytest.mark.proof)]


def play(task: tau2.Task, session: str) -> list[CallResult]:
    """Make the calls of a task in order, without an engine."""
    tools = {tool.name: tool for tool in tau2.contracts(task.domain, task.state_dir, session=session)}
    results = []
    for step in task.steps:
        arguments = {**step["args"], "state_key": task.state_key}
        results.append(call(CallRequest(tool=tools[f"tau2.{task.domain}.{step['tool']}"], arguments=arguments)))
    return results


@pytest.mark.parametrize("first", AMOUNT)
@pytest.mark.parametrize("domain", tau2.DOMAINS)
@pytest.mark.timeout(600)
def test_the_tasks_end_in_their_known_state(domain: str, first: int | None, tmp_path: Path) -> None:
    for task in tau2.tasks(domain, tmp_path, "a", first=first):
        task.reset()
        results = play(task, "worker")
        for step, result in zip(task.steps, results, strict=True):
            failed = "refused" if step["kind"] == "write" else "error"
            assert result.kind == ("ok" if step["error"] is None else failed), (task.state_key, step["i"], result)
        tau2.check_done(task)
    shutdown()


def test_a_server_per_call_gives_the_same(tmp_path: Path) -> None:
    task = next(iter(tau2.tasks("airline", tmp_path, "b", first=1)))
    task.reset()
    assert all(result.kind == "ok" for result in play(task, "call"))
    tau2.check_done(task)


@pytest.mark.parametrize("domain", tau2.DOMAINS)
def test_every_task_is_a_workflow(domain: str, tmp_path: Path) -> None:
    known = {tool.reference: tool for tool in (*BUILTIN_CONTRACTS, *tau2.contracts(domain, tmp_path))}
    for task in tau2.tasks(domain, tmp_path, "c"):
        plan = check_workflow(task.workflow(), known_tools=known.get)
        assert plan is not None


def test_the_checks_can_fail(tmp_path: Path) -> None:
    """A helper that finds nothing wrong proves nothing: one write too few, one twice."""
    task = next(task for task in tau2.tasks("airline", tmp_path, "d", first=6) if len(task.writes) > 1)
    task.reset()
    with pytest.raises(AssertionError):
        tau2.check_done(task)
    tools = {tool.name: tool for tool in tau2.contracts(task.domain, tmp_path)}
    name, args = task.writes[0]
    for _ in range(2):
        call(CallRequest(tool=tools[f"tau2.airline.{name}"], arguments={**args, "state_key": task.state_key}))
    with pytest.raises(AssertionError):
        tau2.check_no_second_send(task, 1)


def _worker(task: tau2.Task, log: Path) -> subprocess.Popen[bytes]:
    program = textwrap.dedent(f"""
        import pathlib, sys
        sys.path.insert(0, {str(ROOT)!r})
        from tests.support import tau2
        from tests.tools.test_tau2 import play
        task = next(t for t in tau2.tasks({task.domain!r}, pathlib.Path({str(task.state_dir)!r}), {task.run!r})
                    if t.number == {task.number!r})
        play(task, "call")
        pathlib.Path({str(log)!r}).touch()
    """)
    return subprocess.Popen([sys.executable, "-c", program], cwd=ROOT)


@pytest.mark.faults
def test_a_killed_worker_takes_its_server_along(tmp_path: Path) -> None:
    """After the kill the state does not move any more, so what the log shows is all there will be."""
    # The longest: a machine that stands still for a moment lets a short one end before the kill.
    task: Any = max(tau2.tasks("retail", tmp_path, "e"), key=lambda one: len(one.steps))
    task.reset()
    worker = _worker(task, tmp_path / "done")
    deadline = time.monotonic() + patient(20)
    while not task.calls():
        assert time.monotonic() < deadline, "no call was made"
        time.sleep(0.01)
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    time.sleep(0.3)
    before = task.calls()
    time.sleep(0.5)
    assert task.calls() == before
    assert not (tmp_path / "done").exists()
    assert len(before) < len(task.steps)
    assert task.writes_made() == task.writes[: len(task.writes_made())]
