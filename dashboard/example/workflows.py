"""The example's workflows: the refund, and some that come to rest where pages want to be seen."""

from __future__ import annotations

from typing import Any

VERIFIER = "refund_in_books"
APPROVAL_ABOVE = 100

_ORDER = {"order_id": {"type": "string", "minLength": 1, "maxLength": 100}}
_REFUND_INPUT = {
    "type": "object",
    "required": ["order_id", "amount"],
    "properties": {
        **_ORDER,
        "amount": {
            "description": "A decimal, best as a text, since money is never rounded.",
            "anyOf": [
                {"type": "string", "pattern": "^[0-9]{1,9}(\\.[0-9]{1,2})?$"},
                {"type": "number", "minimum": 0, "maximum": 999999999},
            ],
        },
    },
}
_ORDER_INPUT = {"type": "object", "required": ["order_id"], "properties": _ORDER}


def workflows(version: int) -> list[dict[str, Any]]:
    """Return every workflow, calling the shop's tools in ``version``."""
    return [
        refund(version),
        pick_up(version),
        close_books(),
        count_stock(),
        review(version),
        archive(version),
        exchange(version),
    ]


def refund(v: int) -> dict[str, Any]:
    """Load the order → policy → approve → refund → mail → verify in the shop's books."""
    order, amount = {"$": "input.order_id"}, {"$": "string(input.amount)"}
    return {
        "format": "quarterdeck/1",
        "name": "refund",
        "description": "Pays an order's money back; amounts above 100 need an approval.",
        "defaults": {"timeout_s": 20, "retry": {"max_attempts": 4, "initial_s": 1, "max_s": 60}},
        "input_schema": _REFUND_INPUT,
        "nodes": [
            {
                "id": "load",
                "kind": "tool",
                "title": "Look the order up",
                "tool": f"shop.order@{v}",
                "description": "Looks the order up in the shop.",
                "input": {"order_id": order},
            },
            {
                "id": "policy",
                "kind": "switch",
                "title": f"Above {APPROVAL_ABOVE}?",
                "description": "Small amounts go through; above 100 a person decides.",
                "after": ["load"],
                "cases": [{"when": f"double(input.amount) > {APPROVAL_ABOVE}.0", "to": ["approve"]}],
                "default": ["refund"],
            },
            {
                "id": "approve",
                "kind": "approval",
                "title": "Refund above 100",
                "role": "approver",
                "expires_s": 86400,
                "start_within_s": 3600,
                "target": {"id": order, "version": {"$": "nodes.load.output.version"}},
                "payload": {
                    "order_id": order,
                    "customer": {"$": "nodes.load.output.customer"},
                    "amount": amount,
                    "currency": {"$": "nodes.load.output.currency"},
                    "order_total": {"$": "nodes.load.output.total"},
                    "already_refunded": {"$": "nodes.load.output.refunded"},
                },
            },
            {
                "id": "refund",
                "kind": "tool",
                "title": "Pay the money back",
                "tool": f"shop.refund@{v}",
                "description": "Pays the money back. Done once per order and amount; undone by shop.undo_refund.",
                "after": ["approve"],
                "join": {"mode": "any"},
                "business_key": "'refund:' + input.order_id + ':' + string(input.amount)",
                "input": {
                    "order_id": {"$": "nodes.load.output.order_id"},
                    "amount": amount,
                    "order_version": {"$": "nodes.load.output.version"},
                },
                "compensation": {
                    "input": {"refund_id": {"$": "operation.output.refund_id"}},
                    "deadline_s": 600,
                    "verify": {
                        "tool": f"shop.refund_state@{v}",
                        "input": {"refund_id": {"$": "operation.output.refund_id"}},
                        "criterion": "output.status == 'undone'",
                    },
                },
            },
            {
                "id": "mail",
                "kind": "tool",
                "title": "Write to the customer",
                "tool": f"shop.mail@{v}",
                "description": "Tells the customer.",
                "after": ["refund"],
                "input": {
                    "order_id": order,
                    "to": {"$": "nodes.load.output.email"},
                    "subject": {"$": "'Your refund ' + nodes.refund.output.refund_id"},
                },
            },
            {
                "id": "verify",
                "kind": "verifier",
                "title": "Check the books",
                "verifier": f"{VERIFIER}@1",
                "tool": f"shop.refund_state@{v}",
                "description": "Looks the refund up in the shop's own books.",
                "after": ["refund"],
                "input": {"refund_id": {"$": "nodes.refund.output.refund_id"}},
                "criterion": "output.status == 'paid' && double(output.amount) == double(input.amount)",
            },
        ],
        "output": {"order_id": order, "refunded": amount, "refund_id": {"$": "nodes.refund.output.refund_id"}},
    }


def pick_up(v: int) -> dict[str, Any]:
    """Book a courier: nobody deduplicates it, so a lost answer is a person's business."""
    return {
        "format": "quarterdeck/1",
        "name": "pick-up",
        "description": "Books a courier for goods that come back; a lost answer needs a person.",
        "input_schema": _ORDER_INPUT,
        "nodes": [
            {
                "id": "load",
                "kind": "tool",
                "title": "Look the order up",
                "tool": f"shop.order@{v}",
                "input": {"order_id": {"$": "input.order_id"}},
            },
            {
                "id": "book",
                "kind": "tool",
                "title": "Book the courier",
                "tool": f"shop.pickup@{v}",
                "after": ["load"],
                "business_key": "'pickup:' + input.order_id",
                "input": {"order_id": {"$": "input.order_id"}},
            },
            {
                "id": "mail",
                "kind": "tool",
                "title": "Write to the customer",
                "tool": f"shop.mail@{v}",
                "after": ["book"],
                "input": {
                    "order_id": {"$": "input.order_id"},
                    "to": {"$": "nodes.load.output.email"},
                    "subject": "Your pick-up is booked",
                },
            },
        ],
    }


def close_books() -> dict[str, Any]:
    """A long, wide piece of night work: parts beside each other, a wait, and a part that may fail."""
    regions = ("north", "south", "east", "west")
    parts = [
        {
            "id": f"count-{region}",
            "kind": "tool",
            "title": f"Count the {region}",
            "tool": "core.sleep@1",
            "after": ["begin"],
            "input": {"seconds": {"$": "input.seconds"}},
        }
        for region in regions
    ]
    return {
        "format": "quarterdeck/1",
        "name": "close-books",
        "description": "Counts four regions beside each other and closes the day; one report may fail.",
        "input_schema": {
            "type": "object",
            "required": ["seconds"],
            "properties": {
                "seconds": {"type": "number", "minimum": 0, "maximum": 3600},
                "resume_at": {"type": "string", "format": "date-time"},
                "fail": {"enum": ["", "business", "validation"]},
            },
        },
        "nodes": [
            {"id": "begin", "kind": "tool", "title": "Open the books", "tool": "core.noop@1", "input": {}},
            *parts,
            {
                "id": "report",
                "kind": "switch",
                "title": "Print or cool down?",
                "after": [part["id"] for part in parts],
                "cases": [{"when": "has(input.fail) && input.fail != ''", "to": ["print"]}],
                "default": ["cool-down"],
            },
            {
                "id": "print",
                "kind": "tool",
                "title": "Print the report",
                "tool": "core.fail@1",
                "input": {"error_class": {"$": "input.fail"}, "message": "The printer has no paper."},
            },
            {
                "id": "cool-down",
                "kind": "wait",
                "title": "Cool down",
                "until": "has(input.resume_at) ? input.resume_at : '2020-01-01T00:00:00Z'",
            },
            {
                "id": "close",
                "kind": "tool",
                "title": "Close the day",
                "tool": "core.noop@1",
                "after": [{"node": "print", "on_failure": "continue_on_error"}, "cool-down"],
                "join": {"mode": "all", "policy": "all_done"},
                "input": {},
            },
        ],
    }


def count_stock() -> dict[str, Any]:
    """Four halls, shelf by shelf: many short steps beside each other, so that something moves for minutes."""
    halls, shelves = ("north", "south", "east", "west"), 40
    nodes: list[dict[str, Any]] = []
    for hall in halls:
        before = None
        for shelf in range(1, shelves + 1):
            node: dict[str, Any] = {
                "id": f"{hall}-{shelf:02}",
                "kind": "tool",
                "tool": "core.sleep@1",
                "input": {"seconds": {"$": "input.seconds"}},
            }
            if before is not None:
                node["after"] = [before]
            nodes.append(node)
            before = node["id"]
    total = {"id": "total", "kind": "tool", "tool": "core.noop@1", "input": {}}
    return {
        "format": "quarterdeck/1",
        "name": "count-stock",
        "description": "Counts four halls beside each other, shelf by shelf.",
        "input_schema": {
            "type": "object",
            "required": ["seconds"],
            "properties": {"seconds": {"type": "number", "minimum": 0, "maximum": 60}},
        },
        "nodes": [*nodes, {**total, "after": [f"{hall}-{shelves:02}" for hall in halls]}],
    }


def review(v: int) -> dict[str, Any]:
    """Two people look at an order, one after the other."""
    order = {"$": "input.order_id"}
    return {
        "format": "quarterdeck/1",
        "name": "close-account",
        "description": "Closes a customer's account after two looks at the order.",
        "input_schema": _ORDER_INPUT,
        "nodes": [
            {
                "id": "load",
                "kind": "tool",
                "title": "Look the order up",
                "tool": f"shop.order@{v}",
                "input": {"order_id": order},
            },
            {
                "id": "first-look",
                "kind": "approval",
                "after": ["load"],
                "title": "Close this account?",
                "role": "approver",
                "expires_s": 259200,
                "payload": {"order_id": order, "customer": {"$": "nodes.load.output.customer"}},
            },
            {
                "id": "second-look",
                "kind": "approval",
                "after": ["first-look"],
                "title": "Really close this account?",
                "role": "admin",
                "expires_s": 259200,
                "on_timeout": "keep",
                "payload": {"order_id": order, "customer": {"$": "nodes.load.output.customer"}},
            },
            {
                "id": "farewell",
                "kind": "tool",
                "title": "Say farewell",
                "tool": f"shop.mail@{v}",
                "after": ["second-look"],
                "input": {
                    "order_id": order,
                    "to": {"$": "nodes.load.output.email"},
                    "subject": "Your account is closed",
                },
            },
        ],
    }


def archive(v: int) -> dict[str, Any]:
    """Work for a pool that no worker of this installation serves: it waits in the queue, and the queue gets old."""
    return {
        "format": "quarterdeck/1",
        "name": "archive-order",
        "description": "Copies an order to the archive; workers of the pool `night` do it, and there are none here.",
        "input_schema": _ORDER_INPUT,
        "nodes": [
            {
                "id": "copy",
                "kind": "tool",
                "title": "Copy to the archive",
                "tool": f"shop.order@{v}",
                "pool": "night",
                "input": {"order_id": {"$": "input.order_id"}},
            }
        ],
    }


def exchange(v: int) -> dict[str, Any]:
    """Pay back, then send another size; where that cannot be, what was paid back is taken back again."""
    order, amount = {"$": "input.order_id"}, {"$": "string(input.amount)"}
    return {
        "format": "quarterdeck/1",
        "name": "exchange",
        "description": "Pays an order back and sends another size; when there is none, the refund is taken back.",
        "defaults": {"timeout_s": 20, "on_failure": "compensate", "retry": {"max_attempts": 8, "initial_s": 1}},
        "input_schema": _REFUND_INPUT,
        "nodes": [
            {
                "id": "refund",
                "kind": "tool",
                "title": "Pay the money back",
                "tool": f"shop.refund@{v}",
                "business_key": "'exchange:' + input.order_id + ':' + string(input.amount)",
                "input": {"order_id": order, "amount": amount},
                "compensation": {
                    "input": {"refund_id": {"$": "operation.output.refund_id"}},
                    "deadline_s": 86400,
                },
            },
            {
                "id": "send",
                "kind": "tool",
                "title": "Send another size",
                "tool": "core.fail@1",
                "after": ["refund"],
                "input": {"error_class": "business", "message": "That size is out of stock."},
            },
        ],
    }
