"""What rules may say, what they read, and that a mistake in them names its place."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from approvals.policy import amount_of, check_rules, compiled, facts_of
from runtime.kernel.errors import BadInput
from runtime.tools.contract import check_contract
from tests.support.office import writing

pytestmark = pytest.mark.req("C5.3", "A10.2")

TELL = {"name": "tell", "when": "tool.name == 'office.tell'", "decide": "allow"}
LOOPS = " && ".join(f"arguments.items.all(x, x > {i})" for i in range(4))


@pytest.mark.parametrize(
    ("rules", "where"),
    [
        ([], "/rules"),
        ({}, "/rules"),
        ([{"name": "x", "when": "true"}], "/rules/0"),
        ([{"name": "x", "when": "true", "decide": "maybe"}], "/rules/0/decide"),
        ([{"name": "x", "when": "tool.name ==", "decide": "deny"}], "/rules/0/when"),
        ([{"name": "x", "when": "secrets.all", "decide": "deny"}], "/rules/0/when"),
        ([TELL, TELL], "/rules/1/name"),
        ([{"name": f"r{i}", "when": LOOPS, "decide": "deny"} for i in range(5)], "/rules/4/when"),
        ([{"name": f"r{i}", "when": f"node == '{'x' * 3000}'", "decide": "deny"} for i in range(50)], "/rules"),
    ],
    ids=["none", "object", "no-verdict", "word", "syntax", "name", "twice", "loops", "long"],
)
def test_rules_in_error_name_the_place(rules, where):
    with pytest.raises(BadInput) as refused:
        check_rules(rules)
    assert refused.value.where.startswith(where)


def test_what_rules_read():
    schema = {"type": "object", "properties": {"to": {"type": "string"}}}
    contract = check_contract(writing("shop.refund", input_schema=schema, serial="customer:{to}"))
    facts = facts_of(
        contract, {"amount": "120.00", "to": "x"}, requester="user:ada", workflow="refund", node="pay",
        business_key="k:1", now=datetime(2026, 12, 24, 3, tzinfo=UTC),
    )  # fmt: skip
    for text in (
        "tool.name == 'shop.refund' && tool.version == 1 && !tool.undo",
        "double(arguments.amount) > 100.0",
        "requester == 'user:ada' && workflow == 'refund' && node == 'pay' && business_key == 'k:1'",
        "now.hour < 6 && now.weekday == 4 && now.date == '2026-12-24'",
        "risk == 'medium' && 'cannot_be_undone' in risks",
        "has(arguments.to) && !has(arguments.iban)",
        "amount > 100.0 && amount <= 120",
        """target == 'customer:"x"'""",
        "!undoes",
    ):
        rules = check_rules([{"name": "r", "when": text, "decide": "allow"}])
        assert compiled(1, rules).judge(facts).decide == "allow", text


@pytest.mark.parametrize(
    ("arguments", "amount"),
    [
        ({"amount": "120.50"}, 120.5),
        ({"amount": 7}, 7.0),
        ({"total": "3", "sum": "4"}, 3.0),
        ({"amount": "-1e3"}, -1000.0),
        ({"to": "x"}, None),
        ({"amount": "a lot", "total": "3"}, None),
        ({"amount": "NaN"}, None),
        ({"amount": "Infinity"}, None),
        ({"amount": "1e999999"}, None),
        ({"amount": "9" * 500}, None),
        ({"amount": True}, None),
        ({"amount": {"value": 1}}, None),
        ({"amount": None}, None),
        ([1], None),
    ],
    ids=str,
)
def test_an_amount_is_a_finite_number_or_none(arguments, amount):
    assert amount_of(arguments) == amount
