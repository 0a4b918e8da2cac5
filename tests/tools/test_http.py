"""HTTP tools against a service in another process: what is known of a write after each kind of failure (B4.1–B4.4)."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from runtime.kernel.errors import BadInput
from runtime.tools.calls import CallRequest, CallResult, call
from runtime.tools.contract import check_contract
from tests.support.http_tool import HttpTool
from tests.support.patience import patient
from tests.support.workers import until
from tests.tools.conftest import run

IDENTITY: dict[str, Any] = {"operation_id": "op-7", "epoch": 3}


def test_a_write_carries_key_and_epoch(shop: HttpTool) -> None:
    result = run(shop.contract("/ok", config={"reference_header": "location"}), {"amount": "10.00"}, **IDENTITY)
    assert (result.kind, result.value, result.external_ref) == ("ok", {"applied": True, "number": 1}, "/thing/1")
    assert shop.effects() == [
        {"path": "/ok", "method": "POST", "key": "op-7", "epoch": "3", "body": {"amount": "10.00"}}
    ]


@pytest.mark.req("C5.5")
@pytest.mark.parametrize("writes", [True, False], ids=["write", "read"])
def test_a_call_tells_how_long_anybody_waits_for_its_answer(shop: HttpTool, writes: bool) -> None:
    """What is left of the deadline by then, in seconds: the tool's own limit, or what the run leaves of it."""
    contract = shop.contract("/echo", writes=writes, timeout_s=10)
    for given in (10.0, 2.5):
        begun = time.monotonic()
        result = call(
            CallRequest(
                tool=check_contract(contract), arguments={}, arguments_bytes=b"{}", deadline_monotonic=begun + given,
                **(IDENTITY if writes else {}),
            )
        )  # fmt: skip
        told = float(result.value["headers"]["x-quarterdeck-timeout"])
        assert given - (time.monotonic() - begun) - 0.001 <= told <= given


def test_the_request_is_built_from_the_contract(shop: HttpTool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARTERDECK_TOOL_SHOP_KEY", "topsecretvalue")
    contract = shop.contract(
        "/echo/{id}{?view}",
        config={"headers": {"Authorization": {"env": "QUARTERDECK_TOOL_SHOP_KEY"}, "X-Plain": "a"}, "body": "rest"},
    )
    value = run(contract, {"id": "a/b", "view": "full", "rest": [1, 2.5]}, **IDENTITY).value
    assert value["path"] == "/echo/a%2Fb?view=full"
    assert value["body"] == {"rest": [1, 2.5]}
    assert value["headers"]["authorization"] == "topsecretvalue"
    assert value["headers"]["x-plain"] == "a"


def test_a_missing_secret_sends_nothing(shop: HttpTool) -> None:
    result = run(shop.contract("/ok", config={"headers": {"A": {"env": "QUARTERDECK_TOOL_NOT_THERE"}}}))
    assert (result.kind, result.code) == ("not_sent", "secret_missing")
    assert shop.effects() == []


def test_a_secret_is_not_repeated_in_a_message(shop: HttpTool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARTERDECK_TOOL_KEY", "hush-hush-value")
    contract = shop.contract(
        "/status/403?detail=bad+hush-hush-value", config={"headers": {"A": {"env": "QUARTERDECK_TOOL_KEY"}}}
    )
    message = run(contract).message
    assert "bad" in message
    assert "hush-hush" not in message


def test_a_read_is_a_get_without_body(shop: HttpTool) -> None:
    value = run(shop.contract("/echo", writes=False), {"a": 1}).value
    assert (value["method"], value["body"]) == ("GET", None)
    assert "idempotency-key" not in value["headers"]


def test_an_empty_answer_is_null(shop: HttpTool) -> None:
    result = run(shop.contract("/empty"))
    assert (result.kind, result.value) == ("ok", None)


@pytest.mark.req("C5.3")
@pytest.mark.parametrize(
    ("method", "result", "body"), [("GET", "json", {"thing": "a"}), ("GET", "none", None), ("HEAD", "none", None)]
)
def test_headers_that_the_contract_names_are_part_of_the_answer(shop: HttpTool, method, result, body) -> None:
    config = {"method": method, "result": result, "result_headers": ["etag", "x-not-there"]}
    form = {"type": "object", "properties": {"headers": {"type": "object", "required": ["etag"]}}}
    found = run(shop.contract("/versioned/a", writes=False, config=config, output_schema=form))
    assert (found.kind, found.value) == ("ok", {"body": body, "headers": {"etag": '"v1"'}})


@pytest.mark.parametrize("names", [[], ["set-cookie"], ["ETag"], ["etag", "etag"], ["e tag"], "etag"])
def test_headers_are_named_in_lower_case_and_no_cookie_is_kept(shop: HttpTool, names) -> None:
    with pytest.raises(BadInput) as refused:
        check_contract(shop.contract("/versioned/a", writes=False, config={"result_headers": names}))
    assert str(refused.value.where).startswith("/config/result_headers")


@pytest.mark.parametrize(
    ("path", "write", "error_class", "effects"),
    [
        ("/drop-before", "unknown", "network", 0),
        ("/drop-after", "unknown", "network", 1),
        ("/cut", "unknown", "network", 1),
        ("/hang-before", "unknown", "timeout", 0),
        ("/hang-after", "unknown", "timeout", 1),
        ("/drip", "unknown", "timeout", 0),
        ("/status/500?apply=1", "unknown", "server_error", 1),
        ("/status/500", "unknown", "server_error", 0),
        ("/status/503", "unknown", "server_error", 0),
        ("/status/408", "unknown", "timeout", 0),
        ("/status/429?retry_after=3", "absent", "rate_limited", 0),
        ("/status/425", "absent", "network", 0),
        ("/status/400", "refused", "validation", 0),
        ("/status/422", "refused", "validation", 0),
        ("/status/401", "refused", "permission", 0),
        ("/status/403", "refused", "permission", 0),
        ("/status/404", "refused", "not_found", 0),
        ("/status/402", "refused", "business", 0),
        ("/status/409", "refused", "business", 0),
        ("/garbage", "unknown", "protocol", 1),
        ("/raw/nan", "unknown", "protocol", 1),
        ("/raw/surrogate", "unknown", "protocol", 1),
        ("/raw/twice", "unknown", "protocol", 1),
        ("/raw/latin", "unknown", "protocol", 1),
        ("/gzip", "unknown", "protocol", 1),
        ("/huge", "unknown", "oversize", 1),
    ],
)
@pytest.mark.req("B4.1", "B4.4", "C8.8")
def test_each_failure_of_a_write_and_of_a_read(
    shop: HttpTool, path: str, write: str, error_class: str, effects: int
) -> None:
    # Only a call that hangs has to run into its limit; the limit leaves a busy machine time to connect.
    deadline: dict[str, Any] = {"timeout_s": 2.0} if path in ("/hang-before", "/hang-after", "/drip") else {}
    result = run(shop.contract(path, **deadline), {}, **IDENTITY)
    assert (result.kind, result.error_class, result.sent) == (write, error_class, True)
    assert len(shop.effects()) == effects
    assert result.operation_status == write
    read = run(shop.contract(path, writes=False, **deadline))
    assert (read.kind, read.error_class) == ("error", error_class)
    if "retry_after" in path:
        assert result.retry_after == 3.0


def test_the_contract_may_know_statuses_better(shop: HttpTool) -> None:
    assert run(shop.contract("/status/503", config={"absent_statuses": [503]})).kind == "absent"
    assert run(shop.contract("/status/409", config={"unknown_statuses": [409]})).kind == "unknown"


def test_a_refused_connection_is_definite(shop: HttpTool) -> None:
    contract = shop.contract("/ok")
    shop.kill()
    result = run(contract)
    assert (result.kind, result.error_class, result.sent) == ("absent", "network", False)
    read = run({**contract, "side_effect": "read", "recovery": "replayable"})
    assert (read.kind, read.error_class, read.sent) == ("error", "network", False)


@pytest.fixture
def full_port() -> Iterator[int]:
    """A port whose queue of connections is full: a connection is neither accepted nor refused."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    filler = []
    for _ in range(8):
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex(listener.getsockname())
        filler.append(one)
    time.sleep(0.1)
    yield listener.getsockname()[1]
    for one in (*filler, listener):
        one.close()


def test_a_connection_that_never_opens_is_definite(shop: HttpTool, full_port: int) -> None:
    host = f"127.0.0.1:{full_port}"
    contract = {
        **shop.contract("/ok", timeout_s=0.5),
        "targets": [host],
        "config": {"method": "POST", "url": f"http://{host}/ok"},
    }
    result = run(contract)
    assert (result.kind, result.error_class, result.sent) == ("absent", "timeout", False)


def test_a_name_that_does_not_resolve_is_definite(shop: HttpTool) -> None:
    contract = {**shop.contract("/ok"), "targets": ["nowhere.invalid"], "config": {"url": "http://nowhere.invalid/"}}
    assert run(contract).kind == "absent"


def test_a_tls_failure_is_definite(shop: HttpTool) -> None:
    contract = {**shop.contract("/ok"), "config": {"method": "POST", "url": f"https://{shop.host}/ok"}}
    result = run(contract)
    assert (result.kind, result.sent) == ("absent", False)
    assert shop.effects() == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirected_write_is_not_followed(shop: HttpTool, status: int) -> None:
    result = run(shop.contract(f"/redirect?status={status}&to=/ok"))
    assert (result.kind, result.error_class) == ("unknown", "protocol")
    assert shop.effects() == []


def test_a_redirected_read_stays_on_the_allow_list(shop: HttpTool) -> None:
    assert run(shop.contract("/redirect?to=/echo", writes=False)).kind == "ok"
    result = run(shop.contract("/redirect?to=http://localhost:1/", writes=False))
    assert (result.kind, result.error_class, result.code) == ("error", "policy", "target_refused")
    circle = run(shop.contract("/redirect?to=/redirect?to=/", writes=False))
    assert circle.kind == "error"


@pytest.mark.req("C7.4")
def test_a_name_that_leads_to_a_metadata_address_is_cut_before_sending(shop: HttpTool) -> None:
    """The check is on the address that is connected to: a name can lead anywhere."""
    name = "169.254.43518"  # to a contract a name; every resolver makes 169.254.169.254 of it
    contract = shop.contract("/ok", config={"url": f"http://{name}/ok"}, targets=[name])
    result = run(contract, operation_id="op-1", epoch=1)
    assert (result.kind, result.code, result.sent) == ("not_sent", "target_refused", False)
    assert "metadata address" in result.message


@pytest.mark.req("C2.9")
def test_the_lease_is_asked_when_the_connection_stands(shop: HttpTool) -> None:
    answers = iter([True, False])
    result = run(shop.contract("/ok"), lease_ok=lambda: next(answers))
    assert (result.kind, result.code, result.sent) == ("not_sent", "lease_lost", False)
    assert shop.effects() == []


def test_cancel_interrupts_the_wait(shop: HttpTool) -> None:
    cancel, results = threading.Event(), list[CallResult]()
    request = CallRequest(tool=check_contract(shop.contract("/hang-after")), arguments={}, cancel=cancel)
    thread = threading.Thread(target=lambda: results.append(call(request)))
    thread.start()
    until(shop.effects, 10, "the effect")
    cancel.set()
    thread.join(patient(5))
    assert (results[0].kind, results[0].error_class) == ("unknown", "cancelled")
    assert results[0].duration < request.tool.timeout_s, "it did not wait for its time to end"


def test_the_service_is_killed_after_its_effect(shop: HttpTool) -> None:
    results = list[CallResult]()
    request = CallRequest(tool=check_contract(shop.contract("/hang-after")), arguments={})
    thread = threading.Thread(target=lambda: results.append(call(request)))
    thread.start()
    until(shop.effects, 10, "the effect")
    shop.kill()
    thread.join(patient(5))
    assert results[0].kind == "unknown"


@pytest.mark.req("B4.3", "C3.3")
def test_a_service_that_keeps_keys_gives_the_same_answer(shop: HttpTool) -> None:
    contract = shop.contract("/keyed-drop", recovery="idempotent", idempotency="key")
    lost = run(contract, {}, **IDENTITY)
    assert lost.kind == "unknown"
    looked_up = run(shop.contract("/lookup/{key}", writes=False), {"key": "op-7"})
    assert looked_up.value["found"] is True
    again = run(contract, {}, **IDENTITY)
    assert (again.kind, again.value) == ("ok", looked_up.value["answer"])
    assert len(shop.effects()) == 1


def test_many_calls_at_once(shop: HttpTool) -> None:
    tool = check_contract(shop.contract("/ok"))
    results = list[CallResult]()
    threads = [
        threading.Thread(target=lambda: results.append(call(CallRequest(tool=tool, arguments={})))) for _ in range(32)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(patient(20))
    assert [result.kind for result in results] == ["ok"] * 32
    assert len(shop.effects()) == 32
