"""Python tools: what each way of ending means, in a thread and in a child process (B4.1, B4.4, C3.7)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from runtime.tools.calls import CallRequest, CallResult, call
from runtime.tools.contract import check_contract
from tests.support.patience import patient
from tests.tools.conftest import TOOLPACK, python_contract, run

ROOT = Path(__file__).resolve().parents[2]
WAYS = ["inline", "thread", "process"]


def gone(pid: int) -> bool:
    """Wait a moment for a process to end; a zombie counts as ended."""
    deadline = time.monotonic() + patient(5)
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def lines(path: Path, at_least: int) -> list[str]:
    """Wait until a file has so many lines."""
    deadline = time.monotonic() + patient(10)
    while True:
        found = path.read_text().splitlines() if path.exists() else []
        if len(found) >= at_least:
            return found
        assert time.monotonic() < deadline, f"{path} stayed short: {found}"
        time.sleep(0.05)


def in_background(request: CallRequest) -> tuple[threading.Thread, list[CallResult]]:
    results: list[CallResult] = []
    thread = threading.Thread(target=lambda: results.append(call(request)))
    thread.start()
    return thread, results


def result_of(thread: threading.Thread, results: list[CallResult]) -> CallResult:
    """Wait for a call in the background and return what came of it."""
    thread.join(patient(10))
    assert not thread.is_alive(), "the call hangs"
    return results[0]


@pytest.mark.parametrize("runs", WAYS)
def test_a_function_of_an_installed_package_is_called(runs: str) -> None:
    result = run(python_contract("add", runs=runs), {"a": 1, "b": 2})
    assert (result.kind, result.value, result.value_bytes) == ("ok", {"sum": 3}, b'{"sum":3}')


@pytest.mark.parametrize("runs", WAYS)
def test_the_context_is_told(runs: str) -> None:
    facts = {"operation_id": "op-1", "business_key": "key", "epoch": 4, "tenant_id": "t", "attempt": 2}
    result = run(python_contract("told", runs=runs), {}, **facts)
    assert result.value == {**facts, "remaining": True}


@pytest.mark.parametrize("runs", WAYS)
@pytest.mark.parametrize("name", ["missing", "gone", "later", "unheard_of"])
def test_a_tool_that_is_not_there_was_surely_not_called(runs: str, name: str) -> None:
    result = run(python_contract(name, runs=runs, writes=True))
    assert (result.kind, result.code, result.sent) == ("not_sent", "tool_not_installed", False)


@pytest.mark.parametrize(
    "reference", ["os:getcwd", "runtime.tools.calls:call", "runtime.tools.builtin:nothing", "tests.x:y"]
)
def test_a_contract_cannot_name_just_any_function(reference: str) -> None:
    value = {
        "name": "t",
        "version": 1,
        "adapter": "python",
        "config": {"callable": reference},
        "input_schema": {},
        "side_effect": "none",
        "recovery": "replayable",
    }
    result = run(check_contract(value))
    assert (result.kind, result.code) == ("not_sent", "tool_not_installed")


@pytest.mark.parametrize("runs", WAYS)
@pytest.mark.parametrize(
    ("name", "kind", "error_class"),
    [("refuse", "refused", "permission"), ("busy", "absent", "rate_limited"), ("bug", "unknown", "internal")],
)
def test_what_a_writing_tool_reports(runs: str, name: str, kind: str, error_class: str) -> None:
    result = run(python_contract(name, runs=runs, writes=True))
    assert (result.kind, result.error_class, result.sent) == (kind, error_class, True)
    assert "hunter2secret" not in result.message
    if name == "busy":
        assert result.retry_after == 2.5


@pytest.mark.parametrize("runs", WAYS)
def test_on_error_refused_makes_a_reported_error_definite(runs: str) -> None:
    assert run(python_contract("bug", runs=runs, writes=True, on_error="refused")).kind == "refused"
    assert run(python_contract("bug", runs=runs)).kind == "error"


@pytest.mark.parametrize("runs", WAYS)
@pytest.mark.parametrize("shape", ["nan", "set", "surrogate", "big"])
def test_an_answer_that_cannot_be_stored_leaves_a_write_open(runs: str, shape: str) -> None:
    """The function returned, so something was done; on_error speaks of errors it reports, not of this."""
    result = run(python_contract("odd", runs=runs, writes=True, on_error="refused"), {"shape": shape})
    assert (result.kind, result.error_class) == ("unknown", "protocol")
    assert run(python_contract("odd", runs=runs), {"shape": shape}).kind == "error"


@pytest.mark.parametrize("runs", WAYS)
def test_an_oversize_answer(runs: str) -> None:
    result = run(python_contract("odd", runs=runs), {"shape": "huge"})
    assert (result.kind, result.error_class) == ("error", "oversize")


def test_an_oversize_answer_is_not_read_to_its_end() -> None:
    result = run(python_contract("odd", runs="process", max_result_bytes=1000), {"shape": "huge"})
    assert result.error_class == "oversize"


@pytest.mark.parametrize("runs", ["inline", "thread"])
def test_a_tool_cannot_end_the_worker(runs: str) -> None:
    assert run(python_contract("leave", runs=runs, writes=True)).kind == "unknown"


def test_output_schema_is_checked() -> None:
    contract = python_contract("add", output_schema={"type": "object", "required": ["total"]})
    result = run(contract, {"a": 1, "b": 2})
    assert (result.kind, result.error_class, result.code) == ("error", "protocol", "schema_mismatch")


def test_a_thread_that_hears_nothing_is_left_behind(tmp_path: Path) -> None:
    contract = python_contract("deaf", writes=True)
    before = set(threading.enumerate())
    result = run(contract, {"log": str(tmp_path / "log")}, deadline_monotonic=time.monotonic() + 2)
    assert (result.kind, result.error_class) == ("unknown", "timeout")
    (behind,) = set(threading.enumerate()) - before
    assert behind.is_alive(), "the tool's minute is not over"


@pytest.mark.parametrize("runs", ["thread", "process"])
def test_cancel_is_heard(runs: str, tmp_path: Path) -> None:
    cancel, log = threading.Event(), tmp_path / "log"
    contract = python_contract("listening", runs=runs, writes=True, config={"kill_grace_s": 20})
    thread, results = in_background(CallRequest(tool=contract, arguments={"log": str(log)}, cancel=cancel))
    lines(log, 1)
    cancel.set()
    result = result_of(thread, results)
    assert lines(log, 2) == ["started", "tidied up"]
    assert (result.kind, result.error_class) == ("refused", "cancelled"), "it says itself that nothing was applied"


@pytest.mark.parametrize("runs", ["thread", "process"])
@pytest.mark.req("C5.5")
def test_a_tool_that_is_done_when_it_hears_of_the_cancel_is_believed(runs: str, tmp_path: Path) -> None:
    cancel, log = threading.Event(), tmp_path / "log"
    contract = python_contract("finishing", runs=runs, writes=True, config={"kill_grace_s": 20})
    thread, results = in_background(CallRequest(tool=contract, arguments={"log": str(log)}, cancel=cancel))
    lines(log, 1)
    cancel.set()
    result = result_of(thread, results)
    assert (result.kind, result.value) == ("ok", {"done": True})


@pytest.mark.parametrize("runs", ["thread", "process"])
def test_a_tool_that_did_nothing_by_its_deadline_may_be_called_again(runs: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    contract = python_contract("listening", runs=runs, writes=True, config={"kill_grace_s": 20})
    result = run(contract, {"log": str(log)}, deadline_monotonic=time.monotonic() + patient(4))
    assert lines(log, 2) == ["started", "tidied up"]
    assert (result.kind, result.error_class, result.sent) == ("absent", "timeout", True)


def test_cancel_before_the_call_sends_nothing() -> None:
    cancel = threading.Event()
    cancel.set()
    for runs in WAYS:
        assert run(python_contract("add", runs=runs), {"a": 1, "b": 1}, cancel=cancel).kind == "not_sent"


@pytest.mark.parametrize("runs", WAYS)
@pytest.mark.req("C2.9")
def test_a_lost_lease_sends_nothing(runs: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    result = run(python_contract("effect", runs=runs, writes=True), {"log": str(log)}, lease_ok=lambda: False)
    assert (result.kind, result.code, result.operation_status) == ("not_sent", "lease_lost", "absent")
    assert not log.exists()


def test_the_lease_is_asked_after_the_slow_start_of_a_child(tmp_path: Path) -> None:
    asked = 0

    def lease() -> bool:
        nonlocal asked
        asked += 1
        return asked == 1  # true for the look before the start, gone when the child is ready

    log = tmp_path / "log"
    result = run(python_contract("effect", runs="process", writes=True), {"log": str(log)}, lease_ok=lease)
    assert (result.kind, result.code) == ("not_sent", "lease_lost")
    assert not log.exists()
    assert asked == 2


def test_a_deadline_kills_the_child_and_its_family(tmp_path: Path) -> None:
    log = tmp_path / "log"
    contract = python_contract("family", runs="process", writes=True, config={"kill_grace_s": 0.1})
    thread, results = in_background(
        CallRequest(tool=contract, arguments={"log": str(log)}, deadline_monotonic=time.monotonic() + 6)
    )
    pids = [int(pid) for pid in lines(log, 1)[0].split()]
    result = result_of(thread, results)
    assert (result.kind, result.error_class) == ("unknown", "timeout")
    assert all(gone(pid) for pid in pids)


def test_a_deaf_child_is_killed_on_cancel(tmp_path: Path) -> None:
    cancel, log = threading.Event(), tmp_path / "log"
    contract = python_contract("deaf", runs="process", writes=True, config={"kill_grace_s": 0.2})
    thread, results = in_background(CallRequest(tool=contract, arguments={"log": str(log)}, cancel=cancel))
    pid = int(lines(log, 1)[0])
    cancel.set()
    result = result_of(thread, results)
    assert (result.kind, result.error_class) == ("unknown", "cancelled")
    assert gone(pid)


def test_a_child_that_crashes_leaves_a_write_open_and_no_secret() -> None:
    result = run(python_contract("crash", runs="process", writes=True, on_error="refused"))
    assert (result.kind, result.code) == ("unknown", "died")
    assert "goodbye" in result.message
    assert "abcdef" not in result.message
    assert run(python_contract("crash", runs="process")).kind == "error"


def test_a_child_killed_from_outside_after_its_effect(tmp_path: Path) -> None:
    log = tmp_path / "log"
    contract = python_contract("deaf", runs="process", writes=True)
    thread, results = in_background(CallRequest(tool=contract, arguments={"log": str(log)}))
    os.kill(int(lines(log, 1)[0]), signal.SIGKILL)
    result = result_of(thread, results)
    assert (result.kind, result.code) == ("unknown", "died")


def test_what_a_tool_prints_is_not_its_answer() -> None:
    result = run(python_contract("chatty", runs="process"))
    assert (result.kind, result.value) == ("ok", {"read": ""})


def test_a_child_gets_no_connection_string(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://secret")
    monkeypatch.setenv("SECRET_KEY", "secret")
    monkeypatch.setenv("QUARTERDECK_TOOL_SHOP", "for the tool")
    names = run(python_contract("environment", runs="process")).value["names"]
    assert "QUARTERDECK_TOOL_SHOP" in names
    assert not {"DATABASE_URL", "SECRET_KEY"} & set(names)


@pytest.mark.req("C7.4")
def test_memory_can_be_limited() -> None:
    contract = python_contract("hungry", runs="process", config={"limits": {"memory_bytes": 600_000_000}})
    result = run(contract)
    assert (result.kind, result.error_class) == ("error", "internal")
    assert "MemoryError" in result.message


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties a child to its parent's death")
def test_a_child_dies_with_its_worker(tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = textwrap.dedent(f"""
        import sys; sys.path[:0] = [{str(ROOT)!r}, {TOOLPACK!r}]
        from tests.tools.conftest import python_contract, run
        run(python_contract("deaf", runs="process", writes=True), {{"log": {str(log)!r}}})
    """)
    worker = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT)
    pid = int(lines(log, 1)[0])
    worker.kill()
    worker.wait()
    assert gone(pid)


def test_big_arguments_reach_the_child() -> None:
    value: dict[str, Any] = {"a": "x" * 400_000, "b": "y" * 400_000}
    assert run(python_contract("add", runs="process"), value).value == {"sum": value["a"] + value["b"]}
