"""Tool contracts: what is refused, where and how to mend it; what makes a version immutable (C3.1, C4.1)."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from runtime.kernel.errors import BadInput
from runtime.kernel.schemas import compile_schema
from runtime.tools.builtin import BUILTIN_CONTRACTS
from runtime.tools.contract import CONTRACT_SCHEMA, check_contract, parse_reference, target_allowed

pytestmark = pytest.mark.req("C3.1")

PLAIN: dict[str, Any] = {
    "name": "shop.load_order",
    "version": 1,
    "adapter": "http",
    "config": {"method": "GET", "url": "https://shop.example/orders/{order_id}{?view}"},
    "input_schema": {"type": "object", "properties": {"order_id": {"type": "string"}, "view": {"type": "string"}}},
    "side_effect": "read",
    "recovery": "replayable",
    "targets": ["shop.example"],
}
PYTHON = {"adapter": "python", "config": {"entry_point": "a"}, "targets": []}
WRITE = {"side_effect": "write", "recovery": "human"}


def test_a_plain_contract_is_filled_with_defaults() -> None:
    contract = check_contract(PLAIN)
    assert contract.reference == "shop.load_order@1"
    assert (contract.on_error, contract.idempotency, contract.runs, contract.pool) == (
        "unknown",
        "none",
        "thread",
        "default",
    )
    assert contract.retry["max_attempts"] == 3
    assert not contract.writes
    assert check_contract(contract.as_json()) == contract


def test_the_digest_makes_a_version_immutable() -> None:
    first, again = check_contract(PLAIN), check_contract({**PLAIN, "timeout_s": 60.0, "on_error": "unknown"})
    other = check_contract({**PLAIN, "description": "something else"})
    assert first.digest == again.digest
    assert hash(first) == hash(again)
    assert first.digest != other.digest
    assert first != other


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"name": "Shop"}, "/name"),
        ({"name": "core.mine"}, "/name"),
        ({"version": 0}, "/version"),
        ({"version": 1.0}, "/version"),
        ({"version": "1"}, "/version"),
        ({"adapter": "ftp"}, "/adapter"),
        ({"side_effect": "maybe"}, "/side_effect"),
        ({"timeout_s": 0}, "/timeout_s"),
        ({"unheard_of": 1}, ""),
        ({"side_effect": "write"}, "/recovery"),
        ({**WRITE, "recovery": "idempotent"}, "/idempotency"),
        ({**WRITE, "recovery": "query"}, "/query"),
        ({**WRITE, "recovery": "compensable"}, "/compensation"),
        ({"compensation": "shop.undo@1"}, "/compensation"),
        ({**WRITE, "recovery": "query", "query": "shop.load_order@1"}, "/query"),
        ({"query": "shop.find"}, "/query"),
        ({"runs": "process"}, "/runs"),
        ({"retry": {"retry_on": ["permission"]}}, "/retry/retry_on/0"),
        ({"retry": {"initial_s": 9, "max_s": 1}}, "/retry/initial_s"),
        ({"targets": []}, "/targets"),
        ({"targets": ["other.example"]}, "/targets"),
        ({"targets": ["shop.example", "169.254.169.254"]}, "/targets/1"),
        ({"targets": ["shop.example", "metadata.google.internal:80"]}, "/targets/1"),
        ({"config": {"url": "https://{host}/"}}, "/config/url"),
        ({"config": {"url": "https://shop.example{host}/"}}, "/config/url"),
        ({"config": {"url": "file:///etc/passwd"}}, "/config/url"),
        ({"config": {"url": "https://user:pw@shop.example/"}}, "/config/url"),
        ({"config": {"url": "https://shop.example/{unknown}"}}, "/config/url"),
        ({"config": {"method": "GET"}}, "/config/url"),
        ({"config": {"url": "https://shop.example/", "headers": {"A": "x\r\nB: y"}}}, "/config/headers/A"),
        ({"config": {"url": "https://shop.example/", "headers": {"A": {"env": "DATABASE_URL"}}}}, "/config/headers/A"),
        ({"input_schema": {"type": "strnig"}}, "/input_schema/type"),
        ({"input_schema": {"$ref": "http://127.0.0.1/schema.json"}}, "/input_schema"),
        ({"input_schema": {"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}}, "/input_schema"),
        ({"output_schema": {"pattern": "("}}, "/output_schema/pattern"),
        ({**PYTHON, "config": {}}, "/config"),
        ({**PYTHON, "config": {"entry_point": "a", "callable": "b:c"}}, "/config"),
        ({**PYTHON, "targets": ["a"]}, "/targets"),
        ({"adapter": "mcp", "config": {"tool": "a"}}, "/config"),
        ({"adapter": "mcp", "config": {"command": "a"}}, "/config/tool"),
        ({"adapter": "mcp", "config": {"tool": "a", "url": "https://other.example/mcp"}}, "/targets"),
        ({"description": "\ud800"}, "/description"),
        ({"input_schema": {"maximum": float("nan")}}, "/input_schema/maximum"),
    ],
)
def test_each_wrong_part_is_named_with_its_place_and_mend(change: dict[str, Any], where: str) -> None:
    with pytest.raises(BadInput) as caught:
        check_contract({**copy.deepcopy(PLAIN), **change})
    assert caught.value.where == where
    assert caught.value.remediation
    assert caught.value.extra["problems"][0]["where"] == where


@pytest.mark.parametrize("value", [None, [], "x", 1])
def test_a_contract_is_an_object(value: Any) -> None:
    with pytest.raises(BadInput):
        check_contract(value)


def test_several_problems_are_told_at_once() -> None:
    with pytest.raises(BadInput) as caught:
        check_contract({**PLAIN, "version": 0, "side_effect": "maybe"})
    assert {p["where"] for p in caught.value.extra["problems"]} == {"/version", "/side_effect"}


def test_the_published_schema_agrees_with_the_check() -> None:
    form = compile_schema(CONTRACT_SCHEMA)
    for contract in (*BUILTIN_CONTRACTS, check_contract(PLAIN)):
        assert form.problems(contract.as_json()) == []


@pytest.mark.parametrize(
    ("targets", "url", "allowed"),
    [
        (("a.example",), ("https", "a.example", None), True),
        (("a.example",), ("https", "A.Example", 443), True),
        (("a.example",), ("https", "a.example", 8443), False),
        (("a.example:8443",), ("https", "a.example", 8443), True),
        (("a.example",), ("https", "sub.a.example", None), False),
        (("[::1]:80",), ("http", "::1", None), True),
        (("169.254.169.254",), ("http", "169.254.169.254", None), False),
        (("[::ffff:169.254.169.254]",), ("http", "::ffff:169.254.169.254", None), False),
        ((), ("https", "a.example", None), False),
    ],
)
def test_the_allow_list_of_hosts(targets: tuple[str, ...], url: tuple[str, str, int | None], allowed: bool) -> None:
    assert target_allowed(targets, *url) is allowed


def test_a_reference_has_a_version() -> None:
    assert parse_reference("a.b@12") == ("a.b", 12)
    for wrong in ("a.b", "a.b@", "a.b@0", "a.b@1.0", "@1", "a.b@latest"):
        with pytest.raises(BadInput):
            parse_reference(wrong)


def test_the_built_in_tools_have_fixed_digests() -> None:
    assert [contract.reference for contract in BUILTIN_CONTRACTS] == [
        "core.noop@1",
        "core.echo@1",
        "core.fail@1",
        "core.sleep@1",
    ]
    assert len({contract.digest for contract in BUILTIN_CONTRACTS}) == 4
