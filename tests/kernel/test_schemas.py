"""JSON Schema: integers are exact, nothing is fetched, the mend is named (C3.2)."""

from __future__ import annotations

import http.server
import threading

import pytest

from runtime.kernel.canonical import parse_strict
from runtime.kernel.schemas import SchemaProblem, compile_schema

pytestmark = pytest.mark.req("C3.2")


def test_an_integer_written_as_a_decimal_is_refused() -> None:
    schema = compile_schema({"properties": {"n": {"type": "integer"}, "x": {"type": "number"}}})
    assert schema.fits(parse_strict('{"n":1,"x":1}'))
    assert schema.fits(parse_strict('{"n":1,"x":1.0}'))
    problem = schema.problems(parse_strict('{"n":1.0}'))[0]
    assert problem.where == "/n"
    assert "1, not 1.0" in problem.mend


def test_exactness_reaches_references_and_leaves_data_alone() -> None:
    schema = compile_schema(
        {
            "$defs": {"count": {"type": ["integer", "null"]}},
            "properties": {"a": {"items": {"$ref": "#/$defs/count"}}, "b": {"const": {"type": "integer"}}},
        }
    )
    assert schema.fits({"a": [1, None], "b": {"type": "integer"}})
    assert not schema.fits({"a": [1.0]})
    assert schema.problems({"a": [1, 2.0]})[0].where == "/a/1"


def test_nothing_is_fetched() -> None:
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        address = f"http://127.0.0.1:{server.server_port}/schema.json"
        for schema in ({"$ref": address}, {"$schema": address}, {"properties": {"a": {"$dynamicRef": address}}}):
            with pytest.raises(SchemaProblem):
                compile_schema(schema)
    finally:
        server.shutdown()
        thread.join()
    assert asked == []


@pytest.mark.parametrize(
    ("schema", "value", "mend"),
    [
        ({"required": ["a"]}, {}, "Add the member `a`."),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"b": 1}, "Remove `b`"),
        ({"enum": ["x", "y"]}, "z", "Use one of x, y."),
        ({"type": "string"}, 1, "Send a value of type string."),
        ({"minimum": 3}, 1, "Send at least 3."),
    ],
)
def test_the_mend_is_named(schema: dict[str, object], value: object, mend: str) -> None:
    assert mend in compile_schema(schema).problems(value)[0].mend


def test_messages_never_hold_the_value() -> None:
    secret = "4242-secret"
    schema = compile_schema({"properties": {"card": {"type": "integer"}}})
    assert all(secret not in p.detail + p.mend for p in schema.problems({"card": secret}))
