"""Samples of the shop's tools: its answers as they were recorded, and what each has to be read as (C8.8)."""

from __future__ import annotations

from typing import Any

_REFUND = {"refund_id": "R-000001", "order_id": "A-1001", "amount": "12.50", "status": "paid"}
_HALF = {**_REFUND, "amount": "6.25", "status": "partial", "asked": "12.50"}
_ORDER = {
    "order_id": "A-1001", "customer": "Ada Quist", "email": "ada.quist@customers.example", "total": "1237.00",
    "refunded": "0.00", "currency": "EUR", "version": "v1", "note": "",
}  # fmt: skip
_MAIL = {"mail_id": "M-000001", "to": "ada.quist@customers.example", "subject": "Your refund", "sent": True}
# What each is called with, and what it answers when all is well.
_NORMAL: dict[str, tuple[dict[str, Any], Any]] = {
    "shop.order": ({"order_id": "A-1001"}, _ORDER),
    "shop.refund": ({"order_id": "A-1001", "amount": "12.50"}, _REFUND),
    "shop.find_refund": ({"key": "0190"}, {"found": True, "refund": _REFUND}),
    "shop.refund_state": ({"refund_id": "R-000001"}, _REFUND),
    "shop.undo_refund": ({"refund_id": "R-000001"}, {**_REFUND, "status": "undone"}),
    "shop.mail": ({"order_id": "A-1001", "to": _MAIL["to"], "subject": _MAIL["subject"]}, _MAIL),
    "shop.pickup": ({"order_id": "A-1001"}, {"pickup_id": "P-00001", "order_id": "A-1001"}),
}


def shop_samples(contract: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the samples of one of the shop's contracts, at least one of each kind that can happen to it."""
    arguments, answer = _NORMAL[contract["name"]]
    writes = contract["side_effect"] == "write"
    surely, open_end, turned_away = ("refused", "unknown", "absent") if writes else ("error",) * 3

    def sample(kind: str, said: str, recording: dict[str, Any], /, **expect: str) -> dict[str, Any]:
        recording = {"arguments": arguments, **recording}
        return {"name": said, "kind": kind, "recording": recording, "expect": expect}

    found = [
        sample("normal", "done", _answer(200, answer), kind="ok"),
        sample("retryable_error", "busy", _refusal(429, "busy", "3600"), kind=turned_away, error_class="rate_limited"),
        sample("retryable_error", "broken", _refusal(500, "told_so"), kind=open_end, error_class="server_error"),
        sample("retryable_error", "not there", {"broken": "refused"}, kind=turned_away, error_class="network"),
        sample("malformed", "garbage", {"answer": {"status": 200, "body": "<html>it works</html>"}}, kind=open_end,
               error_class="protocol", code="unreadable"),
        sample("oversize", "endless", {"answer": {"status": 200, "bytes": 1_000_001}}, kind=open_end,
               error_class="oversize"),
        sample("denied", "denied", _refusal(403, "forbidden"), kind=surely, error_class="permission"),
    ]  # fmt: skip
    if writes:
        refusal = _refusal(409, "order_closed")
        found.append(sample("deterministic_error", "closed", refusal, kind="refused", error_class="business"))
        found.append(_part(contract, sample))
        found.append(sample("retryable_error", "lost", {"broken": "cut"}, kind="unknown", error_class="network"))
    else:
        refusal = _refusal(404, "nothing_here")
        found.append(sample("deterministic_error", "not known", refusal, kind="error", error_class="not_found"))
    return found


def _part(contract: dict[str, Any], sample: Any) -> dict[str, Any]:
    """A refund that was paid in part says so; of the others half an answer is a part."""
    if contract["name"] == "shop.refund":
        return sample("partial", "half", _answer(200, _HALF), kind="unknown", code="not_proved")
    half = {"answer": {"status": 200, "body": '{"order_id": "A-10'}}
    return sample("partial", "half", half, kind="unknown", error_class="protocol")


def _answer(status: int, value: Any, **headers: str) -> dict[str, Any]:
    return {"answer": {"status": status, "headers": {"content-type": "application/json", **headers}, "json": value}}


def _refusal(status: int, code: str, retry_after: str | None = None) -> dict[str, Any]:
    told = {"title": "Refused", "detail": "The shop said no.", "code": code}
    return _answer(status, told, **({"retry-after": retry_after} if retry_after else {}))
