"""What the shop knows and sells. An entry is on disk before it is answered; the next start reads the books again."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from dashboard.example.shop.manners import Manner

CUSTOMERS = (
    "Ada Byron",
    "Grace Murray",
    "Alan Mathison",
    "Edsger Wybe",
    "Barbara Jane",
    "Donald Ervin",
    "Frances Allen",
)
KINDS = ("refunds", "mails", "pickups")


class Refusal(Exception):
    """The shop says no; nothing was applied."""

    def __init__(self, status: int, code: str, detail: str, retry_after: float | None = None) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.retry_after = status, code, detail, retry_after


class Books:
    """The entries, in memory as they are on disk. Whoever calls holds ``lock``."""

    def __init__(self, path: str) -> None:
        self.lock = threading.Lock()
        self.path = Path(path)
        self._open()

    def _open(self) -> None:
        self.entries: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
        self.by_key: dict[tuple[str, str], dict[str, Any]] = {}
        self.refunds: dict[str, dict[str, Any]] = {}
        self.back: dict[str, Decimal] = {}
        self.versions: dict[str, tuple[int, str]] = {}
        self.undos: list[dict[str, Any]] = []
        self.epochs: dict[str, int] = {}
        if self.path.exists():
            lines = self.path.read_bytes().split(b"\n")
            for line in lines[:-1]:
                self._take(json.loads(line))
            if lines[-1]:  # a line that was cut off was never answered
                os.truncate(self.path, self.path.stat().st_size - len(lines[-1]))
        self.file = self.path.open("a", encoding="utf-8")

    def _enter(self, entry: dict[str, Any]) -> dict[str, Any]:
        self.file.write(json.dumps(entry) + "\n")
        self.file.flush()
        self._take(entry)
        return entry

    def _take(self, entry: dict[str, Any]) -> None:
        kind = entry["kind"]
        if kind == "orders":
            version, _note = self.versions.get(entry["order_id"], (1, ""))
            self.versions[entry["order_id"]] = version + 1, entry["note"]
        elif kind == "undo":
            refund = self.refunds[entry["refund_id"]]
            refund["status"] = "undone"
            self.back[refund["order_id"]] -= Decimal(refund["amount"])
            self.undos.append(entry)
        elif kind == "rest":
            refund = self.refunds[entry["refund_id"]]
            self.back[refund["order_id"]] += Decimal(refund["asked"]) - Decimal(refund["amount"])
            refund["amount"], refund["status"] = refund["asked"], "paid"
        else:
            self.entries[kind].append(entry)
            if entry["key"]:
                self.by_key.setdefault((kind, entry["key"]), entry)
            if kind == "refunds":
                self.refunds[entry["refund_id"]] = entry
                order_id = entry["order_id"]
                self.back[order_id] = self.back.get(order_id, Decimal(0)) + Decimal(entry["amount"])

    def order(self, order_id: str) -> dict[str, Any]:
        """Return an order with what was paid back of it; each id is an order, and the same one every time."""
        number = sum(order_id.encode())
        customer = CUSTOMERS[number % len(CUSTOMERS)]
        version, note = self.versions.get(order_id, (1, ""))
        total = "50.00" if order_id.startswith("small-") else f"{1200 + 37 * (number % 50)}.00"
        return {
            "order_id": order_id,
            "customer": customer,
            "email": customer.lower().replace(" ", ".") + "@customers.example",
            "total": total,
            "refunded": f"{self.back.get(order_id, Decimal(0)):.2f}",
            "currency": "EUR",
            "version": f"v{version}",
            "note": note,
        }

    def change(self, order_id: str, note: str) -> dict[str, Any]:
        """Change an order, as somebody in the shop would: its version counts up."""
        self._enter({"kind": "orders", "order_id": order_id, "note": note, "at": time.time()})
        return self.order(order_id)

    def refund(self, key: str, body: dict[str, Any], manner: Manner) -> dict[str, Any]:
        """Pay back, once per key unless told otherwise. Raises Refusal."""
        if (known := self._known("refunds", key, manner)) is not None:
            return _refund(known)
        order_id, amount = order_id_of(body), _amount(body.get("amount"))
        order = self.order(order_id)
        if order_id.startswith("closed-"):
            raise Refusal(409, "order_closed", f"Order {order_id} was closed; nothing is paid back.")
        if body.get("order_version") not in (None, order["version"]):
            raise Refusal(409, "order_changed", f"Order {order_id} is {order['version']} by now.")
        # For other orders the shop trusts whoever asks: goods, freight and damages may be more than the price.
        if order_id.startswith("small-") and Decimal(order["refunded"]) + amount > Decimal(order["total"]):
            raise Refusal(409, "exceeds_total", "More would be paid back than was paid.")
        entry = {"refund_id": f"R-{len(self.refunds) + 1:06}", "amount": f"{amount:.2f}", "status": "paid"}
        if manner.partial:
            entry |= {"amount": f"{(amount / 2).quantize(Decimal('0.01'))}", "status": "partial"}
        return _refund(self._write("refunds", key, order_id, manner, {**entry, "asked": f"{amount:.2f}"}))

    def found(self, key: str) -> dict[str, Any]:
        """Answer whether a refund was made under a key, and which; a hidden one shows itself later."""
        known = self.by_key.get(("refunds", key))
        if known is not None and not self._shows(known):
            known = None
        return {"found": known is not None, "refund": None if known is None else _refund(known)}

    def _shows(self, entry: dict[str, Any]) -> bool:
        if entry.get("hidden_queries", 0) > 0:
            entry["hidden_queries"] -= 1
            return False
        return time.time() >= entry.get("shows_at", 0.0)

    def state(self, refund_id: str) -> dict[str, Any]:
        """Return a refund. Raises Refusal."""
        if refund_id not in self.refunds:
            raise Refusal(404, "no_such_refund", f"There is no refund {refund_id}.")
        return _refund(self.refunds[refund_id])

    def undo(self, refund_id: str, key: str) -> dict[str, Any]:
        """Take a refund back; taken back twice it is taken back."""
        if self.state(refund_id)["status"] != "undone":
            order_id = self.refunds[refund_id]["order_id"]
            self._enter({"kind": "undo", "key": key, "order_id": order_id, "refund_id": refund_id, "at": time.time()})
        return self.state(refund_id)

    def finish(self, refund_id: str) -> dict[str, Any]:
        """Pay the rest of a refund that was paid in part."""
        if self.state(refund_id)["status"] == "partial":
            self._enter({"kind": "rest", "refund_id": refund_id, "at": time.time()})
        return self.state(refund_id)

    def mail(self, key: str, body: dict[str, Any], manner: Manner) -> dict[str, Any]:
        """Send a mail, once per key unless told otherwise."""
        entry = self._known("mails", key, manner)
        if entry is None:
            words = {name: str(body.get(name, "")) for name in ("to", "subject", "text")}
            number = f"M-{len(self.entries['mails']) + 1:06}"
            entry = self._write("mails", key, order_id_of(body), manner, {"mail_id": number, **words})
        return {"mail_id": entry["mail_id"], "to": entry["to"], "subject": entry["subject"], "sent": True}

    def pickup(self, key: str, body: dict[str, Any], manner: Manner) -> dict[str, Any]:
        """Book a courier. It does not deduplicate: a second call books a second one."""
        number = f"P-{len(self.entries['pickups']) + 1:05}"
        entry = self._write("pickups", key, order_id_of(body), manner, {"pickup_id": number})
        return {"pickup_id": number, "order_id": entry["order_id"]}

    def _known(self, kind: str, key: str, manner: Manner) -> dict[str, Any] | None:
        return self.by_key.get((kind, key)) if manner.deduplicate else None

    def _write(self, kind: str, key: str, order_id: str, manner: Manner, more: dict[str, Any]) -> dict[str, Any]:
        entry = {"kind": kind, "key": key, "order_id": order_id, "at": time.time(), **more}
        if manner.hidden_queries:
            entry["hidden_queries"] = manner.hidden_queries
        if manner.hidden_s:
            entry["shows_at"] = time.time() + manner.hidden_s
        return self._enter(entry)

    def fence(self, key: str, epoch: int) -> None:
        """Take the epoch of a call under a key. Raises Refusal when a newer one was there."""
        if epoch < self.epochs.get(key, 0):
            raise Refusal(409, "stale_epoch", f"Epoch {self.epochs[key]} has called since; {epoch} is over.")
        self.epochs[key] = epoch

    def rows(self, kind: str, order_id: str | None) -> list[dict[str, Any]]:
        """Return refunds, mails or pickups, all or of one order, newest last."""
        return [one for one in self.entries[kind] if order_id in (None, one["order_id"])]

    def effects(self, order_id: str | None) -> dict[str, Any]:
        """Return what was really done, of all orders or one: entries, and how many per kind and order.

        A refund that was taken back counts as an effect, and its taking back as another: ``undo``.
        """
        items = [one for kind in KINDS for one in self.rows(kind, order_id)]
        items += [one for one in self.undos if order_id in (None, one["order_id"])]
        items.sort(key=lambda one: one["at"])
        return {"items": items, "counts": Counter(f"{one['kind']}:{one['order_id']}" for one in items)}

    def forget(self) -> dict[str, Any]:
        """Begin with empty books."""
        self.file.close()
        self.path.unlink(missing_ok=True)
        self._open()
        return {"empty": True}


def _refund(entry: dict[str, Any]) -> dict[str, Any]:
    shown = {name: entry[name] for name in ("refund_id", "order_id", "amount", "status")}
    return {**shown, "asked": entry["asked"]} if entry["status"] == "partial" else shown


def order_id_of(body: dict[str, Any]) -> str:
    """Return the order a body is about. Raises Refusal."""
    order_id = body.get("order_id")
    if not isinstance(order_id, str) or not 0 < len(order_id) <= 100:
        raise Refusal(422, "bad_order", "An order id is a text of up to 100 characters.")
    return order_id


def _amount(value: Any) -> Decimal:
    try:
        amount = Decimal(str(value)).quantize(Decimal("0.01"))
    except InvalidOperation:
        amount = Decimal(0)
    if amount <= 0:
        raise Refusal(422, "bad_amount", "An amount is a positive number.")
    return amount
