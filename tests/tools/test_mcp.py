"""MCP tools against real server processes: stdio and streamable HTTP, our own and third-party (B7.1, C3.8)."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.tools.adapters.mcp import schema_sha256, shutdown
from runtime.tools.adapters.mcp_sessions import sessions
from runtime.tools.calls import CallRequest, CallResult, call
from runtime.tools.contract import ToolContract, check_contract
from tests.support.patience import patient
from tests.tools.conftest import run
from tests.tools.test_python import gone, lines

pytestmark = pytest.mark.req("B7.1", "C3.8")

ROOT = Path(__file__).resolve().parents[2]
SERVER = ROOT / "tests" / "support" / "mcp_tool.py"
LISTED = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.fixture(autouse=True)
def no_sessions_left() -> Iterator[None]:
    """Close what a test kept open."""
    yield
    shutdown()
    assert sessions() == []


def contract(
    log: Path, tool: str, *flags: str, writes: bool = True, timeout_s: float = 20, **more: Any
) -> ToolContract:
    """Return a contract of the misbehaving server."""
    config = {
        "tool": tool,
        "command": sys.executable,
        "args": [str(SERVER), str(log), *flags],
        **more.pop("config", {}),
    }
    return check_contract(
        {
            "name": f"mcp.{tool}",
            "version": 1,
            "adapter": "mcp",
            "config": config,
            "input_schema": {"type": "object"},
            "side_effect": "write" if writes else "read",
            "recovery": "human" if writes else "replayable",
            "timeout_s": timeout_s,
            **more,
        }
    )


def noted(log: Path, what: str) -> list[dict[str, Any]]:
    """Return the lines of the server's log of one kind."""
    entries = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return [entry for entry in entries if entry["what"] == what]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def test_a_tool_is_called_in_a_fresh_process(log: Path) -> None:
    result = run(contract(log, "add"), {"a": "1", "nothing": None}, operation_id="op-1")
    assert (result.kind, result.value) == ("ok", "did add")
    assert [entry["arguments"] for entry in noted(log, "effect")] == [{"a": "1", "nothing": None}]
    run(contract(log, "add"))
    assert len({entry["pid"] for entry in noted(log, "start")}) == 2
    assert len(noted(log, "end")) == 2


def test_key_and_epoch_go_only_where_the_contract_says(log: Path) -> None:
    config = {"key_argument": "request_id", "epoch_argument": "fence"}
    run(contract(log, "add", config=config), {"a": "1"}, operation_id="op-1", epoch=5)
    assert noted(log, "effect")[0]["arguments"] == {"a": "1", "request_id": "op-1", "fence": 5}


@pytest.mark.parametrize(
    ("tool", "kind", "value"),
    [("structured", "auto", {"n": 1}), ("number", "auto", {"n": 1}), ("number", "text", '{"n": 1}')],
)
def test_forms_of_an_answer(log: Path, tool: str, kind: str, value: Any) -> None:
    assert run(contract(log, tool, config={"result": kind})).value == value


def test_an_answer_that_is_no_text(log: Path) -> None:
    assert run(contract(log, "picture")).value == [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]


@pytest.mark.parametrize("session", ["call", "worker"])
@pytest.mark.parametrize(
    ("tool", "kind", "error_class", "effects"),
    [
        ("die_before", "unknown", "network", 0),
        ("die_after", "unknown", "network", 1),
        ("hang_before", "unknown", "timeout", 0),
        ("hang_after", "unknown", "timeout", 1),
        ("garbage", "unknown", "protocol", 1),
        ("surrogate", "unknown", "protocol", 1),
        ("nan", "unknown", "protocol", 1),
        ("shapeless", "unknown", "protocol", 1),
        ("huge", "unknown", "oversize", 1),
        ("fail", "unknown", "business", 1),
    ],
)
@pytest.mark.req("B4.4", "C8.8")
def test_each_failure_of_a_write_and_of_a_read(
    log: Path, session: str, tool: str, kind: str, error_class: str, effects: int
) -> None:
    timeout = 1.5 if error_class == "timeout" else 20
    result = run(contract(log, tool, timeout_s=timeout, config={"session": session}))
    assert (result.kind, result.error_class, result.sent) == (kind, error_class, True)
    assert len(noted(log, "effect")) == effects
    read = run(contract(log, tool, writes=False, timeout_s=timeout, config={"session": session}))
    assert (read.kind, read.error_class) == ("error", error_class)
    if session == "call" or tool not in ("fail", "nan"):  # after those two the connection is whole
        assert all(gone(entry["pid"]) for entry in noted(log, "start"))


def test_on_error_refused_makes_is_error_definite(log: Path) -> None:
    result = run(contract(log, "fail", on_error="refused"))
    assert (result.kind, result.code, result.message) == ("refused", "tool_error", "the shop says no")


@pytest.mark.parametrize(
    ("code", "kind", "error_class"),
    [
        (-32602, "refused", "validation"),
        (-32601, "refused", "not_found"),
        (-32603, "unknown", "server_error"),
        (-31000, "unknown", "business"),
    ],
)
def test_protocol_errors(log: Path, code: int, kind: str, error_class: str) -> None:
    result = run(contract(log, "rpc"), {"code": code})
    assert (result.kind, result.error_class, result.code) == (kind, error_class, f"jsonrpc_{code}")


def test_text_between_the_messages_is_ignored(log: Path) -> None:
    assert run(contract(log, "add", "noise")).kind == "ok"


def test_a_server_that_does_not_start_is_definite(log: Path) -> None:
    result = run(contract(log, "add", "gone"))
    assert (result.kind, result.sent, result.code) == ("absent", False, "server_not_opened")
    assert "cannot reach the books" in result.message
    missing = run(contract(log, "add", config={"command": "no-such-program-here"}))
    assert (missing.kind, missing.sent) == ("absent", False)


def test_a_server_that_never_answers_the_greeting_is_definite_and_ended(log: Path) -> None:
    result = run(contract(log, "add", "silent", timeout_s=1.5))
    assert (result.kind, result.error_class, result.sent) == ("absent", "timeout", False)
    assert gone(noted(log, "start")[0]["pid"])


def in_background(tool: ToolContract, **more: Any) -> tuple[threading.Thread, list[CallResult]]:
    results: list[CallResult] = []
    thread = threading.Thread(target=lambda: results.append(call(CallRequest(tool=tool, arguments={}, **more))))
    thread.start()
    return thread, results


@pytest.mark.parametrize("session", ["call", "worker"])
def test_cancel_ends_the_call_and_the_server(log: Path, session: str) -> None:
    cancel = threading.Event()
    thread, results = in_background(contract(log, "hang_after", config={"session": session}), cancel=cancel)
    lines(log, 2)
    cancel.set()
    thread.join(patient(10))
    assert (results[0].kind, results[0].error_class) == ("unknown", "cancelled")
    assert gone(noted(log, "start")[0]["pid"])


@pytest.mark.req("C2.9")
def test_a_lost_lease_sends_nothing(log: Path) -> None:
    answers = iter([True, False])
    result = run(contract(log, "add"), lease_ok=lambda: next(answers))
    assert (result.kind, result.code) == ("not_sent", "lease_lost")
    assert noted(log, "effect") == []


def test_a_kept_server_is_used_again_until_it_dies(log: Path) -> None:
    kept = contract(log, "add", config={"session": "worker"})
    for _ in range(3):
        assert run(kept).kind == "ok"
    assert len(noted(log, "start")) == 1
    run(contract(log, "die_after", config={"session": "worker"}))
    assert run(kept).kind == "ok"
    assert len(noted(log, "start")) == 2


def test_a_kept_server_that_died_in_between_is_replaced_and_nothing_is_open(log: Path) -> None:
    kept = contract(log, "add", config={"session": "worker"})
    run(kept)
    pid = noted(log, "start")[0]["pid"]
    subprocess.run(["kill", "-9", str(pid)], check=True)
    assert gone(pid)
    time.sleep(0.2)
    assert run(kept).kind == "ok"


def test_kept_servers_are_apart_by_session_key_and_by_tenant(log: Path) -> None:
    kept = contract(log, "add", config={"session": "worker", "session_key": "state"})
    for state, tenant in (("a", "t1"), ("b", "t1"), ("a", "t2"), ("a", "t1")):
        assert run(kept, {"state": state}, tenant_id=tenant).kind == "ok"
    assert len(noted(log, "start")) == 3


def test_a_kept_server_serves_one_call_at_a_time(log: Path) -> None:
    kept = contract(log, "add", config={"session": "worker"})
    background = [in_background(kept) for _ in range(8)]
    for thread, _ in background:
        thread.join(patient(20))
    assert [results[0].kind for _, results in background] == ["ok"] * 8
    assert len(noted(log, "start")) == 1


def test_an_idle_server_is_closed(log: Path) -> None:
    run(contract(log, "add", config={"session": "worker", "idle_s": 0.2}))
    assert gone(noted(log, "start")[0]["pid"])
    assert noted(log, "end")


@pytest.mark.parametrize("flags", [(), ("pages",)])
def test_a_pinned_schema_that_still_holds(log: Path, flags: tuple[str, ...]) -> None:
    assert run(contract(log, "add", *flags, config={"schema_sha256": schema_sha256(LISTED)})).kind == "ok"


@pytest.mark.parametrize(("tool", "flags"), [("add", ("drift",)), ("number", ())])
def test_a_changed_schema_blocks_before_sending(log: Path, tool: str, flags: tuple[str, ...]) -> None:
    result = run(contract(log, tool, *flags, config={"schema_sha256": schema_sha256(LISTED)}))
    assert (result.kind, result.error_class, result.code) == ("not_sent", "policy", "contract_changed")
    assert noted(log, "effect") == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties a child to its parent's death")
@pytest.mark.parametrize("session", ["call", "worker"])
def test_a_server_dies_with_its_worker(log: Path, session: str) -> None:
    program = textwrap.dedent(f"""
        import sys, pathlib; sys.path.insert(0, {str(ROOT)!r})
        from tests.tools.test_mcp import contract, run
        run(contract(pathlib.Path({str(log)!r}), "hang_after", config={{"session": {session!r}}}))
    """)
    worker = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT)
    lines(log, 2)
    worker.kill()
    worker.wait()
    assert gone(noted(log, "start")[0]["pid"])


def test_a_third_party_server() -> None:
    tool = check_contract(
        {
            "name": "time.convert",
            "version": 1,
            "adapter": "mcp",
            "config": {"tool": "convert_time", "command": "mcp-server-time", "args": ["--local-timezone", "UTC"]},
            "input_schema": {"type": "object", "required": ["time"]},
            "side_effect": "read",
            "recovery": "replayable",
        }
    )
    result = run(tool, {"source_timezone": "Europe/Berlin", "time": "12:00", "target_timezone": "Asia/Tokyo"})
    assert result.kind == "ok", result
    assert result.value["target"]["timezone"] == "Asia/Tokyo"
    assert run(tool, {"source_timezone": "Nowhere", "time": "12:00", "target_timezone": "UTC"}).kind == "error"


@pytest.fixture
def http_server(log: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.mcp_http_tool", str(log)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    yield process
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def over_http(process: subprocess.Popen[str], port: int, tool: str, **more: Any) -> ToolContract:
    host = f"127.0.0.1:{port}"
    value = {
        "name": f"http.{tool}",
        "version": 1,
        "adapter": "mcp",
        "config": {"tool": tool, "url": f"http://{host}/mcp", "session": more.pop("session", "call")},
        "input_schema": {"type": "object"},
        "side_effect": "write",
        "recovery": "human",
        "targets": [host],
        **more,
    }
    return check_contract(value)


@pytest.mark.parametrize("session", ["call", "worker"])
def test_streamable_http(log: Path, http_server: subprocess.Popen[str], session: str) -> None:
    assert http_server.stdout is not None
    port = int(http_server.stdout.readline())
    added = run(over_http(http_server, port, "add", session=session), {"a": 1, "b": 2})
    assert (added.kind, added.value) == ("ok", {"result": 3})
    wrong = run(over_http(http_server, port, "add", session=session), {"a": "x", "b": 2})
    assert wrong.kind == "unknown"
    failed = run(over_http(http_server, port, "fail", session=session, on_error="refused"))
    assert (failed.kind, "says no" in failed.message) == ("refused", True)
    hung = run(over_http(http_server, port, "hang_after", session=session, timeout_s=1.5))
    assert (hung.kind, hung.error_class) == ("unknown", "timeout")
    lost = run(over_http(http_server, port, "die_after", session=session))
    assert (lost.kind, lost.sent) == ("unknown", True), lost
    http_server.wait(10)
    refused = run(over_http(http_server, port, "add"), {"a": 1, "b": 2})
    assert (refused.kind, refused.sent, refused.error_class) == ("absent", False, "network")
    assert log.read_text().split() == ["add", "fail", "hang_after", "die_after"]
