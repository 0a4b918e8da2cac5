"""Asking a tool by key: what each answer means, when "not found" proves absence, and what goes wrong (B4.4, C3.6)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.request import Request, urlopen

import pytest

from runtime.kernel.errors import BadInput
from runtime.tools.contract import check_contract
from runtime.tools.query import Question, ask
from tests.support.shop import Shop

pytestmark = pytest.mark.req("C3.6", "B4.4")
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def shop(tmp_path_factory) -> Iterator[Shop]:
    with Shop(tmp_path_factory.mktemp("shop")) as shop:
        yield shop


@pytest.fixture
def question(shop):
    def make(*, order_id: str = "Q-1", lookup: dict[str, Any] | None = None, **more: Any) -> Question:
        contract = shop.contract("refund")
        return Question(
            **{
                "tenant_id": uuid.uuid4(),
                "operation_id": uuid.uuid4(),
                "business_key": f"refund:{order_id}",
                "run_id": uuid.uuid4(),
                "step_id": uuid.uuid4(),
                "epoch": 3,
                "arguments": {"order_id": order_id, "amount": "10.00"},
                "external_ref": None,
                "intended_at": NOW,
                "sent_at": NOW,
                "over_at": None,
                "now": NOW + timedelta(seconds=60),
                "tool": check_contract({**contract, "lookup": {**contract["lookup"], **(lookup or {})}}),
                "query": check_contract(shop.contract("find_refund")),
                **more,
            }
        )

    yield make
    shop.behave()


def pay(shop: Shop, question: Question, **body: Any) -> dict[str, Any]:
    data = json.dumps({**question.arguments, **body}).encode()
    request = Request(f"{shop.url}/refunds", data=data, headers={"Idempotency-Key": str(question.operation_id)})
    with urlopen(request, timeout=5) as answer:
        return json.load(answer)


def test_an_effect_is_found_with_reference_and_result(shop, question):
    one = question()
    refund = pay(shop, one)
    finding = ask(one)
    assert (finding.kind, finding.external_ref) == ("applied", refund["refund_id"])
    assert json.loads(finding.result or b"") == refund
    assert finding.answer_sha256 is not None
    assert "amount" not in json.dumps(finding.facts())


def test_a_part_and_another_effect_are_told_apart(shop, question):
    part, other = question(order_id="Q-2"), question(order_id="Q-3")
    shop.tell("refund", "Q-2", partial=True)
    pay(shop, part)
    assert ask(part).kind == "partial"
    pay(shop, other, order_id="Q-4")
    assert ask(other).kind == "conflicts"


@pytest.mark.parametrize(
    ("times", "proves"),
    [
        ({"now": NOW + timedelta(seconds=60)}, True),
        ({"now": NOW + timedelta(seconds=1)}, False),
        ({"now": NOW + timedelta(seconds=60), "over_at": NOW + timedelta(seconds=59)}, False),
        ({"now": NOW + timedelta(days=366)}, False),
    ],
    ids=["consistent", "too-early", "too-early-after-the-call", "past-retention"],
)
def test_not_found_is_read_by_consistency_and_retention(question, times, proves):
    finding = ask(question(**times))
    assert (finding.kind, finding.proves) == ("not_found", proves)


def test_not_found_never_proves_absence_where_no_consistency_is_declared(shop, question):
    one = question()
    contract = {**json.loads(one.tool.canonical), "lookup": {"applied": "answer.found"}}
    finding = ask(question(tool=check_contract(contract)))
    assert (finding.kind, finding.proves, finding.decisive_at) == ("not_found", False, None)


def test_a_tool_may_still_work_on_it(shop, question):
    one = question(order_id="Q-5", lookup={"in_progress": "answer.found && answer.refund.status == 'paid'"})
    pay(shop, one)
    assert ask(one).kind == "in_progress"


@pytest.mark.parametrize(
    ("manner", "code"),
    [
        ({"before": "answer", "status": 501}, "told_so"),
        ({"after": "garbage"}, "unreadable"),
        ({"before": "drop"}, None),
        ({"before": "hang"}, None),
    ],
    ids=["501", "garbage", "drop", "hang"],
)
def test_no_answer_is_no_finding(shop, question, manner, code):
    shop.tell("query", **manner)
    finding = ask(question(), seconds=0.5 if manner.get("before") == "hang" else 30)
    assert finding.kind == "unreachable"
    assert finding.error_class in ("server_error", "protocol", "network", "timeout")
    if code:
        assert finding.code == code


def test_an_answer_that_lacks_what_the_lookup_reads_is_no_finding(question):
    finding = ask(question(lookup={"applied": "answer.nothing_of_the_kind"}))
    assert (finding.kind, finding.code) == ("unreachable", "unreadable")


@pytest.mark.parametrize("proof", [None, {"holds": "answer.status == 'paid'"}], ids=["no-evidence", "evidence"])
def test_a_result_that_the_step_could_not_have_given_is_not_used(shop, question, proof):
    """Nor does it show the evidence that a contract asks of it."""
    one = question(order_id="Q-6")
    contract = json.loads(one.tool.canonical) | {"success_evidence": proof}
    contract["output_schema"] = {"type": "object", "required": ["receipt"]}
    one = question(order_id=f"Q-6-{proof is None}", tool=check_contract(contract))
    pay(shop, one)
    finding = ask(one)
    assert (finding.kind, finding.result) == ("applied" if proof is None else "in_progress", None)
    assert "cannot be used" in finding.message


def test_a_query_that_writes_is_not_called(shop, question):
    finding = ask(question(order_id="Q-7", query=check_contract(shop.contract("mail"))))
    assert (finding.kind, finding.code) == ("unreachable", "query_writes")
    assert shop.effects("Q-7") == []


@pytest.mark.parametrize(
    ("lookup", "where"),
    [
        ({"applied": "answer.found &&"}, "/lookup/applied"),
        ({"applied": "nodes.a.output"}, "/lookup/applied"),
        ({"result": {"a": {"$": "1 +"}}}, "/lookup/result/a/$"),
        ({"appplied": "true"}, "/lookup"),
        ({"consistent_after_s": -1}, "/lookup/consistent_after_s"),
    ],
    ids=["syntax", "name", "template", "member", "number"],
)
def test_a_lookup_that_cannot_be_read_is_refused_with_its_place(shop, lookup, where):
    with pytest.raises(BadInput) as caught:
        check_contract({**shop.contract("refund"), "lookup": lookup})
    assert (caught.value.where or "").startswith("/lookup")
    assert any(problem["where"].startswith(where.rpartition("/")[0]) for problem in caught.value.extra["problems"])


@pytest.mark.req("C3.1")
def test_a_contract_without_a_lookup_is_the_contract_it_was(shop):
    contract = check_contract(shop.contract("order"))
    assert b"lookup" not in contract.canonical
    assert check_contract(json.loads(contract.canonical)) == contract


@pytest.mark.req("C3.1")
@pytest.mark.parametrize(
    ("declared", "kind", "code"),
    [
        ({"holds": "answer.status == 'paid'"}, "applied", None),
        ({"holds": "answer.status == 'settled'"}, "in_progress", "not_proved"),
        ({"holds": "answer.refund.refund_id.startsWith('R-')", "from": "query"}, "applied", None),
        ({"holds": "answer.refund.receipt != ''", "from": "query"}, "in_progress", "not_proved"),
    ],
    ids=["in-the-result", "not-in-the-result", "in-the-answer", "not-in-the-answer"],
)
def test_what_is_said_to_be_there_without_its_evidence_is_asked_about_again(shop, question, declared, kind, code):
    one = question(order_id=f"E-{declared['holds']}")
    pay(shop, one)
    contract = {**json.loads(one.tool.canonical), "success_evidence": declared}
    finding = ask(replace(one, tool=check_contract(contract)))
    assert (finding.kind, finding.code) == (kind, code)
    assert (finding.result is not None) is (kind == "applied")
