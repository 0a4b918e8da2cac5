"""Samples of the product's own tools (C8.8): what they answer, and what a broken one would."""

from __future__ import annotations

from typing import Any

from runtime.tools.contract import ToolContract

_ARGUMENTS: dict[str, dict[str, Any]] = {"core.fail": {"error_class": "network"}, "core.sleep": {"seconds": 0}}
_NORMAL: dict[str, Any] = {"core.fail": {"attempt": 2}, "core.sleep": {"slept_s": 0}}


def builtin_samples(contract: ToolContract) -> list[dict[str, Any]]:
    """Return the samples of a built-in tool, one of each kind that can happen to it."""
    arguments = _ARGUMENTS.get(contract.name, {})

    def sample(kind: str, recording: dict[str, Any], /, **expect: str) -> dict[str, Any]:
        name = kind.replace("_", "-")
        return {"name": name, "kind": kind, "recording": {"arguments": arguments, **recording}, "expect": expect}

    def raises(error_class: str) -> dict[str, Any]:
        return {"raises": {"error_class": error_class, "message": f"recorded: {error_class}", "applied": False}}

    return [
        sample("normal", {"answer": {"value": _NORMAL.get(contract.name, arguments)}}, kind="ok"),
        sample("retryable_error", raises("network"), kind="error", error_class="network"),
        sample("deterministic_error", raises("validation"), kind="error", error_class="validation"),
        sample("malformed", {"raw": '{"rate": NaN}'}, kind="error", error_class="protocol"),
        sample("oversize", {"answer": {"bytes": contract.max_result_bytes + 1}}, kind="error", error_class="oversize"),
        sample("denied", raises("permission"), kind="error", error_class="permission"),
    ]
