"""Registration's check of the texts inside a workflow: every expression and template compiles and looks back only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.graph.celscan import comparisons, shorten
from runtime.graph.expressions import CONTEXT_NAMES, compile_expression
from runtime.graph.plan import CRITERION_NAMES, Edge, topological_order
from runtime.graph.problems import Problems, nearest
from runtime.graph.templates import Reference, compile_template
from runtime.graph.undo import UNDO_NAMES, VERIFY_NAMES
from runtime.kernel.errors import InvalidExpression

_EXPRESSIONS = ("business_key", "until", "correlation", "criterion")
_TEMPLATES = ("input", "payload", "target", "evidence")


def check_texts(document: Mapping[str, Any], edges: list[Edge], problems: Problems) -> None:
    """Add a problem for each text that does not compile or reads a node that does not surely end before.

    ``edges`` must be free of loops.
    """
    checker = _Checker(document, edges, problems)
    for i, node in enumerate(document["nodes"]):
        checker.node(node, f"/nodes/{i}")
    for key in ("success", "output", "state"):
        if document.get(key) is not None:
            check = checker.expression if key == "success" else checker.template
            checker.known(check(document[key], f"/{key}"))


class _Checker:
    def __init__(self, document: Mapping[str, Any], edges: list[Edge], problems: Problems) -> None:
        self.problems = problems
        self.input_schema = document.get("input_schema")
        self.place = {node["id"]: i for i, node in enumerate(document["nodes"])}
        self.edges = edges
        # Filled at the first reference: bit i of a node's number says that node i of the document is an ancestor.
        self.before: dict[str, int] = {}

    def node(self, node: Mapping[str, Any], where: str) -> None:
        refs: list[Reference] = []
        for key in _EXPRESSIONS:
            if node.get(key) is not None:
                allowed = CRITERION_NAMES if key == "criterion" else CONTEXT_NAMES
                refs += self.expression(node[key], f"{where}/{key}", allowed)
        for key in _TEMPLATES:
            if node.get(key) is not None:
                refs += self.template(node[key], f"{where}/{key}")
        if "compensation" in node:
            self.undo(node, f"{where}/compensation")
        for j, case in enumerate(node.get("cases", ())):
            refs += self.expression(case["when"], f"{where}/cases/{j}/when")
        if node["kind"] == "wait":
            self.wait(node, where)
        self.looks_back(node["id"], self.known(refs))

    def undo(self, node: Mapping[str, Any], where: str) -> None:
        """Check a compensation's texts: they run after the node, so they may read it and what surely ended before."""
        declared, refs = node["compensation"], []
        if "input" in declared:
            refs += self.template(declared["input"], f"{where}/input", UNDO_NAMES)
        verify = declared.get("verify", {})
        if "input" in verify:
            refs += self.template(verify["input"], f"{where}/verify/input", UNDO_NAMES)
        if "criterion" in verify:
            refs += self.expression(verify["criterion"], f"{where}/verify/criterion", VERIFY_NAMES)
        self.looks_back(node["id"], [ref for ref in self.known(refs) if ref.node != node["id"]])

    def wait(self, node: Mapping[str, Any], where: str) -> None:
        if sum(name in node for name in ("seconds", "until", "event")) != 1:
            self.problems.add(where, "a wait has one of `seconds`, `until` and `event`", "Give one of them.")
        for name in ("correlation", "expires_s"):
            if name in node and "event" not in node:
                self.problems.add(f"{where}/{name}", f"`{name}` belongs to a wait for an `event`", "Leave it out.")

    def expression(self, text: str, where: str, allowed: frozenset[str] = CONTEXT_NAMES) -> list[Reference]:
        try:
            refs = [Reference(ref, where) for ref in sorted(compile_expression(text, allowed).node_refs)]
            self.comparable(text, where)
            return refs
        except InvalidExpression as problem:
            self.problems.add(where, problem.detail, problem.remediation)
            return []

    def comparable(self, text: str, where: str) -> None:
        """Add a problem where a text is compared with a number: that is never equal, and no order at all."""
        for sides in comparisons(text):
            kinds = [kind if kind != "path" else _declared(self.input_schema, path) for kind, path in sides]
            if set(kinds) == {"text", "number"}:
                names = [".".join(path) if kind == "path" else f"a {kind}" for kind, path in sides]
                detail = f"`{shorten(text)}` compares {names[0]} with {names[1]}: a text with a number"
                self.problems.add(where, detail, "Quote both or none, or convert: `int(…)`, `string(…)`.")

    def template(self, value: Any, where: str, allowed: frozenset[str] = CONTEXT_NAMES) -> list[Reference]:
        try:
            return list(compile_template(value, where, allowed).references)
        except InvalidExpression as problem:
            self.problems.add(problem.where or where, problem.detail, problem.remediation)
            return []

    def known(self, refs: list[Reference]) -> list[Reference]:
        """Return the references whose node exists; add a problem for the others."""
        for ref in refs:
            if ref.node not in self.place:
                mend = 'Name a node of this workflow; ids with other characters are written nodes["an id"].'
                detail = f"the expression reads the node `{ref.node}`, which does not exist"
                self.problems.add(ref.where, detail, mend + nearest(ref.node, self.place))
        return [ref for ref in refs if ref.node in self.place]

    def looks_back(self, node_id: str, refs: list[Reference]) -> None:
        if not refs:
            return
        if not self.before:
            self._ancestors()
        for ref in refs:
            if ref.node == node_id:
                self.problems.add(ref.where, f"the node `{node_id}` reads its own output", "Read another node.")
            elif not self.before[node_id] >> self.place[ref.node] & 1:
                self.problems.add(
                    ref.where,
                    f"the node `{node_id}` reads `{ref.node}`, which does not surely end before it",
                    f"Add `{ref.node}` to the `after` of `{node_id}`.",
                )

    def _ancestors(self) -> None:
        after: dict[str, list[Edge]] = {node_id: [] for node_id in self.place}
        for edge in self.edges:
            after[edge.source].append(edge)
        self.before = dict.fromkeys(self.place, 0)
        for node_id in topological_order(self.place, after)[0]:
            own = self.before[node_id] | 1 << self.place[node_id]
            for edge in after[node_id]:
                self.before[edge.target] |= own


def _declared(schema: Any, path: tuple[str, ...]) -> str:
    """Return "text" or "number" when the task's input is declared so at this path (``input.…``), else ""."""
    if not path or path[0] != "input":
        return ""
    for name in path[1:]:
        members = schema.get("properties") if isinstance(schema, Mapping) else None
        schema = members.get(name) if isinstance(members, Mapping) else None
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    return {"string": "text", "number": "number", "integer": "number"}.get(kind, "") if isinstance(kind, str) else ""
