"""The product's own tools, for trials, examples and tests (C3.1)."""

from __future__ import annotations

from typing import Any

from runtime.tools.contract import ToolContract, check_contract
from runtime.tools.contract_schema import ERROR_CLASSES
from runtime.tools.errors import ToolError
from runtime.tools.functions import CallContext, tool_function


@tool_function
def noop(arguments: dict[str, Any]) -> dict[str, Any]:
    """Do nothing and answer {}."""
    return {}


@tool_function
def echo(arguments: dict[str, Any]) -> dict[str, Any]:
    """Answer with the arguments."""
    return arguments


@tool_function
def fail(arguments: dict[str, Any], *, context: CallContext) -> dict[str, Any]:
    """Fail with the class that is asked for; with ``succeed_from`` the attempts from that number on succeed."""
    if context.attempt >= arguments.get("succeed_from", context.attempt + 1):
        return {"attempt": context.attempt}
    raise ToolError(
        arguments.get("message", "asked to fail"),
        error_class=arguments["error_class"],
        retry_after=arguments.get("retry_after_s"),
        applied=False,
    )


@tool_function
def sleep(arguments: dict[str, Any], *, context: CallContext) -> dict[str, Any]:
    """Wait ``seconds``, ending early on cancel and failing at the time limit."""
    if not context.sleep(arguments["seconds"]):
        error_class = "cancelled" if context.cancel.is_set() else "timeout"
        raise ToolError(f"{error_class} while waiting", error_class=error_class, applied=False)
    return {"slept_s": arguments["seconds"]}


_OBJECT: dict[str, Any] = {"type": "object"}


def _contract(function: str, description: str, **more: Any) -> ToolContract:
    value = {
        "name": f"core.{function}",
        "version": 1,
        "description": description,
        "adapter": "python",
        "config": {"callable": f"runtime.tools.builtin:{function}"},
        "input_schema": _OBJECT,
        "side_effect": "none",
        "recovery": "replayable",
        "owner": "quarterdeck",
        **more,
    }
    return check_contract(value, builtin=True)


BUILTIN_CONTRACTS: tuple[ToolContract, ...] = (
    _contract("noop", "Does nothing and answers {}.", runs="inline", timeout_s=5),
    _contract("echo", "Answers with its arguments.", runs="inline", timeout_s=5),
    _contract(
        "fail",
        "Fails with the error class that is asked for.",
        runs="inline",
        timeout_s=5,
        input_schema={
            "type": "object",
            "additionalProperties": False,
            "required": ["error_class"],
            "properties": {
                "error_class": {"enum": list(ERROR_CLASSES)},
                "message": {"type": "string", "maxLength": 500},
                "retry_after_s": {"type": "number", "minimum": 0},
                "succeed_from": {"type": "integer", "minimum": 1},
            },
        },
    ),
    _contract(
        "sleep",
        "Waits, and ends early when the step is cancelled.",
        timeout_s=3600,
        input_schema={
            "type": "object",
            "additionalProperties": False,
            "required": ["seconds"],
            "properties": {"seconds": {"type": "number", "minimum": 0, "maximum": 3600}},
        },
    ),
)
