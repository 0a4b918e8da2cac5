"""Recordings of tools are read by the code that reads live answers; nothing leaves (C8.8)."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from dashboard.example.samples import shop_samples
from dashboard.example.tools import contracts
from runtime.kernel.errors import BadInput
from runtime.tools.builtin import BUILTIN_CONTRACTS
from runtime.tools.builtin_samples import builtin_samples
from runtime.tools.contract import ToolContract, check_contract
from runtime.tools.recordings import check_sample, read_recording, wanted_kinds, why_unfit
from tests.support.shop import Shop
from tests.tools.conftest import python_contract, run

pytestmark = pytest.mark.req("C8.8")

SHOP = [check_contract(one) for one in contracts(8080, 1)]
SHIPPED = [(one, builtin_samples(one)) for one in BUILTIN_CONTRACTS]
SHIPPED += [(one, shop_samples(one.as_json())) for one in SHOP]
REFUND = next(one for one in SHOP if one.name == "shop.refund")
MCP = {
    "name": "test.mcp", "version": 1, "adapter": "mcp", "config": {"command": "nobody", "tool": "pay"},
    "input_schema": {"type": "object"}, "side_effect": "write", "recovery": "human", "max_result_bytes": 1000,
}  # fmt: skip


def text(value: str, **more: Any) -> dict[str, Any]:
    return {"result": {"content": [{"type": "text", "text": value}], **more}}


@pytest.mark.parametrize(
    ("contract", "sample"),
    [(contract, sample) for contract, samples in SHIPPED for sample in samples],
    ids=[f"{contract.name}-{sample['name']}" for contract, samples in SHIPPED for sample in samples],
)
def test_every_shipped_sample_is_read_as_it_has_to_be(
    contract: ToolContract, sample: dict[str, Any], monkeypatch
) -> None:
    def connect(*_arguments: Any) -> None:
        raise AssertionError("a recording asked the network")

    monkeypatch.setattr(socket.socket, "connect", connect)
    check_sample(contract, sample, "")
    found = read_recording(contract, sample["recording"])
    assert why_unfit(contract, sample["kind"], sample["expect"], found) is None


@pytest.mark.parametrize(("contract", "samples"), SHIPPED, ids=[contract.name for contract, _samples in SHIPPED])
def test_the_shipped_samples_show_every_kind_that_can_happen(contract: ToolContract, samples: list[Any]) -> None:
    assert set(wanted_kinds(contract)) <= {one["kind"] for one in samples}


def test_the_recorded_shop_is_the_shop_that_runs(tmp_path) -> None:
    """What was recorded has the form, and is read as, what the running shop answers now."""
    recorded = {one["name"]: one for one in shop_samples(REFUND.as_json())}
    moods: dict[str, dict[str, Any]] = {
        "done": {}, "broken": {"after": "answer", "status": 500}, "garbage": {"after": "garbage"},
        "half": {"partial": True}, "lost": {"before": "drop"},
    }  # fmt: skip
    orders = {"busy": "busy-1", "closed": "closed-1"}
    with Shop(tmp_path) as shop:
        live = check_contract(shop.contract("refund"))
        for name in [*moods, *orders]:
            order_id = orders.get(name, f"L-{name}")
            if name in moods:
                shop.tell("refund", order_id, **moods[name])
            result = run(live, {"order_id": order_id, "amount": "12.50"}, operation_id=f"op-{name}", epoch=1)
            found = read_recording(REFUND, recorded[name]["recording"])
            assert (result.kind, result.error_class) == (found["kind"], found["error_class"]), name
            if name == "done":
                assert set(result.value) == set(recorded[name]["recording"]["answer"]["json"])


@pytest.mark.parametrize(
    ("recording", "kind", "error_class"),
    [
        (text('{"paid": true}'), "ok", None),
        (text("no", isError=True), "unknown", "business"),
        ({"error": {"code": -32602, "message": "bad arguments"}}, "refused", "validation"),
        ({"error": {"code": -32603, "message": "broken"}}, "unknown", "server_error"),
        ({"result": {"content": "nothing of the kind"}}, "unknown", "protocol"),
        (text("x" * 2000), "unknown", "oversize"),
        ({"broken": "closed"}, "unknown", "network"),
        ({"broken": "garbage"}, "unknown", "protocol"),
        ({"broken": "oversize"}, "unknown", "oversize"),
    ],
    ids=["ok", "error", "refused", "broken", "malformed", "large", "closed", "garbage", "oversize"],
)
def test_an_mcp_recording_is_read_without_a_server(recording, kind, error_class) -> None:
    found = read_recording(check_contract(MCP), recording)
    assert (found["kind"], found["error_class"]) == (kind, error_class)


@pytest.mark.parametrize("runs", ["inline", "thread", "process"])
@pytest.mark.parametrize(
    ("recording", "kind", "error_class"),
    [
        ({"answer": {"value": {"a": 1}}}, "ok", None),
        ({"answer": {"value": "no object"}}, "unknown", "protocol"),
        ({"answer": {"bytes": 2000}}, "unknown", "oversize"),
        ({"raises": {"error_class": "business", "applied": False}}, "refused", "business"),
        ({"raises": {"error_class": "network"}}, "unknown", "network"),
        ({"raw": '{"value": NaN}'}, "unknown", "protocol"),
    ],
    ids=["ok", "no-object", "large", "refused", "network", "nan"],
)
def test_a_python_recording_is_read_without_its_function(runs, recording, kind, error_class) -> None:
    """The entry point does not exist here: only who reads is under test."""
    form = {"type": "object"}
    contract = python_contract("not-installed", runs=runs, writes=True, max_result_bytes=1000, output_schema=form)
    found = read_recording(contract, recording)
    assert (found["kind"], found["error_class"]) == (kind, error_class)


@pytest.mark.parametrize(
    ("report", "terms", "kind"),
    [
        ({"version": 1, "status": "succeeded", "result": {"paid": True}}, {}, "query"),
        ({"version": 1, "status": "succeeded"}, {"recovery": "human", "query": None, "lookup": None,
         "success_evidence": None}, "case"),
        ({"version": 0, "status": "done"}, {}, "refused"),
    ],
    ids=["askable", "nobody-to-ask", "malformed"],
)  # fmt: skip
def test_a_late_report_leads_to_a_question_or_a_person_and_never_to_a_status(report, terms, kind) -> None:
    contract = check_contract({**REFUND.as_json(), **terms})
    sample = {"name": "late", "kind": "late_callback", "recording": {"callback": report}, "expect": {"kind": kind}}
    check_sample(contract, sample, "")
    found = read_recording(contract, sample["recording"])
    assert why_unfit(contract, "late_callback", sample["expect"], found) is None


def test_a_late_report_is_asked_of_those_who_call_back() -> None:
    calls_back = check_contract({**REFUND.as_json(), "config": {**REFUND.config, "callback": True}})
    assert set(wanted_kinds(calls_back)) - set(wanted_kinds(REFUND)) == {"late_callback"}


@pytest.mark.parametrize(
    ("kind", "answer", "expect", "says"),
    [
        ("denied", {"status": 200, "json": {"status": "paid"}}, {"kind": "ok"}, "`permission`"),
        ("partial", {"status": 200, "json": {"status": "paid"}}, {"kind": "ok"}, "no success"),
        ("normal", {"status": 500}, {"kind": "ok"}, "kind `unknown`"),
        ("malformed", {"status": 403}, {"kind": "refused"}, "`protocol`"),
        ("deterministic_error", {"status": 409}, {"kind": "refused", "code": "closed"}, "code `http_409`"),
    ],
)
def test_what_is_read_otherwise_or_is_none_of_its_kind_does_not_pass(kind, answer, expect, says) -> None:
    arguments = {"order_id": "A-1", "amount": "1.00"}
    found = read_recording(REFUND, {"arguments": arguments, "answer": answer})
    assert says in (why_unfit(REFUND, kind, expect, found) or "")


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"kind": "strange"}, "/kind"),
        ({"name": "a\nb"}, "/name"),
        ({"recording": {"answer": {"status": 99}}}, "/recording/answer/status"),
        ({"recording": {}}, "/recording"),
        ({"recording": {"answer": {"status": 200}, "broken": "cut"}}, "/recording"),
        ({"recording": {"callback": {}}}, "/recording"),
        ({"expect": {"kind": "fine"}}, "/expect/kind"),
        ({"recording": {"answer": {"status": 200, "body": "x" * 100_001}}}, "/recording/answer/body"),
        ({"recording": {"answer": {"status": 200, "json": "x" * 200_001}}}, ""),
        ({"recording": {"answer": {"status": 200, "json": float("nan")}}}, "/recording/answer/json"),
    ],
    ids=["kind", "name", "status", "nothing", "two-things", "report", "expect", "body", "size", "nan"],
)
def test_a_recording_of_no_form_is_refused_with_its_place(change, where) -> None:
    sample = {
        "name": "one", "kind": "normal", "recording": {"answer": {"status": 200}}, "expect": {"kind": "ok"}, **change,
    }  # fmt: skip
    with pytest.raises(BadInput) as refused:
        check_sample(REFUND, sample, "/samples/0")
    assert refused.value.where == f"/samples/0{where}"
    assert refused.value.remediation
