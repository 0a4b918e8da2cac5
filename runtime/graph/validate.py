"""Registration's check: a document becomes a Plan, or a refusal that names every place and its mend (A9.1, C2.2)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Protocol

from runtime.graph.checks_gates import check_gates
from runtime.graph.checks_text import check_texts
from runtime.graph.checks_undo import RETIRED, check_policies, check_undo
from runtime.graph.loops import components, shortest_loop
from runtime.graph.plan import Edge, Plan, edges_of
from runtime.graph.problems import Problems, nearest
from runtime.graph.spec import MAX_SPEC_BYTES, MAX_SPEC_DEPTH, workflow_schema
from runtime.kernel.canonical import parse_strict
from runtime.kernel.errors import InvalidJSON, PayloadTooLarge
from runtime.kernel.schemas import Compiled, SchemaProblem, compile_schema

_SPLIT = "Split the workflow, or keep bulky constants in an artifact and pass its reference."


class ToolInfo(Protocol):
    """What is asked of a tool's contract here; of ``side_effect``, ``compensation`` and ``retired`` too, where it has
    them."""

    @property
    def input_schema(self) -> Any:
        """JSON Schema of the tool's arguments, or None."""


KnownTools = Callable[[str], ToolInfo | None]


def read_spec(raw: bytes | str) -> dict[str, Any]:
    """Return the document written in ``raw``.

    Raises PayloadTooLarge above 4 MB and InvalidJSON when it is not strict JSON or no object.
    """
    try:
        value = parse_strict(raw, max_bytes=MAX_SPEC_BYTES, max_depth=MAX_SPEC_DEPTH)
    except PayloadTooLarge as problem:
        problem.remediation = _SPLIT
        raise
    if not isinstance(value, dict):
        raise InvalidJSON("a workflow is a JSON object", where="line 1, column 1", remediation="Send an object.")
    return value


def check_workflow(spec: bytes | str | Mapping[str, Any], *, known_tools: KnownTools | None = None) -> Plan:
    """Return the plan of a workflow in the format ``quarterdeck/1``.

    ``spec`` is the JSON text or its value; ``known_tools`` answers the contract of "name@version" or None, and without
    it tools are not looked up. Raises InvalidWorkflow with ``where`` (a JSON pointer), the mend and, under
    ``problems``, everything that was found (loops also under ``cycles``, their nodes in order); InvalidJSON or
    PayloadTooLarge when it is no acceptable JSON at all. Nothing is fetched, whatever the document refers to.
    """
    document = read_spec(spec if isinstance(spec, (bytes, str)) else _text_of(spec))
    problems = Problems()
    _check_form(document, problems)
    problems.raise_if_any()
    edges = _check_graph(document, problems)
    # Expressions may only look back along the edges, so these have to be sound first.
    problems.raise_if_any()
    _check_loops(document, edges, problems)
    problems.raise_if_any()
    _check_joins(document, edges, problems)
    _check_pools(document, problems)
    check_gates(document, edges, problems)
    check_policies(document, edges, problems)
    check_texts(document, edges, problems)
    if known_tools is not None:
        known = cache(known_tools)
        _check_tools(document, known, problems)
        check_undo(document, edges, known, problems)
    _check_input_schema(document, problems)
    problems.raise_if_any()
    return Plan.from_spec(document)


def _text_of(value: Mapping[str, Any]) -> str:
    # A value given directly passes through the same gate as a text, so that neither way is laxer.
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as problem:
        raise InvalidJSON(f"the workflow is no JSON: {problem}", where="", remediation="Send JSON.") from None


@cache
def _form() -> Compiled:
    return compile_schema(workflow_schema())


def _check_form(document: dict[str, Any], problems: Problems) -> None:
    if _form().fits(document):
        return
    for found in _form().problems(document, limit=50):
        detail, mend = found.detail.removeprefix("the value "), found.mend
        last = found.where.rsplit("/", 1)[-1]
        if last in ("tool", "verifier") and "does not match" in detail:
            detail, mend = "a tool is referred to as name@version", "Write for example `shop.load_order@1`."
        elif found.where == "/format":
            detail, mend = "the format is not known", 'Write "format": "quarterdeck/1".'
        elif "does not match" in detail:
            mend = "Use the characters that the pattern allows."
        problems.add(found.where, _sentence(last, detail), mend)


def _sentence(name: str, detail: str) -> str:
    starts = ("is ", "does ", "has ")
    subject = "the entry" if name.isdigit() else f"`{name}`" if name else "the workflow"
    return f"{subject} {detail}" if detail.startswith(starts) else detail


def _check_graph(document: dict[str, Any], problems: Problems) -> list[Edge]:
    """Check ids, dependencies and switch targets; return the edges when all of them lead somewhere."""
    nodes = document["nodes"]
    place: dict[str, int] = {}
    for i, node in enumerate(nodes):
        node_id = node["id"]
        if node_id in place:
            mend = f"Rename it; the first is /nodes/{place[node_id]}."
            problems.add(f"/nodes/{i}/id", f"two nodes have the id `{node_id}`", mend)
        elif node_id != node_id.strip() or not node_id.isprintable():
            problems.add(
                f"/nodes/{i}/id", "an id has invisible characters or outer spaces", "Use printable characters."
            )
        place.setdefault(node_id, i)
    for i, node in enumerate(nodes):
        _check_after(node, i, place, problems)
        if node["kind"] == "switch":
            _check_switch(node, i, place, problems)
    return [] if problems.found else edges_of(document)


def _check_pools(document: Mapping[str, Any], problems: Problems) -> None:
    """Add a problem for each preferred pool that is the ordinary one, as far as the document says which that is."""
    defaults = document.get("defaults") or {}
    places = [("/defaults", defaults, None), *((f"/nodes/{i}", n, defaults) for i, n in enumerate(document["nodes"]))]
    for where, one, beside in places:
        ordinary = one.get("pool", (beside or {}).get("pool"))
        if "prefer" in one and one["prefer"]["pool"] == ordinary:
            detail = f"`{ordinary}` is the ordinary pool already, so there is nothing to prefer"
            problems.add(f"{where}/prefer/pool", detail, "Name another pool, or remove `prefer`.")


def _check_after(node: Mapping[str, Any], i: int, place: Mapping[str, int], problems: Problems) -> None:
    seen: set[str] = set()
    for j, entry in enumerate(node.get("after", ())):
        source, where = (entry, "") if isinstance(entry, str) else (entry["node"], "/node")
        where = f"/nodes/{i}/after/{j}{where}"
        if source == node["id"]:
            problems.add(where, f"the node `{source}` waits for itself", "Remove the entry.")
        elif source not in place:
            mend = "Name a node of this workflow." + nearest(source, place)
            problems.add(where, f"the node `{node['id']}` waits for `{source}`, which does not exist", mend)
        elif source in seen:
            problems.add(where, f"`{source}` is listed twice", "Keep one of the entries.")
        seen.add(source)


def _check_switch(node: Mapping[str, Any], i: int, place: Mapping[str, int], problems: Problems) -> None:
    branches = [(f"/nodes/{i}/cases/{j}/to", case["to"]) for j, case in enumerate(node["cases"])]
    branches.append((f"/nodes/{i}/default", node.get("default", ())))
    for where, targets in branches:
        for k, target in enumerate(targets):
            if target == node["id"]:
                problems.add(f"{where}/{k}", f"the switch `{target}` leads to itself", "Name another node.")
            elif target not in place:
                mend = "Name a node of this workflow." + nearest(target, place)
                problems.add(f"{where}/{k}", f"the switch leads to `{target}`, which does not exist", mend)
    earlier: dict[str, int] = {}
    for j, case in enumerate(node["cases"]):
        text = case["when"].strip()
        hidden = earlier.get(text, earlier.get("true"))
        if text == "false" or hidden is not None:
            why = "its condition is never true" if text == "false" else f"case {hidden} is always taken first"
            targets = ", ".join(f"`{t}`" for t in case["to"]) or "nothing"
            mend = "Remove the case, reorder the cases or correct the condition."
            problems.add(f"/nodes/{i}/cases/{j}/when", f"the way to {targets} cannot be reached: {why}", mend)
        earlier.setdefault(text, j)
    if "true" in earlier and node.get("default"):
        detail = "the default cannot be reached: a case is always taken"
        problems.add(f"/nodes/{i}/default", detail, "Remove it or correct the condition.")


def _check_loops(document: dict[str, Any], edges: list[Edge], problems: Problems) -> None:
    graph: dict[str, list[str]] = {node["id"]: [] for node in document["nodes"]}
    for edge in edges:
        graph[edge.source].append(edge.target)
    place = {node_id: i for i, node_id in enumerate(graph)}
    for component in components(graph):
        loop = shortest_loop(graph, component)
        shown = " → ".join(f"`{n}`" for n in [*loop[:12], *(["…"] if len(loop) > 12 else []), loop[0]])
        named = set(loop)
        rest = [n for n in component if n not in named]
        also = f"; `{'`, `'.join(rest[:12])}` hang on the same loop" if rest else ""
        problems.cycles.append(loop + rest)
        problems.add(
            f"/nodes/{place[loop[0]]}/after",
            f"the nodes wait for each other in a loop: {shown}{also}",
            "Remove one of these edges; a repetition belongs inside a tool or into a sub-workflow.",
        )


def _check_joins(document: dict[str, Any], edges: list[Edge], problems: Problems) -> None:
    inputs = dict.fromkeys((node["id"] for node in document["nodes"]), 0)
    for edge in edges:
        inputs[edge.target] += 1
    for i, node in enumerate(document["nodes"]):
        join, count, where = node.get("join") or {}, inputs[node["id"]], f"/nodes/{i}/join"
        policy, n = join.get("policy"), join.get("n")
        if join.get("mode") == "any" and (policy is not None or n is not None):
            problems.add(where, "a join of mode any has neither policy nor n", 'Use "mode": "all" with a policy.')
        elif policy == "at_least" and n is None:
            problems.add(where, "the policy at_least needs n", f"Add n between 1 and {count}.")
        elif policy == "at_least" and n is not None and n > count:
            problems.add(f"{where}/n", f"n is {n} but the node has {count} inputs", f"Use 1 to {count}.")
        elif policy != "at_least" and n is not None:
            problems.add(f"{where}/n", "n belongs to the policy at_least", 'Remove n or add "policy": "at_least".')
        elif join.get("mode") == "any" and count == 0:
            problems.add(where, "a join of mode any needs inputs", "Add them to `after`, or remove the join.")
        if "timeout_s" in join and count < 2:
            mend = "Set `timeout_s` of the step before it, or remove this one."
            problems.add(f"{where}/timeout_s", "a join with a timeout needs two inputs", mend)


def _check_tools(document: dict[str, Any], known_tools: KnownTools, problems: Problems) -> None:
    for i, node in enumerate(document["nodes"]):
        reference = node.get("tool")
        if reference is None:
            continue
        contract = known_tools(reference)
        if contract is None:
            mend = "Register the tool, or refer to a registered version."
            problems.add(f"/nodes/{i}/tool", f"the tool `{reference}` is not registered", mend)
        elif getattr(contract, "retired", False):
            problems.add(f"/nodes/{i}/tool", f"the tool `{reference}` was retired", RETIRED)
        else:
            _check_arguments(node, i, contract, problems)
            _check_moving(node, i, contract, problems)


def _check_moving(node: Mapping[str, Any], i: int, contract: ToolInfo, problems: Problems) -> None:
    """Check what is said of a step whose worker is lost: what writes is asked about before it is made again (C2.8)."""
    said, writes = node.get("on_lost"), getattr(contract, "side_effect", None) == "write"
    if said == "recompute" and writes:
        mend = "Use `query` or `hold`, or leave it out: what was sent is asked about first."
        problems.add(f"/nodes/{i}/on_lost", f"`{node['tool']}` writes: it is never just made again", mend)
    elif said == "query" and not writes:
        mend = "Use `recompute` or `hold`, or leave it out."
        problems.add(f"/nodes/{i}/on_lost", f"`{node['tool']}` has no effect that could be asked about", mend)


def _check_arguments(node: Mapping[str, Any], i: int, contract: ToolInfo, problems: Problems) -> None:
    """Check what is known of the arguments before any run: the names of the members, when they stand in the text."""
    schema, template = contract.input_schema, node.get("input", {})
    if not isinstance(schema, Mapping) or not isinstance(template, Mapping) or set(template) == {"$"}:
        return
    where = f"/nodes/{i}/input"
    for name in schema.get("required", ()):
        if name not in template:
            problems.add(where, f"`{node['tool']}` needs the argument `{name}`", f"Add `{name}`.")
    known = schema.get("properties", {})
    if schema.get("additionalProperties") is False and not schema.get("patternProperties"):
        for name in template:
            if name not in known:
                mend = "Remove it." + nearest(name, known)
                problems.add(where, f"`{node['tool']}` has no argument `{name}`", mend)


def _check_input_schema(document: dict[str, Any], problems: Problems) -> None:
    if "input_schema" not in document:
        return
    try:
        compile_schema(document["input_schema"])
    except SchemaProblem as problem:
        mend = "Correct the schema; it may refer to its own parts only."
        problems.add("/input_schema" + problem.where, problem.detail, mend)
