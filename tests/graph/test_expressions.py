"""Expressions and templates (A9.3): what they read, what they give, and what they may not do."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.graph.context import expression_context
from runtime.graph.expressions import compile_expression
from runtime.graph.templates import compile_template
from runtime.kernel.errors import InvalidExpression

pytestmark = pytest.mark.req("A9.3")

CONTEXT: dict[str, Any] = {
    "input": {"a": {"b": [1, {"c": 2}]}, "orders": [{"items": [{"qty": 1}]}], "money": "12.50", "in": 3, "n": None},
    "nodes": {
        "load": {"status": "succeeded", "output": {"amount": 120}, "error": None},
        "x y": {"status": "failed", "output": None, "error": {"class": "network"}},
        'q"e': {"status": "succeeded", "output": 7, "error": None},
    },
    "run": {"id": "r1", "task_id": "t1"},
    "task": {"priority": 0},
}


@pytest.mark.parametrize(
    ("text", "value", "refs"),
    [
        ("input.a.b[1].c", 2, set()),
        (" input.a ", {"b": [1, {"c": 2}]}, set()),
        ('input["in"]', 3, set()),
        ("nodes.load.output.amount", 120, {"load"}),
        ('nodes["x y"].status', "failed", {"x y"}),
        ("nodes['x y'].error['class']", "network", {"x y"}),
        ("nodes['q\\x22e'].output + 1", 8, {'q"e'}),
        ("nodes.load.output.amount > 100", True, {"load"}),
        ("nodes.load.output.amount > 100.5", True, {"load"}),
        ('nodes.load.status == "succeeded" && nodes["x y"].status != "failed"', False, {"load", "x y"}),
        ("has(input.zzz) ? input.zzz : 9", 9, set()),
        ("input.orders.all(o, o.items.all(i, i.qty > 0))", True, set()),
        ('"order-" + string(input.a.b[0])', "order-1", set()),
        ('{"k": [1, 2.5, null, input.money]}', {"k": [1, 2.5, None, "12.50"]}, set()),
        ('timestamp("2026-01-01T00:00:00Z") + duration("90s")', "2026-01-01T00:01:30Z", set()),
        ('duration("90s")', 90.0, set()),
        ('b"hi"', "aGk=", set()),
        ('"nodes.ghost.output"', "nodes.ghost.output", set()),
        ("input.a.b.map(nodes2, 1)", [1, 1], set()),
        ("run.id", "r1", set()),
        ("true", True, set()),
        ("null", None, set()),
    ],
)
def test_values_and_references(text: str, value: object, refs: set[str]) -> None:
    expression = compile_expression(text)
    assert expression.evaluate(CONTEXT) == value
    assert expression.node_refs == refs


@pytest.mark.parametrize(
    "path", ["input.a.b[0]", "input.a", "nodes.load.output.amount", 'nodes["x y"].error["class"]', "task.priority"]
)
def test_the_fast_path_gives_what_the_library_gives(path: str) -> None:
    assert compile_expression(path).path is not None
    slow = compile_expression(f"({path})")
    assert slow.path is None
    assert slow.evaluate(CONTEXT) == compile_expression(path).evaluate(CONTEXT)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "column 1"),
        ("1 +", "column 4"),
        ("input.a b", "named `b`"),
        ("foo", "nothing is named `foo`"),
        ("foo.bar.baz", "nothing is named `foo`"),
        ("foo && true", "nothing is named `foo`"),
        ("nodes", "must be followed by the id"),
        ("nodes[0]", "must be followed by the id"),
        ("size(nodes)", "must be followed by the id"),
        ("nodes[input.a].output", "must be followed by the id"),
        ("nodes.map(x, x)", "must be followed by the id"),
        ("now()", "no function is named `now`"),
        ('"a".format(1)', "no method is named `format`"),
        ("__import__('os')", "no function"),
        ("input.a.b.map(input, 1)", "cannot be a variable"),
        ("input.a.b.map(x)", "needs a variable"),
        ("'a", "unexpected"),
        ("a @ b", "unexpected '@'"),
        ("nodes.in.output", "column 7"),
        ("[1].map(a, [2].map(b, b))", "inside another comprehension"),
        ("[1].map(x, x+x+x+x+x)[0] == [1].map(x, x+x+x+x+x)[0] || [1].map(x,x+x+x+x)[0] == 1", "too often"),
        ("[1].map(x,x) == [1].map(x,x) || [1].map(x,x) == [1].map(x,x) || [1].map(x,x) == [1]", "more than 4"),
        ("Point{x: 1}", "no type `Point`"),
        ("99999999999999999999", "int literal"),
    ],
)
def test_refused_at_registration(text: str, part: str) -> None:
    with pytest.raises(InvalidExpression) as caught:
        compile_expression(text)
    assert part in caught.value.detail
    assert caught.value.remediation


@pytest.mark.parametrize(
    "text",
    [
        "(" * 50_000 + "1" + ")" * 50_000,
        "1" + "+1" * 50_000,
        "input" + ".b" * 20_000,
        "!" * 50_000 + "true",
        "1" + "+1" * 100,
        "[" * 33 + "]" * 33,
        "-" * 600 + "1",
        "input.a" + " || input.a" * 200,
    ],
    ids=lambda text: f"{text[:12]}…{len(text)}",
)
def test_size_and_depth_are_bounded(text: str) -> None:
    with pytest.raises(InvalidExpression):
        compile_expression(text)


def test_the_largest_expressions_do_not_overflow_the_stack_of_a_small_thread() -> None:
    """The library recurses in C: run what is just allowed in a thread of 256 kB, in a process that may die of it."""
    code = """
import threading
from runtime.graph.expressions import compile_expression as c
texts = ["1" + "+1" * 64, "input" + ".b" * 245, "1" + "*1" * 249, "!" * 499 + "true", "(" * 32 + "1" + ")" * 32,
         "true" + " || true" * 249, "true" + " ? true : true" * 124, "-" * 498 + "1", "[" * 32 + "]" * 32,
         "input" + "['b']" * 166, "1" + " == 1" * 249]
def work():
    for text in texts:
        try:
            c(text).evaluate({"input": {}})
        except Exception:
            pass
threading.stack_size(256 * 1024)
thread = threading.Thread(target=work)
thread.start()
thread.join()
print("alive")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == "alive", done.stderr[-500:]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("input.zzz", "has no member `zzz`"),
        ("input.a.b.c", "`input.a.b` has no member `c`"),
        ("input.money.x", "`input.money` has no member `x`"),
        ("input.a.b[7]", "has no member `7`"),
        ("input.n.x", "has no member `x`"),
        ("input.zzz > 1", "zzz"),
        ("nodes.ghost.output", "has no member `ghost`"),
        ("1 / 0", "zero"),
        ("input.money > 3", ""),
        ("9223372036854775807 + 1", "overflow"),
        ("9007199254740991 + 1", "2^53-1"),
        ("double(1) / 0.0", "not finite"),
        ("0.0 / 0.0", "not finite"),
        ("{1: 2}", "keys"),
        ('"x".matches("(")', "regex"),
        ('int("x")', ""),
    ],
)
def test_errors_at_evaluation_name_the_expression_and_the_place(text: str, part: str) -> None:
    with pytest.raises(InvalidExpression) as caught:
        compile_expression(text).evaluate(CONTEXT, "/nodes/3/input/a/$")
    assert part.lower() in caught.value.detail.lower()
    assert caught.value.where == "/nodes/3/input/a/$"
    assert text[:20] in caught.value.detail


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (r"input.s.matches('^\\w{64}$')", "too long to compile"),
        (r"input.s.matches('(x{1000}){1000}')", "too long to compile"),
        (r"input.s.matches('x{99999999999999}')", "too long to compile"),
        (r"input.s.matches('(?i)\\pL{9}')", "too long to compile"),
        (" || ".join([r"input.s.matches('\\w\\w')"] * 9), "too long to compile"),
        (r"input.l.all(x, x.matches('^\\w+$'))", "for each item of a comprehension"),
        ("input.s.matches(input.p)", "is computed"),
        ("input.s.matches('a' + input.p)", "is computed"),
    ],
)
def test_patterns_that_would_hold_a_worker_up_are_refused_before_they_run(text: str, part: str) -> None:
    """The library compiles a pattern at every evaluation, with the interpreter lock held."""
    with pytest.raises(InvalidExpression, match=part):
        compile_expression(text)


@pytest.mark.parametrize(
    "pattern",
    [
        r"^[A-Za-z0-9_]{1,64}$",
        r"^\\w+@\\w+\\.\\w+$",
        r"^[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}$",
        r"^\\d{4}-\\d\\d$",
        "(a+)+$",
        "é",
    ],
)
def test_usual_patterns_are_taken(pattern: str) -> None:
    assert compile_expression(f"'-'.matches('{pattern}')").test({}) is False
    assert compile_expression("input.l.exists(x, x.matches('^A-[0-9]+$'))").test({"input": {"l": ["A-7"]}})


def test_a_condition_must_be_a_boolean() -> None:
    assert compile_expression("input.a.b[0] == 1").test(CONTEXT) is True
    with pytest.raises(InvalidExpression, match="gives a number"):
        compile_expression("input.a.b[0]").test(CONTEXT)
    with pytest.raises(InvalidExpression, match="gives null"):
        compile_expression("input.n").test(CONTEXT)


def test_comprehensions_over_much_data_are_refused_quickly() -> None:
    context = {"input": {"l": list(range(200_000))}, "nodes": {}}
    started = time.monotonic()
    with pytest.raises(InvalidExpression, match="10000 values"):
        compile_expression("input.l.exists(x, x in input.l)").evaluate(context)
    assert time.monotonic() - started < 20, "forty thousand million comparisons were not made"
    assert compile_expression("size(input.l)").evaluate(context) == 200_000


def test_only_the_nodes_it_refers_to_reach_the_library() -> None:
    class Nodes(dict):  # type: ignore[type-arg]
        def __iter__(self) -> Any:
            raise AssertionError("all nodes were read")

        items = values = keys = __iter__

    context = {"input": {}, "nodes": Nodes(a={"output": 1}, b={"output": 2})}
    assert compile_expression("nodes.a.output == 1").evaluate(context) is True


def test_names_can_be_widened() -> None:
    names = frozenset({"input", "nodes", "run", "task", "output"})
    assert compile_expression("output.paid == true", names).evaluate({"output": {"paid": True}}) is True
    with pytest.raises(InvalidExpression, match="nothing is named `output`"):
        compile_expression("output.paid == true")


@given(st.text(max_size=60) | st.text("nodes.[]\"'input()+-!?:{}, 0\\", max_size=40))
def test_whatever_the_text_only_invalid_expression_escapes(text: str) -> None:
    with contextlib.suppress(InvalidExpression):
        compile_expression(text).evaluate(CONTEXT)


def task_of(data_time: datetime | None) -> dict[str, Any]:
    return expression_context(
        run_id=uuid.UUID(int=1), task_id=uuid.UUID(int=2), value={}, name="n", goal="g", data_time=data_time,
        created_by="user:ada", nodes={},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value", "without"),
    [
        ("task.data_time", "2030-01-31T12:00:00+00:00", None),
        ('task.data_time != null && timestamp(task.data_time) < timestamp("2030-02-01T00:00:00Z")', True, False),
        ("task.data_time == null ? 0 : timestamp(task.data_time).getMonth() + 1", 1, 0),
        (
            "'report-' + (task.data_time == null ? 'now' : task.data_time)",
            "report-2030-01-31T12:00:00+00:00",
            "report-now",
        ),
    ],
)
def test_the_business_time_of_a_task_is_read(text: str, value: object, without: object) -> None:
    expression = compile_expression(text)
    assert expression.evaluate(task_of(datetime(2030, 1, 31, 12, tzinfo=UTC))) == value
    assert expression.evaluate(task_of(None)) == without


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["a", "b", "$$", "$$$"]), inner),
    max_leaves=12,
)


def escaped(value: Any) -> Any:
    if isinstance(value, dict):
        return {"$" + key if key and not key.strip("$") else key: escaped(item) for key, item in value.items()}
    return [escaped(item) for item in value] if isinstance(value, list) else value


@given(json_values)
def test_every_constant_can_be_written_as_a_template(value: Any) -> None:
    template = compile_template(escaped(value))
    assert template.render(CONTEXT) == value
    assert template.refs == frozenset()
    assert compile_template(escaped({"$": value})).render(CONTEXT) == {"$": value}


def test_templates_render_in_place_and_keep_the_order_of_keys() -> None:
    template = compile_template(
        {"z": {"$": "nodes.load.output.amount"}, "a": [1, {"$": "input.money"}, {"deep": {"$": 'nodes["x y"].status'}}]}
    )
    rendered = template.render(CONTEXT)
    assert rendered == {"z": 120, "a": [1, "12.50", {"deep": "failed"}]}
    assert list(rendered) == ["z", "a"]
    assert template.refs == {"load", "x y"}
    assert {r.where for r in template.references} == {"/z/$", "/a/2/deep/$"}
    assert template.render(CONTEXT) == rendered


@pytest.mark.parametrize(
    ("template", "where"),
    [
        ({"a": [{"$": "1 +"}]}, "/nodes/0/input/a/0/$"),
        ({"a": {"$": 5}}, "/nodes/0/input/a/$"),
        ({"a/b": {"$": None}}, "/nodes/0/input/a~1b/$"),
    ],
)
def test_template_errors_name_the_place(template: Any, where: str) -> None:
    with pytest.raises(InvalidExpression) as caught:
        compile_template(template, "/nodes/0/input")
    assert caught.value.where == where


def test_rendering_errors_name_the_place() -> None:
    template = compile_template({"a": [{"$": "input.zzz"}]}, "/nodes/0/input")
    with pytest.raises(InvalidExpression) as caught:
        template.render(CONTEXT)
    assert caught.value.where == "/nodes/0/input/a/0/$"


def test_too_deep_a_template() -> None:
    value: Any = 1
    for _ in range(70):
        value = [value]
    with pytest.raises(InvalidExpression, match="nested deeper"):
        compile_template(value)
