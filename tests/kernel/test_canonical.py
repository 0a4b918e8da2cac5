"""Strict JSON in, canonical bytes out (C2.2, engine decision 12)."""

from __future__ import annotations

import datetime as dt
import json
import math
import uuid

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from runtime.kernel import strictjson
from runtime.kernel.canonical import canonical_bytes, digest, fingerprint, loads, parse_strict
from runtime.kernel.errors import InvalidJSON, PayloadTooLarge

pytestmark = pytest.mark.req("C2.2")

SAFE = 2**53 - 1
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
decimals = st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: not SAFE < abs(x) < 1e21)
scalars = st.none() | st.booleans() | st.integers(-SAFE, SAFE) | decimals | texts
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=40)

REFUSED = [
    ('{"a":1,"a":2}', "/a", "twice"),
    ('{"x":[{"a":1,"b":0,"a":2}]}', "/x/0/a", "twice"),
    ('{"a\\u0062":1,"ab":2}', "/ab", "twice"),
    ('{"a/b":{"~":NaN}}', "/a~1b/~0", "NaN"),
    ('{"a":-Infinity}', "/a", "Infinity"),
    ('{"a":None}', "/a", "None"),
    ('{"a":["\\ud800"]}', "/a/0", "surrogate"),
    ('{"a":["\\udc00\\ud800"]}', "/a/0", "surrogate"),
    ('{"a":"\\u0000"}', "/a", "NUL"),
    ('{"a":{"\\u0000":1}}', "/a", "NUL"),
    ('{"a":9007199254740992}', "/a", "2^53-1"),
    ('{"a":-9007199254740992}', "/a", "2^53-1"),
    ('{"a":' + "9" * 5000 + "}", "/a", "2^53-1"),
    ('{"a":9007199254740992.0}', "/a", "2^53-1"),
    ('{"a":1e20}', "/a", "2^53-1"),
    ('{"a":0.1000000000000000055511151231257827}', "/a", "more digits"),
    ('{"a":0.30000000000000001}', "/a", "more digits"),
    ('{"a":1e400}', "/a", "beyond"),
    ('{"a":1e999999999}', "/a", "beyond"),
    ('{"a":1e-400}', "/a", "more digits"),
    ("[1,2", "line 1, column 5", "expected"),
    ("[1,]", "line 1, column 4", "expected a value"),
    ('{\n "a" 1}', "line 2, column 6", "expected `:`"),
    ('{"a":1,}', "line 1, column 8", "key"),
    ("{a:1}", "line 1, column 2", "key"),
    ("01", "line 1, column 2", "after the end"),
    ("1 2", "line 1, column 3", "after the end"),
    ("", "line 1, column 1", "expected a value"),
    ('"abc', "line 1, column 1", "unterminated"),
    ('"a\tb"', "line 1, column 3", "control character"),
    ('"\\x"', "line 1, column 2", "escape"),
    ("\ufeff1", "line 1, column 1", "byte order mark"),
    ("\u00a01", "line 1, column 1", "expected a value"),
    ("'a'", "line 1, column 1", "expected a value"),
    ("[+1]", "line 1, column 2", "expected a value"),
    ("[.5]", "line 1, column 2", "expected a value"),
]


@pytest.mark.parametrize(("raw", "where", "detail"), REFUSED, ids=[r[0][:30] for r in REFUSED])
def test_refuses_what_the_canonical_form_cannot_carry(raw: str, where: str, detail: str) -> None:
    for form in (raw, raw.encode()):
        with pytest.raises(InvalidJSON) as caught:
            parse_strict(form)
        assert caught.value.where == where
        assert detail in caught.value.detail
        assert caught.value.remediation
        assert len(caught.value.detail) < 300


ACCEPTED = [
    ("1.0", 1.0),
    ("1", 1),
    ("-0", 0),
    ("1e2", 100.0),
    ("1.10", 1.1),
    ("0.1", 0.1),
    ("1e22", 1e22),
    ("5e-324", 5e-324),
    ("0e5", 0.0),
    (str(SAFE), SAFE),
    ('"\\ud83d\\ude00"', "😀"),
    ('"\\\\u0000 \\\\ud800"', "\\u0000 \\ud800"),
    (' [ true , false , null ] \n', [True, False, None]),
    ('{"":{"":[]}}', {"": {"": []}}),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "value"), ACCEPTED, ids=[a[0] for a in ACCEPTED])
def test_accepts_and_keeps_the_type(raw: str, value: object) -> None:
    parsed = parse_strict(raw)
    assert parsed == value
    assert type(parsed) is type(value)
    assert strictjson.parse(raw, 64) == value


def test_depth_is_bounded_without_recursion() -> None:
    for raw in ("[" * 100_000, "[" * 100_000 + "]" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000):
        with pytest.raises(InvalidJSON, match="nested deeper than 64"):
            parse_strict(raw)
    at_limit = "[" * 64 + "]" * 64
    assert json.dumps(parse_strict(at_limit)) == at_limit
    with pytest.raises(InvalidJSON) as caught:
        parse_strict('{"a":[[[1]]]}', max_depth=3)
    assert caught.value.where == "/a/0/0"
    # Many brackets side by side are not deep.
    assert len(parse_strict("[" + ",".join(["[]"] * 500) + "]", max_depth=2)) == 500


def test_size_is_bounded_in_bytes() -> None:
    with pytest.raises(PayloadTooLarge) as caught:
        parse_strict('"' + "é" * 60 + '"', max_bytes=100)
    assert caught.value.extra == {"limit": 100, "size": 122}
    with pytest.raises(PayloadTooLarge):
        parse_strict(b" " * 101, max_bytes=100)
    assert parse_strict('"' + "é" * 49 + '"', max_bytes=100) == "é" * 49


def test_refuses_bad_utf8_and_raw_surrogates() -> None:
    with pytest.raises(InvalidJSON) as caught:
        parse_strict(b'{"a":"\xff"}')
    assert caught.value.where == "byte 7"
    with pytest.raises(InvalidJSON) as caught:
        parse_strict('{"a":\n"\ud800"}')
    assert caught.value.where == "line 2, column 2"
    # UTF-8 of a surrogate is no UTF-8.
    with pytest.raises(InvalidJSON):
        parse_strict(b'"\xed\xa0\x80"')
    assert parse_strict(memoryview(b"[1]")) == [1]


@given(values)
def test_round_trip(value: object) -> None:
    data = canonical_bytes(value)
    back = parse_strict(data, max_depth=200)
    assert back == value
    assert canonical_bytes(back) == data
    assert canonical_bytes(loads(data)) == data
    assert parse_strict(json.dumps(value), max_depth=200) == value


@given(values)
def test_equals_the_reference_implementation(value: object) -> None:
    assert canonical_bytes(value) == rfc8785.dumps(value)  # type: ignore[arg-type]


@given(st.floats(1e-5, 1e16) | st.floats(-1e16, -1e-5))
def test_plain_decimals_equal_the_reference(number: float) -> None:
    if not SAFE < abs(number) < 1e21:
        assert canonical_bytes([number]) == rfc8785.dumps([number])


JSON_LIKE = st.text(st.sampled_from('{}[]:,"\\ \n0123456789.eE+-truefalsn aé\ud83d\ude00\ud800u')) | st.binary().map(
    lambda b: b.decode("utf-8", "replace")
)


@given(JSON_LIKE)
def test_the_two_parsers_agree(raw: str) -> None:
    """Whatever the fast parser accepts the slow one accepts with the same value, and nothing else escapes."""
    try:
        value = parse_strict(raw)
    except InvalidJSON:
        with pytest.raises(InvalidJSON):
            strictjson.parse(raw, 64)
        return
    assert strictjson.parse(raw, 64) == value
    assert json.loads(raw) == value


@given(st.from_regex(r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?", fullmatch=True))
def test_a_number_survives_or_is_refused(raw: str) -> None:
    from decimal import Decimal

    try:
        value = parse_strict(f"[{raw}]")[0]
    except InvalidJSON:
        return
    assert Decimal(raw) == Decimal(repr(value))
    written = canonical_bytes(value)
    assert Decimal(written.decode()) == Decimal(raw)
    assert parse_strict(written) == value


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"a": [1, math.nan]}, "/a/1"),
        ({"a": math.inf}, "/a"),
        ([2**53], "/0"),
        ([1.5, {"x": 1e20}], "/1/x"),
        (["a\x00"], "/0"),
        ({"k": {"a\x00": 1}}, "/k"),
        (["\ud800"], "/0"),
        ({"k": {"\udc00": 1}}, "/k"),
        ([{1: 2}], "/0"),
        ([uuid.UUID(int=1)], "/0"),
        ({"a": dt.datetime(2026, 1, 1)}, "/a"),
        ([{1, 2}], "/0"),
        ({"é": b"bytes"}, "/é"),
        ([10**400], "/0"),
    ],
)
def test_canonical_bytes_names_the_place(value: object, where: str) -> None:
    with pytest.raises(InvalidJSON) as caught:
        canonical_bytes(value)
    assert caught.value.where == where
    assert caught.value.remediation


def test_canonical_bytes_of_a_very_deep_value() -> None:
    value: object = 1
    for _ in range(100_000):
        value = [value]
    with pytest.raises(InvalidJSON, match="nested"):
        canonical_bytes(value)


def test_keys_are_sorted_by_utf16_and_escapes_are_minimal() -> None:
    assert canonical_bytes({"\ue000": 1, "😀": 2, "a": 3}) == '{"a":3,"😀":2,"\ue000":1}'.encode()
    assert canonical_bytes('\x1f\x7f"\\\u2028/\n') == '"\\u001f\x7f\\"\\\\\u2028/\\n"'.encode()
    assert canonical_bytes({"b": (1, 2), "a": True}) == b'{"a":true,"b":[1,2]}'


def test_one_and_one_point_zero_have_one_canonical_form_and_two_types() -> None:
    assert canonical_bytes(parse_strict("1.0")) == canonical_bytes(parse_strict("1")) == b"1"
    assert isinstance(parse_strict("1.0"), float)
    assert isinstance(parse_strict("1"), int)
    assert canonical_bytes(-0.0) == b"0"


def test_digest_and_fingerprint() -> None:
    assert digest(b"{}").hex() == fingerprint({})
    assert len(digest(b"")) == 32
    assert fingerprint({"a": 1, "b": [1.5]}) == fingerprint(parse_strict('{"b":[1.50],"a":1.0}'))
