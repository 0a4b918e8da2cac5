"""Checks of a call's arguments and answer against the contract (C3.2). Messages name the place, never the value."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from runtime.kernel import canonical
from runtime.kernel.errors import BadInput, PayloadTooLarge, SchemaMismatch
from runtime.kernel.schemas import Compiled, compile_schema
from runtime.tools.contract import ToolContract
from runtime.tools.urls import expand

MAX_ARGUMENT_BYTES = 1_000_000


@lru_cache(maxsize=4096)
def _validators(contract: ToolContract) -> tuple[Compiled, Compiled | None]:
    """Compile once per contract digest (a contract hashes and compares by its digest)."""
    output = contract.output_schema
    return compile_schema(contract.input_schema), compile_schema(output) if output is not None else None


def prepare(contract: ToolContract, arguments: dict[str, Any]) -> bytes:
    """Return the canonical bytes of valid arguments: what is hashed, agreed to and sent.

    Raises SchemaMismatch, InvalidJSON or PayloadTooLarge with a JSON pointer ``where``; an address made from the
    arguments is checked against the contract's targets.
    """
    if not isinstance(arguments, dict):
        raise SchemaMismatch("The arguments of a tool are a JSON object.", where="")
    data = canonical.canonical_bytes(arguments)
    if len(data) > MAX_ARGUMENT_BYTES:
        raise PayloadTooLarge(f"The arguments have {len(data)} bytes, the limit is {MAX_ARGUMENT_BYTES}.")
    _check(_validators(contract)[0], arguments, f"the input schema of {contract.reference}")
    if contract.adapter == "http":
        expand(contract, arguments)
    return data


def check_output(contract: ToolContract, value: Any) -> bytes:
    """Return the canonical bytes of a valid answer; raises like ``prepare``."""
    data = canonical.canonical_bytes(value)
    if len(data) > contract.max_result_bytes:
        raise PayloadTooLarge(f"The answer has {len(data)} bytes, the limit is {contract.max_result_bytes}.")
    output = _validators(contract)[1]
    if output is not None:
        _check(output, value, f"the output schema of {contract.reference}")
    return data


def _check(compiled: Compiled, value: Any, what: str) -> None:
    try:
        if compiled.fits(value):
            return
    except ValueError as error:
        raise BadInput("The value is not JSON.", where="") from error
    problems = compiled.problems(value)
    raise SchemaMismatch(
        f"{problems[0].detail} (by {what})" if problems else f"The value does not fit {what}.",
        where=problems[0].where if problems else "",
        remediation=problems[0].mend if problems else None,
        problems=[{"where": p.where, "detail": p.detail, "remediation": p.mend} for p in problems],
    )
