"""A task's input against the workflow's declared schema; compiled once per plan, nothing fetched (C3.2)."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from runtime.graph.plan import Plan
from runtime.kernel.errors import SchemaMismatch
from runtime.kernel.schemas import Compiled, compile_schema

_compiled: WeakKeyDictionary[Plan, Compiled] = WeakKeyDictionary()


def check_input(plan: Plan, value: Any) -> None:
    """Raise SchemaMismatch, naming the place, when ``value`` does not fit the workflow's ``input_schema``."""
    if plan.input_schema is None:
        return
    schema = _compiled.get(plan)
    if schema is None:
        schema = _compiled[plan] = compile_schema(dict(plan.input_schema))
    if schema.fits(value):
        return
    problem = schema.problems(value, 1)[0]
    raise SchemaMismatch(
        f"{problem.detail} (by the input schema of workflow {plan.name})",
        where=f"/input{problem.where}",
        remediation="Correct the value at `where`.",
    )
