"""Small workflow documents for tests."""

from __future__ import annotations

from typing import Any


def tool(node_id: str, *after: Any, **more: Any) -> dict[str, Any]:
    """Return a no-op tool node."""
    return {"id": node_id, "kind": "tool", "tool": "core.noop@1", "after": list(after), **more}


def workflow(*nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a workflow of ``nodes``."""
    return {"format": "quarterdeck/1", "name": "w", "nodes": list(nodes), **more}


def refund() -> dict[str, Any]:
    """Return the refund workflow: load, a switch by amount, an approval above 100, the payment."""
    return workflow(
        tool("load", input={"order_id": {"$": "input.order_id"}}),
        {
            "id": "route",
            "kind": "switch",
            "after": ["load"],
            "cases": [{"when": "nodes.load.output.amount > 100", "to": ["ask"]}],
            "default": ["pay"],
        },
        {"id": "ask", "kind": "approval", "title": "Refund?", "payload": {"amount": {"$": "nodes.load.output.amount"}}},
        tool("pay", "route", "ask", input={"amount": {"$": "nodes.load.output.amount"}}),
        name="refund",
    )
