"""Registration refuses a bad workflow, names the place and the mend, and fetches nothing (A9.1, C2.2)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.graph.loops import components, shortest_loop
from runtime.graph.spec import RETRY_CLASSES, TOOL_REFERENCE, workflow_schema
from runtime.graph.validate import check_workflow, read_spec
from runtime.kernel.canonical import canonical_bytes
from runtime.kernel.errors import InvalidJSON, InvalidWorkflow, PayloadTooLarge, QuarterdeckError
from runtime.tools.contract_schema import REFERENCE_PATTERN, RETRY_SCHEMA
from tests.support.specs import refund, tool, workflow

pytestmark = pytest.mark.req("A9.1")

Change = Callable[[dict[str, Any]], Any]


def at(i: int, **change: Any) -> Change:
    return lambda spec: spec["nodes"][i].update(change)


def top(**change: Any) -> Change:
    return lambda spec: spec.update(change)


def more(**node: Any) -> Change:
    return lambda spec: spec["nodes"].append(node)


def typed(spec: dict[str, Any], kind: str) -> None:
    """Declare the input's member ``n``."""
    spec["input_schema"] = {"type": "object", "properties": {"n": {"type": kind}}}


BAD: list[tuple[Change, str, str, str]] = [
    (top(format="quarterdeck/2"), "/format", "not known", "quarterdeck/1"),
    (lambda s: s.pop("name") and None, "", "name", "Add the member `name`"),
    (top(name="Not a slug"), "/name", "does not match", "pattern"),
    (top(zz=1), "", "zz", "Remove `zz`"),
    (top(nodes=[]), "/nodes", "less than 1", "at least"),
    (top(nodes={}), "/nodes", "not of type", "array"),
    (top(nodes=["load"]), "/nodes/0", "not of type", "object"),
    (at(0, kind="teleport"), "/nodes/0/kind", "not one of", "tool, switch"),
    (lambda s: s["nodes"][0].pop("kind") and None, "/nodes/0", "kind", "Add the member `kind`"),
    (lambda s: s["nodes"][0].pop("tool") and None, "/nodes/0", "tool", "Add the member `tool`"),
    (at(0, tool="shop.load"), "/nodes/0/tool", "name@version", "@1"),
    (at(0, tool="shop.load@0"), "/nodes/0/tool", "name@version", "@1"),
    (at(0, tool="shop.load@latest"), "/nodes/0/tool", "name@version", "@1"),
    (at(0, tol="x@1"), "/nodes/0", "tol", "Remove `tol`"),
    (at(0, timeout_s="30"), "/nodes/0/timeout_s", "not of type", "number"),
    (at(0, prefer="near"), "/nodes/0/prefer", "not of type", "object"),
    (at(0, prefer={"pool": "near"}), "/nodes/0/prefer", "for_s", "Add the member `for_s`"),
    (at(0, prefer={"pool": "near", "for_s": 0}), "/nodes/0/prefer/for_s", "less than", "1"),
    (at(0, prefer={"pool": "near", "for_s": 3601}), "/nodes/0/prefer/for_s", "greater than", "3600"),
    (at(0, prefer={"pool": "Near", "for_s": 9}), "/nodes/0/prefer/pool", "does not match", "pattern"),
    (at(0, prefer={"pool": "near", "for_s": 9, "zz": 1}), "/nodes/0/prefer", "zz", "Remove `zz`"),
    (at(0, pool="near", prefer={"pool": "near", "for_s": 9}), "/nodes/0/prefer/pool", "ordinary pool", "another pool"),
    (
        lambda s: (top(defaults={"pool": "near"})(s), at(0, prefer={"pool": "near", "for_s": 9})(s)),
        "/nodes/0/prefer/pool", "ordinary pool", "another pool",
    ),
    (
        top(defaults={"pool": "near", "prefer": {"pool": "near", "for_s": 9}}),
        "/defaults/prefer/pool", "ordinary pool", "another pool",
    ),
    (at(0, timeout_s=0), "/nodes/0/timeout_s", "minimum", "more than 0"),
    (at(0, priority=1.0), "/nodes/0/priority", "decimal", "1, not 1.0"),
    (at(0, retry={"max_attempts": 0}), "/nodes/0/retry/max_attempts", "minimum", "at least 1"),
    (at(0, retry={"retry_on": ["validation"]}), "/nodes/0/retry/retry_on/0", "not one of", "transient"),
    (at(0, title=""), "/nodes/0/title", "shorter", "at least"),
    (at(0, title=7), "/nodes/0/title", "not of type", "string"),
    (at(0, id=""), "/nodes/0/id", "shorter", "at least"),
    (at(0, id="x" * 201), "/nodes/0/id", "longer than 200", "200"),
    (at(0, id="a\nb"), "/nodes/0/id", "does not match", "pattern"),
    (at(0, id=5), "/nodes/0/id", "not of type", "string"),
    (at(0, id="zero\u200bwidth"), "/nodes/0/id", "invisible", "printable"),
    (at(0, id="load "), "/nodes/0/id", "outer spaces", "printable"),
    (at(0, id="pay"), "/nodes/3/id", "two nodes have the id `pay`", "/nodes/0"),
    (at(1, after=["laod"]), "/nodes/1/after/0", "`laod`, which does not exist", "Did you mean `load`?"),
    (at(1, after=[{"node": "laod"}]), "/nodes/1/after/0/node", "does not exist", "Did you mean `load`?"),
    (at(1, after=["load", "load"]), "/nodes/1/after/1", "twice", "Keep one"),
    (at(1, after=["route"]), "/nodes/1/after/0", "waits for itself", "Remove"),
    (at(1, after=[5]), "/nodes/1/after/0", "not of type", "string"),
    (at(1, after=[{"node": "load", "on_failure": "retry"}]), "/nodes/1/after/0/on_failure", "not one of", "fail_fast"),
    (at(1, default=["payy"]), "/nodes/1/default/0", "does not exist", "Did you mean `pay`?"),
    (at(1, default=["route"]), "/nodes/1/default/0", "leads to itself", "another node"),
    (at(1, cases=[]), "/nodes/1/cases", "less than 1", "at least"),
    (at(1, cases=[{"when": "true", "to": ["ask"]}]), "/nodes/1/default", "cannot be reached", "Remove"),
    (
        at(1, cases=[{"when": "input.x", "to": ["ask"]}, {"when": "input.x", "to": ["pay"]}]),
        "/nodes/1/cases/1/when",
        "the way to `pay` cannot be reached",
        "Remove the case",
    ),
    (at(1, cases=[{"when": "false", "to": ["ask"]}]), "/nodes/1/cases/0/when", "never true", "Remove the case"),
    (at(1, cases=[{"when": "1 +", "to": ["ask"]}]), "/nodes/1/cases/0/when", "column 4", "CEL"),
    (at(1, cases=[{"when": "amount > 1", "to": ["ask"]}]), "/nodes/1/cases/0/when", "named `amount`", "input"),
    (at(1, cases=[{"when": "'a' == 3", "to": ["ask"]}]), "/nodes/1/cases/0/when", "a text with a number", "Quote both"),
    (
        lambda s: (typed(s, "number"), at(1, cases=[{"when": "input.n > '100'", "to": ["ask"]}])(s)),
        "/nodes/1/cases/0/when",
        "compares input.n with a text",
        "convert",
    ),
    (at(1, cases=[{"when": "nodes.pay.output", "to": ["ask"]}]), "/nodes/1/cases/0/when", "not surely", "Add `pay`"),
    (at(2, payload={"a": {"$": "nodes.ask.output"}}), "/nodes/2/payload/a/$", "its own output", "another"),
    (at(2, payload={"a": [{"$": 5}]}), "/nodes/2/payload/a/0/$", "text of an expression", "$$"),
    (at(3, input={"a": {"$": "nodes.laod.output"}}), "/nodes/3/input/a/$", "does not exist", "Did you mean `load`?"),
    (at(3, business_key="nodes.ghost.output"), "/nodes/3/business_key", "does not exist", "Name a node"),
    (at(3, join={"policy": "at_least", "n": 3}), "/nodes/3/join/n", "has 2 inputs", "1 to 2"),
    (at(3, join={"policy": "at_least", "n": 0}), "/nodes/3/join/n", "minimum", "at least 1"),
    (at(3, join={"policy": "at_least", "n": 1.0}), "/nodes/3/join/n", "decimal", "not 1.0"),
    (at(3, join={"policy": "at_least"}), "/nodes/3/join", "needs n", "between 1 and 2"),
    (at(3, join={"n": 1}), "/nodes/3/join/n", "belongs to", "at_least"),
    (at(3, join={"mode": "any", "policy": "all_done"}), "/nodes/3/join", "neither", "all"),
    (at(0, join={"mode": "any"}), "/nodes/0/join", "needs inputs", "after"),
    (more(id="w", kind="wait"), "/nodes/4", "one of `seconds`, `until` and `event`", "one of them"),
    (more(id="w", kind="wait", seconds=1, until="input.t"), "/nodes/4", "has one of", "one of them"),
    (more(id="w", kind="wait", seconds=-1), "/nodes/4/seconds", "minimum", "at least 0"),
    (more(id="v", kind="verifier", verifier="x", criterion="true"), "/nodes/4/verifier", "name@version", "@1"),
    (top(success="nodes.ghost.status"), "/success", "does not exist", "Name a node"),
    (top(output={"a": {"$": "nodes.pay.output +"}}), "/output/a/$", "column", "CEL"),
    (top(input_schema={"type": 5}), "/input_schema/type", "", "schema"),
    (top(input_schema={"$ref": "http://127.0.0.1:9/x"}), "/input_schema", "127.0.0.1", "own parts"),
    (top(input_schema={"properties": {"a": {"pattern": "("}}}), "/input_schema/properties/a/pattern", "", "schema"),
    (top(defaults={"on_failure": "explode"}), "/defaults/on_failure", "not one of", "fail_fast"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "where", "detail", "mend"), BAD, ids=[f"{i}{b[1]}" for i, b in enumerate(BAD)])
def test_bad_workflows(change: Change, where: str, detail: str, mend: str) -> None:
    spec = refund()
    change(spec)
    with pytest.raises(InvalidWorkflow) as caught:
        check_workflow(json.dumps(spec))
    problem = caught.value.as_problem()
    assert problem["where"] == where
    assert detail in problem["detail"]
    assert mend in problem["remediation"]
    assert problem["problems"][0]["where"] == where
    assert problem["status"] == 400


def test_the_refund_is_fine() -> None:
    plan = check_workflow(json.dumps(refund()))
    assert plan.order == ("load", "route", "ask", "pay")
    assert [(e.source, e.target, e.case) for n in plan.nodes.values() for _, e in n.successors] == [
        ("load", "route", False),
        ("route", "ask", True),
        ("route", "pay", True),
        ("ask", "pay", False),
    ]


@pytest.mark.parametrize(
    "when",
    ["input.n == 3", "input.other == '3'", "string(input.n) == '3'", "input.n + 1 == 3", "nodes.load.output.a == '3'"],
)
def test_what_may_be_comparable_is_not_refused(when: str) -> None:
    spec = refund()
    typed(spec, "number")
    spec["nodes"][1]["cases"][0]["when"] = when
    check_workflow(json.dumps(spec))


def test_several_problems_are_told_at_once() -> None:
    nodes = [tool(f"n{i}", "ghost") for i in range(40)]
    with pytest.raises(InvalidWorkflow) as caught:
        check_workflow(workflow(*nodes))
    problem = caught.value.as_problem()
    assert [p["where"] for p in problem["problems"]][:2] == ["/nodes/0/after/0", "/nodes/1/after/0"]
    assert len(problem["problems"]) == 25
    assert problem["problems_left_out"] == 15
    assert "and 39 more" in problem["detail"]
    assert all(p["remediation"] for p in problem["problems"])


def test_a_loop_names_its_nodes_in_order() -> None:
    spec = workflow(tool("start"), tool("a", "start", "c"), tool("b", "a"), tool("c", "b"), tool("end", "c"))
    with pytest.raises(InvalidWorkflow) as caught:
        check_workflow(spec)
    assert caught.value.where == "/nodes/1/after"
    assert "`a` → `b` → `c` → `a`" in caught.value.detail
    assert caught.value.extra["cycles"] == [["a", "b", "c"]]


def test_a_loop_through_a_switch_and_two_loops_at_once() -> None:
    spec = refund()
    spec["nodes"][0]["after"] = ["pay"]
    spec["nodes"] += [tool("x", "y"), tool("y", "x")]
    with pytest.raises(InvalidWorkflow) as caught:
        check_workflow(spec)
    first, second = caught.value.extra["cycles"]
    assert set(first) == {"load", "route", "ask", "pay"}
    assert second == ["x", "y"]


def test_a_chain_of_ten_thousand_and_its_loop() -> None:
    nodes = [tool(f"n{i}", *([f"n{i - 1}"] if i else [])) for i in range(10_000)]
    started = time.monotonic()
    assert check_workflow(workflow(*nodes)).depth == 10_000
    nodes[0]["after"] = ["n9999"]
    with pytest.raises(InvalidWorkflow) as caught:
        check_workflow(workflow(*nodes))
    assert len(caught.value.extra["cycles"][0]) == 10_000
    assert len(caught.value.detail) < 400
    assert time.monotonic() - started < 60, "the search is not quadratic"
    with pytest.raises(InvalidWorkflow, match="more than 10000"):
        check_workflow(workflow(*nodes, tool("one too many")))


EDGES = st.integers(1, 12).flatmap(
    lambda n: st.tuples(st.just(n), st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=30))
)


@given(EDGES)
def test_components_agree_with_reachability(drawn: tuple[int, list[tuple[int, int]]]) -> None:
    n, edges = drawn
    graph: dict[str, list[str]] = {str(i): [] for i in range(n)}
    for a, b in edges:
        graph[str(a)].append(str(b))
    reach = {a: set(graph[a]) for a in graph}
    for _ in graph:
        for a in graph:
            reach[a] = reach[a].union(*(reach[b] for b in reach[a]))
    wanted = {frozenset([a, *(b for b in graph if b in reach[a] and a in reach[b])]) for a in graph if a in reach[a]}
    found = components(graph)
    assert {frozenset(part) for part in found} == wanted
    for part in found:
        loop = shortest_loop(graph, part)
        assert len(set(loop)) == len(loop)
        for source, target in zip(loop, [*loop[1:], loop[0]], strict=True):
            assert target in graph[source]


class Contract:
    input_schema = {
        "type": "object",
        "required": ["order_id"],
        "properties": {"order_id": {"type": "string"}},
        "additionalProperties": False,
    }


@pytest.mark.req("C3.2")
def test_unknown_tools_and_arguments() -> None:
    with pytest.raises(InvalidWorkflow) as caught:
        check_workflow(workflow(tool("a", tool="shop.gone@2")), known_tools=lambda reference: None)
    assert caught.value.where == "/nodes/0/tool"
    assert "`shop.gone@2` is not registered" in caught.value.detail
    with pytest.raises(InvalidWorkflow) as caught:
        check_workflow(workflow(tool("a", input={"orderid": 1})), known_tools=lambda reference: Contract)
    details = [p["detail"] for p in caught.value.extra["problems"]]
    assert details == [
        "`core.noop@1` needs the argument `order_id`",
        "`core.noop@1` has no argument `orderid`",
    ]
    fine = workflow(tool("a", input={"order_id": {"$": "input.id"}}), tool("b", input={"$": "input"}))
    asked: list[str] = []
    check_workflow(fine, known_tools=lambda reference: asked.append(reference) or Contract)  # type: ignore[func-returns-value]
    assert asked == ["core.noop@1"]


@pytest.mark.req("C2.8")
@pytest.mark.parametrize(
    ("said", "effect", "refused"),
    [
        ("recompute", "read", None),
        ("recompute", "write", "`core.noop@1` writes: it is never just made again"),
        ("query", "write", None),
        ("query", "none", "`core.noop@1` has no effect that could be asked about"),
        ("hold", "write", None),
        ("hold", "read", None),
    ],
)
def test_what_becomes_of_a_lost_step_must_fit_its_tool(said: str, effect: str, refused: str | None) -> None:
    contract = type("Contract", (), {"input_schema": {}, "side_effect": effect})
    document = workflow(tool("a", on_lost=said))
    if refused is None:
        check_workflow(document, known_tools=lambda reference: contract)
        return
    with pytest.raises(InvalidWorkflow, match=refused) as caught:
        check_workflow(document, known_tools=lambda reference: contract)
    assert caught.value.where == "/nodes/0/on_lost"


def test_ids_may_hold_whatever_prints() -> None:
    ids = [
        "coinflip.flip-coin",
        "coinflip::end",
        "Loop over all OUs[]/Is this the OU?",
        "näm€ (1), 'q' \"d\"",
        "x" * 200,
    ]
    nodes = [tool(node_id, *ids[:i], input={}) for i, node_id in enumerate(ids)]
    nodes[-1]["input"] = {"a": {"$": f"nodes[{json.dumps(ids[2])}].output"}}
    plan = check_workflow(workflow(*nodes))
    assert plan.order == tuple(ids)
    assert plan.nodes[ids[-1]].refs == {ids[2]}


@pytest.mark.req("C2.2")
@pytest.mark.parametrize(
    ("raw", "error", "where"),
    [
        ("x" * 10_000_000, PayloadTooLarge, None),
        ('{"nodes":' + "[" * 100_000, InvalidJSON, "/nodes" + "/0" * 63),
        ('{"name":"a","name":"b"}', InvalidJSON, "/name"),
        ('{"name":NaN}', InvalidJSON, "/name"),
        ('{"name":"a\\u0000"}', InvalidJSON, "/name"),
        ('{"name":"\\ud800"}', InvalidJSON, "/name"),
        ("[]", InvalidJSON, "line 1, column 1"),
        ("", InvalidJSON, "line 1, column 1"),
        (b"\xff", InvalidJSON, "byte 1"),
        ({"name": float("nan")}, InvalidJSON, "/name"),
        ({"name": "a\x00"}, InvalidJSON, "/name"),
        ({"name": object()}, InvalidJSON, ""),
        ({"name": 2**60}, InvalidJSON, "/name"),
    ],
    ids=lambda value: str(value)[:24] if not isinstance(value, type) else value.__name__,
)
def test_no_acceptable_json(raw: Any, error: type[QuarterdeckError], where: str | None) -> None:
    with pytest.raises(error) as caught:
        check_workflow(raw)
    assert caught.value.where == where
    assert caught.value.remediation


def test_read_spec_keeps_integers_and_decimals_apart() -> None:
    spec = read_spec(json.dumps(workflow(tool("a", priority=1))).replace('"priority": 1', '"priority": 1.0'))
    with pytest.raises(InvalidWorkflow, match="decimal"):
        check_workflow(spec)


def test_the_published_schema_is_valid_and_agrees_with_the_check() -> None:
    schema = workflow_schema()
    jsonschema_rs.meta.validate(schema)
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid(refund())
    assert not validator.is_valid({**refund(), "zz": 1})
    schema["properties"].clear()
    assert workflow_schema()["properties"], "the caller owns its copy"


def test_the_schema_speaks_of_tools_as_the_registry_does() -> None:
    assert TOOL_REFERENCE == REFERENCE_PATTERN
    assert list(RETRY_CLASSES) == RETRY_SCHEMA["properties"]["retry_on"]["items"]["enum"]


def test_the_canonical_form_of_a_workflow_gives_the_same_plan() -> None:
    plan = check_workflow(refund())
    again = check_workflow(canonical_bytes(refund()))
    assert again.order == plan.order
    assert again.n_edges == plan.n_edges


junk = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@given(st.data())
def test_any_corruption_is_a_problem_detail_or_a_plan(data: st.DataObject) -> None:
    """Replace or remove a random part of a good document: never another exception, and always a place."""
    spec = refund()
    path: list[Any] = []
    here: Any = spec
    while isinstance(here, (dict, list)) and here and (not path or data.draw(st.booleans())):
        key = data.draw(st.sampled_from(sorted(here) if isinstance(here, dict) else range(len(here))))
        path.append(key)
        parent, here = here, here[key]
    if data.draw(st.booleans()):
        parent[path[-1]] = data.draw(junk)
    else:
        del parent[path[-1]]
    try:
        check_workflow(spec)
    except (InvalidWorkflow, InvalidJSON) as problem:
        shown = problem.as_problem()
        assert shown["where"] is not None
        assert shown["remediation"]
