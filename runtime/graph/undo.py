"""How a node's effect is undone, as the workflow says it before anything is done (C4.5), and the steps that do it.

A compensation is a step of the run that no workflow has: ``undo:pay`` undoes what ``pay`` did, ``undo-check:pay`` asks
whether it is undone. An effect of a later execution version is undone by ``undo@2:pay``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from runtime.graph.expressions import CONTEXT_NAMES, Expression, compile_expression
from runtime.graph.templates import Template, compile_template

if TYPE_CHECKING:
    from runtime.graph.plan import NodePlan

# ``operation`` is the effect that is undone: {id, business_key, arguments, output, external_ref}.
UNDO_NAMES = CONTEXT_NAMES | {"operation"}
VERIFY_NAMES = UNDO_NAMES | {"output"}
DEADLINE_S = 3600.0
# The step's name is the node's with a few characters before it, and a name has 200.
MAX_UNDONE_ID = 180
RESERVED = re.compile(r"undo(-check)?(@\d{1,5})?:")
_NAME = re.compile(r"(undo|undo-check)(?:@\d{1,5})?:(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True, eq=False)
class Person:
    """Nothing undoes it safely: what follows from that, who takes care, and how long it may take."""

    owner: str
    consequence: str
    within_s: float


@dataclass(frozen=True, slots=True, eq=False)
class Undo:
    """The declared compensation of a node. ``tool`` None: the one its tool's contract names.

    ``input`` None: the arguments of the call that is undone. With ``verify_tool`` the business fact is asked for and
    judged by ``criterion``; without it the compensation's own answer counts. ``person`` stands instead of all that.
    """

    tool: str | None = None
    input: Template | None = None
    retry: Mapping[str, Any] | None = None
    timeout_s: float | None = None
    deadline_s: float = DEADLINE_S
    verify_tool: str | None = None
    verify_input: Template | None = None
    criterion: Expression | None = None
    person: Person | None = None

    @classmethod
    def from_spec(cls, raw: Mapping[str, Any], where: str) -> Undo:
        """Compile a checked declaration."""
        if "owner" in raw:
            return cls(person=Person(raw["owner"], raw["consequence"], raw.get("within_s", 86_400)))
        verify: Mapping[str, Any] = raw.get("verify") or {}
        return cls(
            tool=raw.get("tool"),
            input=_template(raw, "input", where),
            retry=raw.get("retry"),
            timeout_s=raw.get("timeout_s"),
            deadline_s=raw.get("deadline_s", DEADLINE_S),
            verify_tool=verify.get("tool"),
            verify_input=_template(verify, "input", f"{where}/verify"),
            criterion=compile_expression(verify["criterion"], VERIFY_NAMES) if verify else None,
        )


def _template(raw: Mapping[str, Any], key: str, where: str) -> Template | None:
    return compile_template(raw[key], f"{where}/{key}", UNDO_NAMES) if key in raw else None


def undo_name(node: str, execution_version: int, *, check: bool = False) -> str:
    """Return the name of the step that undoes what ``node`` did in an execution version, or checks it."""
    return f"undo{'-check' if check else ''}{f'@{execution_version}' if execution_version > 1 else ''}:{node}"


def undone_node(name: str) -> str:
    """Return the node whose effect the step ``name`` undoes. Raises KeyError when it undoes none."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise KeyError(name)
    return match[2]


class Nodes(dict[str, "NodePlan"]):
    """The nodes of a graph. Asked for ``undo:pay`` it answers that step's plan, without holding it among them."""

    def __missing__(self, name: str) -> NodePlan:
        match = _NAME.fullmatch(name)
        if match is None or match[2] not in self:
            raise KeyError(name)
        return _undo_plan(self[match[2]], name, check=match[1] == "undo-check")


def _undo_plan(node: NodePlan, name: str, *, check: bool) -> NodePlan:
    undo = node.undo or Undo()
    template = undo.verify_input if check else undo.input
    criterion = undo.criterion if check else None
    refs = (template.refs if template else frozenset()) | (criterion.node_refs if criterion else frozenset())
    return replace(
        node,
        id=name,
        index=1_000_000 + node.index,
        kind="compensation_check" if check else "compensation",
        tool=undo.verify_tool if check else undo.tool,
        input=template,
        business_key=None,
        retry=undo.retry or {},
        timeout_s=undo.timeout_s,
        predecessors=(),
        successors=(),
        join_mode="all",
        join_policy="all_succeeded",
        join_n=0,
        verifier=None,
        criterion=criterion,
        refs=refs,
        n_deps=0,
        handles_failure=False,
        compensates=False,
        reviews=False,
        on_lost=None,
    )
