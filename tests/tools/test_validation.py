"""The check before and after a call: schema, size, targets; places named, values kept out (C3.2)."""

from __future__ import annotations

import time
from typing import Any

import pytest

from runtime.kernel.errors import BadInput, InvalidJSON, PayloadTooLarge, SchemaMismatch
from runtime.kernel.schemas import compile_schema
from runtime.tools.contract import ToolContract, check_contract
from runtime.tools.urls import expand
from runtime.tools.validation import check_output, prepare

pytestmark = pytest.mark.req("C3.2")


def contract(schema: dict[str, Any], **more: Any) -> ToolContract:
    return check_contract(
        {
            "name": "t",
            "version": 1,
            "adapter": "python",
            "config": {"entry_point": "test.add"},
            "input_schema": schema,
            "side_effect": "none",
            "recovery": "replayable",
            **more,
        }
    )


INTEGER = {"type": "object", "properties": {"n": {"type": "integer"}, "x": {"type": "number"}}}


def test_an_integer_is_not_a_decimal_that_happens_to_be_whole() -> None:
    tool = contract(INTEGER)
    assert prepare(tool, {"n": 1, "x": 1.0}) == b'{"n":1,"x":1}'
    with pytest.raises(SchemaMismatch) as caught:
        prepare(tool, {"n": 1.0})
    assert caught.value.where == "/n"


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}},
        {"type": ["integer", "null"]},
        {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        {"allOf": [{"type": "integer"}]},
    ],
)
def test_the_integer_rule_reaches_everywhere(schema: dict[str, Any]) -> None:
    compiled = compile_schema(schema)
    assert compiled.fits(1)
    assert not compiled.fits(1.0)


def test_schema_words_inside_data_stay_data() -> None:
    compiled = compile_schema({"properties": {"type": {"const": {"type": "integer"}}}})
    assert compiled.fits({"type": {"type": "integer"}})
    assert compile_schema({"type": ["integer", "number"]}).fits(1.0)


def test_a_value_is_not_repeated_in_the_message() -> None:
    tool = contract({"type": "object", "properties": {"card": {"type": "string", "pattern": "^x$"}}})
    with pytest.raises(SchemaMismatch) as caught:
        prepare(tool, {"card": "4111111111111111"})
    assert caught.value.where == "/card"
    assert "4111" not in str(caught.value.as_problem())


@pytest.mark.parametrize(
    "value", [{"a": float("nan")}, {"a": float("inf")}, {"a": "\ud800"}, {"a": 2**70}, {"a": {1}}, {1: 2}, {"a": b"x"}]
)
def test_what_json_cannot_carry_is_refused(value: dict[Any, Any]) -> None:
    with pytest.raises(BadInput):
        prepare(contract({"type": "object"}), value)
    with pytest.raises(InvalidJSON):
        check_output(contract({"type": "object"}), value)


def test_sizes_are_limited() -> None:
    with pytest.raises(PayloadTooLarge):
        prepare(contract({"type": "object"}), {"a": "x" * 1_100_000})
    with pytest.raises(PayloadTooLarge):
        check_output(contract({"type": "object"}, max_result_bytes=10), {"a": "x" * 10})


def test_a_pattern_cannot_stop_the_worker() -> None:
    tool = contract({"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+(?=b)$"}}})
    started = time.monotonic()
    with pytest.raises(SchemaMismatch):
        prepare(tool, {"a": "a" * 60})
    assert time.monotonic() - started < 30, "backtracking over sixty letters takes years"


def test_a_keyword_of_the_schema_named_like_ours_is_harmless() -> None:
    with pytest.raises(SchemaMismatch):
        prepare(contract({"type": "object", "required": ["a"]}), {})


HTTP = {
    "adapter": "http",
    "config": {"url": "http://shop.example/o/{id}/x{?q}{&r}"},
    "targets": ["shop.example"],
    "side_effect": "read",
}


@pytest.mark.parametrize(
    ("arguments", "url"),
    [
        ({"id": "a/b"}, "http://shop.example/o/a%2Fb/x"),
        ({"id": "..%2f"}, "http://shop.example/o/..%252f/x"),
        ({"id": 7, "r": "a&b=c"}, "http://shop.example/o/7/x?r=a%26b%3Dc"),
        ({"id": "@evil.example", "q": True, "r": 1}, "http://shop.example/o/%40evil.example/x?q=true&r=1"),
        ({"id": "ü#?"}, "http://shop.example/o/%C3%BC%23%3F/x"),
    ],
)
def test_arguments_cannot_leave_their_place_in_the_address(arguments: dict[str, Any], url: str) -> None:
    assert expand(contract({"type": "object"}, **HTTP), arguments) == url


@pytest.mark.parametrize("arguments", [{}, {"id": None}, {"id": ".."}, {"id": ""}, {"id": {}}, {"id": "x" * 9000}])
def test_arguments_that_fit_no_address_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(SchemaMismatch):
        prepare(contract({"type": "object"}, **HTTP), arguments)
