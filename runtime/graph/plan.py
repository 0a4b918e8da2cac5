"""The compiled form of a workflow version: what the engine reads at every step, built once and cached.

A plan is immutable. ``Plan.from_spec`` trusts its input: registration has checked it (``validate.check_workflow``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

from runtime.graph.expressions import CONTEXT_NAMES, Expression, compile_expression
from runtime.graph.templates import Template, compile_template, pointer_token
from runtime.graph.undo import Nodes, Undo

Kind = Literal["tool", "switch", "approval", "input", "wait", "verifier", "compensation", "compensation_check"]
OnFailure = Literal["fail_fast", "continue_on_error", "fallback", "manual_review", "compensate"]

CRITERION_NAMES = CONTEXT_NAMES | {"output"}
# Policies that pass a failure on, so that the node behind it is ready all the same.
_FORGIVING = frozenset({"continue_on_error", "fallback", "manual_review"})


@dataclass(frozen=True, slots=True)
class Edge:
    """A dependency. ``forgiving`` edges pass a failure on as ``err`` instead of ``bad`` (A9.4).

    ``case`` marks the edge from a switch to a node that one of its cases (or the default) names: it counts only when
    that node was chosen.
    """

    source: str
    target: str
    on_failure: OnFailure = "fail_fast"
    optional: bool = False
    case: bool = False

    @property
    def forgiving(self) -> bool:
        return self.optional or self.on_failure in _FORGIVING


@dataclass(frozen=True, slots=True)
class Case:
    """One branch of a switch: the first case whose ``when`` is true is taken."""

    when: Expression
    to: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Prefer:
    """The pool a step waits in first, and for how long once it is queued."""

    pool: str
    time: timedelta


@dataclass(frozen=True, slots=True, eq=False)
class NodePlan:
    """One node. ``index`` is its place in topological order; ``n_deps`` the number of its incoming edges.

    ``refs`` are the nodes whose output its own expressions read: only these need to be fetched before it runs.
    ``retry`` holds what the workflow says about retries (max_attempts, initial_s, max_s, jitter, retry_on), to be laid
    over the tool's own policy; ``timeout_s`` is None where the tool's own limit holds. ``handles_failure`` says that
    the graph goes on by the author's will when this node ends badly: it has successors, and each outgoing edge is
    forgiving or enters a join that tolerates failures (any, at_least, all_done). ``gates`` are the tool nodes that need
    the grant of this approval; None: the first that write on every way from it. ``undo`` is how its effect is undone,
    None where only the tool's contract says so. ``compensates``: if it ends badly, what it and the nodes before it did
    is undone. ``reviews``: a person looks before it starts when one before it ended badly. ``on_lost``: what becomes
    of it when its worker is lost; None: what its tool's contract says.
    """

    id: str
    index: int
    kind: Kind
    tool: str | None
    input: Template | None
    business_key: Expression | None
    retry: Mapping[str, Any]
    timeout_s: float | None
    pool: str
    priority: int
    predecessors: tuple[tuple[str, Edge], ...]
    successors: tuple[tuple[str, Edge], ...]
    join_mode: Literal["all", "any"]
    join_policy: Literal["all_succeeded", "at_least", "all_done"]
    join_n: int
    cases: tuple[Case, ...]
    default: tuple[str, ...]
    title: str
    role: str
    expires_s: float | None
    on_timeout: Literal["reject", "keep", "escalate"]
    escalation: tuple[Mapping[str, Any], ...]
    quorum: int
    separation: Literal["none", "requester", "two_people"]
    risk: str
    evidence: Template | None
    form: Mapping[str, Any] | None
    start_within_s: float | None
    payload: Template | None
    target: Template | None
    gates: tuple[str, ...] | None
    wait_s: float | None
    wait_until: Expression | None
    event: str | None
    correlation: Expression | None
    verifier: str | None
    criterion: Expression | None
    refs: frozenset[str]
    n_deps: int
    handles_failure: bool
    undo: Undo | None
    compensates: bool
    reviews: bool
    join_timeout_s: float | None = None
    on_lost: Literal["recompute", "query", "hold"] | None = None
    prefer: Prefer | None = None

    @property
    def is_root(self) -> bool:
        return self.n_deps == 0

    def choose(self, context: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the targets a switch takes in ``context``. Raises InvalidExpression when a condition is no boolean."""
        for case in self.cases:
            if case.when.test(context):
                return case.to
        return self.default


@dataclass(frozen=True, eq=False)
class Plan:
    """A workflow version, compiled. ``nodes`` is in topological order; ties keep the order of the specification.

    Beside the nodes of the graph it answers, when asked by name, the steps that undo them (``undo.Nodes``).
    ``max_parallel`` bounds how many steps of a run are under way at once (C2.7); ``recovery_point_s`` is how many
    seconds of a step's work the loss of its worker may cost (C4.3).
    """

    name: str
    description: str
    nodes: Mapping[str, NodePlan]
    order: tuple[str, ...]
    roots: tuple[str, ...]
    sinks: tuple[str, ...]
    n_edges: int
    input_schema: Mapping[str, Any] | None
    output: Template | None
    success: Expression | None
    max_parallel: int | None = None
    state: Template | None = None
    recovery_point_s: float | None = None

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> Plan:
        """Compile a checked specification (format ``quarterdeck/1``). Raises InvalidExpression as ``compile`` does."""
        return _Builder(spec).build()

    @cached_property
    def tools(self) -> frozenset[str]:
        """The tool references (``name@version``) this workflow can call, what undoes and verifies among them."""
        nodes = self.nodes.values()
        undo = [node.undo for node in nodes if node.undo is not None]
        named = [node.tool for node in nodes] + [one.tool for one in undo] + [one.verify_tool for one in undo]
        return frozenset(name for name in named if name)

    @cached_property
    def certain_tools(self) -> frozenset[str]:
        """The tool references that every run calls: no switch, fallback or OR join decides whether."""
        sure: set[str] = set()
        for name, node in self.nodes.items():
            chosen = node.join_mode == "any" or any(
                source not in sure or self.nodes[source].kind == "switch" or edge.on_failure == "fallback"
                for source, edge in node.predecessors
            )
            if not chosen:
                sure.add(name)
        cut: set[str] = set()  # what an OR join may end before it is called
        for name in reversed(self.order):
            if any(target in cut or self.nodes[target].join_mode == "any" for target, _ in self.nodes[name].successors):
                cut.add(name)
        return frozenset(tool for name in sure - cut if (tool := self.nodes[name].tool))

    @cached_property
    def asks(self) -> tuple[str, ...]:
        """The approval nodes, in topological order."""
        return tuple(name for name, node in self.nodes.items() if node.kind == "approval")

    @cached_property
    def compensates(self) -> bool:
        """Whether a bad end in it may call for undoing effects."""
        return any(node.compensates for node in self.nodes.values())

    @cached_property
    def depth(self) -> int:
        """The number of nodes on the longest path."""
        level: dict[str, int] = {}
        for node_id in self.order:
            level[node_id] = 1 + max((level[p] for p, _ in self.nodes[node_id].predecessors), default=0)
        return max(level.values(), default=0)

    def chosen(self, switch: str, choice: Collection[str] | None) -> Collection[str]:
        """Return the targets that count as chosen; a switch that never decided (forced, skipped) took its default."""
        return self.nodes[switch].default if choice is None else choice


class _Builder:
    """Turns the dictionaries of a specification into a Plan."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.spec = spec
        self.defaults: Mapping[str, Any] = spec.get("defaults") or {}
        self.raw: dict[str, Mapping[str, Any]] = {node["id"]: node for node in spec["nodes"]}
        self.place = {node["id"]: i for i, node in enumerate(spec["nodes"])}
        self.edges = edges_of(spec)
        self.before: dict[str, list[Edge]] = {node: [] for node in self.raw}
        self.after: dict[str, list[Edge]] = {node: [] for node in self.raw}
        for edge in self.edges:
            self.before[edge.target].append(edge)
            self.after[edge.source].append(edge)

    def build(self) -> Plan:
        order = self._order()
        nodes = Nodes({node_id: self._node(node_id, index) for index, node_id in enumerate(order)})
        return Plan(
            name=self.spec["name"],
            description=self.spec.get("description", ""),
            nodes=MappingProxyType(nodes),
            order=tuple(order),
            roots=tuple(n for n in order if not self.before[n]),
            sinks=tuple(n for n in order if not self.after[n]),
            n_edges=len(self.edges),
            input_schema=self.spec.get("input_schema"),
            output=_template(self.spec, "output", ""),
            success=_expression(self.spec, "success"),
            max_parallel=self.spec.get("max_parallel"),
            state=_template(self.spec, "state", ""),
            recovery_point_s=self.spec.get("recovery_point_s"),
        )

    def _order(self) -> list[str]:
        order, loop = topological_order(self.place, self.after)
        if loop:
            raise ValueError(f"not acyclic: {loop}")
        return order

    def _node(self, node_id: str, index: int) -> NodePlan:
        raw = self.raw[node_id]
        where = f"/nodes/{self.place[node_id]}"
        join: Mapping[str, Any] = raw.get("join") or {}
        payload, body = _template(raw, "payload", where), _template(raw, "input", where)
        target, evidence = _template(raw, "target", where), _template(raw, "evidence", where)
        cases = tuple(Case(compile_expression(c["when"]), tuple(c["to"])) for c in raw.get("cases", ()))
        until, business_key = _expression(raw, "until"), _expression(raw, "business_key")
        criterion = _expression(raw, "criterion", CRITERION_NAMES)
        correlation = _expression(raw, "correlation")
        parts = (payload, body, target, evidence)
        texts = (until, business_key, criterion, correlation, *(case.when for case in cases))
        refs = frozenset().union(*(p.refs for p in parts if p), *(t.node_refs for t in texts if t))
        policy = join.get("policy", "all_succeeded")
        return NodePlan(
            id=node_id,
            index=index,
            kind=raw["kind"],
            tool=raw.get("tool"),
            input=body,
            business_key=business_key,
            retry=MappingProxyType({**(self.defaults.get("retry") or {}), **(raw.get("retry") or {})}),
            timeout_s=raw.get("timeout_s", self.defaults.get("timeout_s")),
            pool=raw.get("pool", self.defaults.get("pool", "default")),
            priority=raw.get("priority", self.defaults.get("priority", 0)),
            predecessors=tuple((edge.source, edge) for edge in self.before[node_id]),
            successors=tuple((edge.target, edge) for edge in self.after[node_id]),
            join_mode=join.get("mode", "all"),
            join_policy=policy,
            join_n=join.get("n", 0) if policy == "at_least" else 0,
            cases=cases,
            default=tuple(raw.get("default", ())),
            title=raw.get("title", ""),
            role=raw.get("role", ""),
            expires_s=raw.get("expires_s"),
            on_timeout=raw.get("on_timeout", "reject"),
            escalation=tuple(MappingProxyType(rung) for rung in raw.get("escalation", ())),
            quorum=raw.get("quorum", 1),
            separation=raw.get("separation", "requester"),
            risk=raw.get("risk", ""),
            evidence=evidence,
            form=raw.get("form"),
            start_within_s=raw.get("start_within_s"),
            payload=payload,
            target=target,
            gates=tuple(raw["gates"]) if "gates" in raw else None,
            wait_s=raw.get("seconds"),
            wait_until=until,
            event=raw.get("event"),
            correlation=correlation,
            verifier=raw.get("verifier"),
            criterion=criterion,
            refs=refs,
            n_deps=len(self.before[node_id]),
            handles_failure=self._handles_failure(node_id),
            undo=Undo.from_spec(raw["compensation"], f"{where}/compensation") if "compensation" in raw else None,
            compensates=self._compensates(node_id),
            reviews=any(edge.on_failure == "manual_review" for edge in self.before[node_id]),
            join_timeout_s=join.get("timeout_s"),
            on_lost=raw.get("on_lost"),
            prefer=_prefer(raw.get("prefer", self.defaults.get("prefer"))),
        )

    def _compensates(self, node_id: str) -> bool:
        """Whether an edge from the node says so, or, for a node that nothing follows, the workflow's default."""
        outgoing = self.after[node_id]
        if not outgoing:
            return self.defaults.get("on_failure") == "compensate"
        return any(edge.on_failure == "compensate" and not edge.optional for edge in outgoing)

    def _handles_failure(self, node_id: str) -> bool:
        outgoing = self.after[node_id]
        return bool(outgoing) and all(edge.forgiving or self._tolerant(edge.target) for edge in outgoing)

    def _tolerant(self, node_id: str) -> bool:
        join: Mapping[str, Any] = self.raw[node_id].get("join") or {}
        return join.get("mode") == "any" or join.get("policy") in ("at_least", "all_done")


def edges_of(spec: Mapping[str, Any]) -> list[Edge]:
    """Return every edge once: those of ``after`` and those a switch implies, in the order of the specification.

    A switch that names a node which also lists the switch in ``after`` makes one edge, with the policy of ``after``.
    """
    on_failure: OnFailure = (spec.get("defaults") or {}).get("on_failure", "fail_fast")
    cases: dict[str, dict[str, None]] = {}
    for node in spec["nodes"]:
        if node["kind"] == "switch":
            targets = [t for case in node.get("cases", ()) for t in case["to"]] + list(node.get("default", ()))
            for target in targets:
                cases.setdefault(target, {})[node["id"]] = None
    edges = []
    for node in spec["nodes"]:
        implied = cases.get(node["id"], {})
        listed = set()
        for entry in node.get("after", ()):
            one: Mapping[str, Any] = {"node": entry} if isinstance(entry, str) else entry
            source = one["node"]
            listed.add(source)
            policy = one.get("on_failure", on_failure)
            edges.append(Edge(source, node["id"], policy, one.get("optional", False), source in implied))
        edges.extend(Edge(source, node["id"], on_failure, False, True) for source in implied if source not in listed)
    return edges


def topological_order(place: Mapping[str, int], after: Mapping[str, Collection[Edge]]) -> tuple[list[str], list[str]]:
    """Return (order, rest): Kahn's algorithm by levels, each in the order of ``place``; ``rest`` cannot be ordered."""
    left = dict.fromkeys(place, 0)
    for edges in after.values():
        for edge in edges:
            left[edge.target] += 1
    order: list[str] = []
    ready = [node for node, n in left.items() if n == 0]
    while ready:
        order.extend(ready)
        following = []
        for node in ready:
            for edge in after[node]:
                left[edge.target] -= 1
                if left[edge.target] == 0:
                    following.append(edge.target)
        ready = sorted(following, key=place.__getitem__)
    done = set(order)
    return order, [node for node in place if node not in done]


def _prefer(raw: Mapping[str, Any] | None) -> Prefer | None:
    return Prefer(raw["pool"], timedelta(seconds=raw["for_s"])) if raw is not None else None


def _template(raw: Mapping[str, Any], key: str, where: str) -> Template | None:
    return compile_template(raw[key], f"{where}/{pointer_token(key)}") if raw.get(key) is not None else None


def _expression(raw: Mapping[str, Any], key: str, allowed: frozenset[str] = CONTEXT_NAMES) -> Expression | None:
    return compile_expression(raw[key], allowed) if raw.get(key) is not None else None
