"""The shop's tools, as contracts. The shop's address is part of a contract, so another port is another version."""

from __future__ import annotations

from typing import Any

from dashboard.example.shop import RECEIPT

_TEXT = {"type": "string", "minLength": 1, "maxLength": 200}
_MONEY = {"type": "string", "pattern": "^[0-9]{1,9}(\\.[0-9]{1,2})?$"}

# The shop's books are complete at once, and it forgets no key.
_REFUND_LOOKUP = {
    "input": {"key": {"$": "operation.id"}},
    "applied": "answer.found",
    "partial": "answer.refund.status == 'partial'",
    "matches": "answer.refund.order_id == arguments.order_id",
    "result": {"$": "answer.refund"},
    "reference": "answer.refund.refund_id",
    "consistent_after_s": 2,
    "retention_s": 31536000,
}


def _object(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": sorted(required),
        "additionalProperties": False,
        "properties": {**required, **optional},
    }


def contracts(port: int, version: int) -> list[dict[str, Any]]:
    """Return the contracts for a shop on ``port``, all in one version."""
    host = f"127.0.0.1:{port}"

    def tool(name: str, method: str, path: str, description: str, arguments: dict[str, Any], **more: Any) -> Any:
        writes = more.get("side_effect") == "write"
        return {
            "name": f"shop.{name}",
            "version": version,
            "description": description,
            "adapter": "http",
            "config": {
                "method": method, "url": f"http://{host}{path}", **({"reference_header": RECEIPT} if writes else {}),
            },
            "targets": [host],
            "input_schema": arguments,
            "side_effect": "read",
            "recovery": "replayable",
            "timeout_s": 15,
            "owner": "acme shop",
            **({"idempotency": "key"} if writes else {}),
            **more,
        }  # fmt: skip

    refund_id = _object({"refund_id": _TEXT})
    return [
        tool("order", "GET", "/orders/{order_id}", "Looks an order up.", _object({"order_id": _TEXT})),
        tool(
            "refund", "POST", "/refunds", "Pays money back to the customer.",
            _object({"order_id": _TEXT, "amount": _MONEY}, order_version=_TEXT),
            side_effect="write", recovery="query", query=f"shop.find_refund@{version}", lookup=_REFUND_LOOKUP,
            compensation=f"shop.undo_refund@{version}", on_error="refused", scopes=["money"],
            success_evidence={"holds": "answer.status == 'paid'", "kind": "the refund as it was paid"},
        ),
        tool(
            "find_refund", "GET", "/refunds{?key}", "Looks a refund up by the operation that made it.",
            _object({"key": _TEXT}),
        ),
        tool("refund_state", "GET", "/refunds/{refund_id}", "Reads a refund in the shop's books.", refund_id),
        tool(
            "undo_refund", "POST", "/refunds/{refund_id}/undo", "Takes a refund back.", refund_id,
            side_effect="write", recovery="idempotent",
        ),
        tool(
            "mail", "POST", "/mails", "Writes a mail to the customer.",
            _object({"order_id": _TEXT, "to": _TEXT, "subject": _TEXT}, text={"type": "string", "maxLength": 4000}),
            side_effect="write", recovery="idempotent",
        ),
        tool(
            "pickup", "POST", "/pickups", "Books a courier; each call books one.", _object({"order_id": _TEXT}),
            side_effect="write", recovery="human", idempotency="none",
        ),
    ]  # fmt: skip
