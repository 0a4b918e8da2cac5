"""What a contract asks for as evidence of success decides what an answer is worth (C3.1)."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.kernel.errors import BadInput
from runtime.tools.contract import check_contract
from tests.support.http_tool import HttpTool
from tests.tools.conftest import python_contract, run

pytestmark = pytest.mark.req("C3.1")
QUERY = {"recovery": "query", "query": "test.find@1"}


@pytest.mark.parametrize(
    ("holds", "kind", "code"),
    [
        ("answer.applied && answer.number > 0", "ok", None),
        ("operation.external_ref == '/thing/1' && operation.id == 'op-7'", "ok", None),
        ("answer.number == arguments.number", "unknown", "not_proved"),
        ("answer.receipt != ''", "unknown", "not_proved"),
        ("answer.number", "unknown", "not_proved"),
    ],
    ids=["shown", "by-reference", "another", "not-there", "no-condition"],
)
def test_a_write_that_is_answered_without_its_evidence_is_unknown(shop: HttpTool, holds, kind, code) -> None:
    declared = {"success_evidence": {"holds": holds, "kind": "receipt"}}
    contract = shop.contract("/ok", config={"reference_header": "location"}, **declared)
    result = run(contract, {"number": 7}, operation_id="op-7", epoch=1)
    assert (result.kind, result.code, result.external_ref) == (kind, code, "/thing/1")
    assert len(shop.effects()) == 1
    if code:
        assert "receipt" in result.message


def test_where_only_a_query_proves_it_no_answer_of_the_call_is_a_success(shop: HttpTool) -> None:
    contract = shop.contract("/ok", **QUERY, success_evidence={"holds": "answer.found", "from": "query"})
    result = run(contract, {}, operation_id="op-8", epoch=1)
    assert (result.kind, result.code) == ("unknown", "not_proved")
    assert "test.find@1" in result.message


@pytest.mark.parametrize(
    ("declared", "more", "where"),
    [
        ({"holds": "answer.ok"}, {"writes": False}, "/success_evidence"),
        ({"holds": "answer.ok", "from": "query"}, {}, "/success_evidence/from"),
        ({"holds": "answer.("}, {}, "/success_evidence/holds"),
        ({"holds": "nodes.a.output"}, {}, "/success_evidence/holds"),
        ({"from": "answer"}, {}, "/success_evidence"),
        ({"holds": "answer.ok", "from": "elsewhere"}, {}, "/success_evidence"),
    ],
    ids=["no-effect", "no-query", "syntax", "unknown-name", "no-condition", "no-place"],
)
def test_evidence_that_nothing_could_show_is_refused(
    declared: dict[str, Any], more: dict[str, Any], where: str
) -> None:
    with pytest.raises(BadInput) as refused:
        python_contract("echo", **{"writes": True, "success_evidence": declared, **more})
    assert (refused.value.where or "").startswith(where)


def test_a_contract_that_declares_none_is_the_one_it_was() -> None:
    plain = python_contract("echo", writes=True)
    assert {"success_evidence", "samples"}.isdisjoint(plain.as_json())
    assert check_contract({**plain.as_json(), "success_evidence": None, "samples": "optional"}).digest == plain.digest
    proved = python_contract("echo", writes=True, success_evidence={"holds": "answer.ok"})
    assert check_contract(proved.as_json()) == proved != plain
