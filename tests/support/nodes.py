"""Nodes of workflows for tests with real workers."""

from __future__ import annotations

from typing import Any


def node(node_id: str, reference: str, *after: Any, **more: Any) -> dict[str, Any]:
    """Return a tool node that calls ``reference``."""
    return {"id": node_id, "kind": "tool", "tool": reference, "after": list(after), **more}


def echo(node_id: str, *after: Any, **more: Any) -> dict[str, Any]:
    """Return a node that answers with its input."""
    return node(node_id, "core.echo@1", *after, **more)


def failing(node_id: str, *after: Any, error_class: str = "business", **more: Any) -> dict[str, Any]:
    """Return a node that fails with ``error_class``."""
    return node(node_id, "core.fail@1", *after, input={"error_class": error_class}, **more)


def flaky(node_id: str, *after: Any, succeed_from: int, **more: Any) -> dict[str, Any]:
    """Return a node that fails with a network error until its attempt number ``succeed_from``."""
    return node(node_id, "core.fail@1", *after, input={"error_class": "network", "succeed_from": succeed_from}, **more)


def sleeping(node_id: str, seconds: float, *after: Any, **more: Any) -> dict[str, Any]:
    """Return a node that waits in a slot, and ends early when cancelled."""
    return node(node_id, "core.sleep@1", *after, input={"seconds": seconds}, **more)
