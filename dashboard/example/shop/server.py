"""The shop's counter: one request at a time finds its address, is treated by its manner, and gets its answer."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from dashboard.example.shop import RECEIPT
from dashboard.example.shop.books import KINDS, Books, Refusal
from dashboard.example.shop.manners import Manner, Rules

SLOW_SECONDS = 3.0
WRITES = ("refund", "undo", "finish", "mail", "pickup")
_CALLBACK_TIMEOUT_S = 5.0


class Dropped(Exception):
    """The connection ends without an answer."""


class Handler(BaseHTTPRequestHandler):
    """One request: find the address, ask the books, answer."""

    protocol_version = "HTTP/1.1"
    server_version = "AcmeShop/1"
    books: Books
    rules: Rules

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the books tell what happened."""

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def do_DELETE(self) -> None:
        self._serve("DELETE")

    def _serve(self, method: str) -> None:
        parts = urlsplit(self.path)
        path = [unquote(part) for part in parts.path.strip("/").split("/") if part]
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            body = json.loads(raw) if raw else {}
            if path[:1] == ["control"]:
                self._answer(200, self._control(method, path[1:], body))
            else:
                self._sell(method, path, query, body)
        except Refusal as refusal:
            told = {"title": "Refused", "detail": refusal.detail, "code": refusal.code}
            self._answer(refusal.status, told, retry_after=refusal.retry_after)
        except Dropped:
            self._drop()
        except (ValueError, TypeError, AttributeError) as problem:
            self._answer(400, {"title": "Bad request", "detail": f"It is not understood: {problem}", "code": "bad"})
        except OSError:
            self.close_connection = True  # whoever asked is gone

    def _sell(self, method: str, path: list[str], query: dict[str, str], body: dict[str, Any]) -> None:
        to, work = self._find(method, path, query, body)
        order_id, key = self._subject(path, query, body), self.headers.get("Idempotency-Key") or query.get("key", "")
        epoch = _number(self.headers.get("X-Quarterdeck-Epoch"))
        manner, hang = self.rules.manner(to, order_id, key, epoch) if to else (Manner(), _nothing)
        self._misbehave_before(manner, hang, order_id)
        if to == "undo" and order_id.startswith("tied-"):
            raise Refusal(429, "tied", "The bank has the money for now; come back later.", retry_after=3600)
        with self.books.lock:
            if manner.check_epoch and epoch is not None and key:
                self.books.fence(key, epoch)
            value = work(manner)
        if manner.callbacks:
            threading.Thread(target=self._call_back, args=(manner, dict(self.headers), value), daemon=True).start()
        if method == "POST" and order_id.startswith("lost-") and to != "mail":
            raise Dropped  # applied, but nobody is told: the classic question without an answer
        if manner.after == "hang":
            hang()
        if manner.after == "drop":
            raise Dropped
        if manner.after == "answer":
            raise Refusal(manner.status, "told_so", "The shop was told to answer so.", manner.retry_after)
        if manner.after == "garbage":
            self._answer(200, raw=b"<html>it works</html>")
        else:
            self._answer(200, value, receipt=_receipt(value) if to in WRITES else None)

    def _subject(self, path: list[str], query: dict[str, str], body: dict[str, Any]) -> str:
        """Return the order a call is about, however it names it; an empty text when none is known."""
        if order_id := body.get("order_id") or query.get("order_id"):
            return str(order_id)
        if path[:1] == ["orders"] and len(path) > 1:
            return path[1]
        with self.books.lock:
            known = self.books.refunds.get(path[1]) if path[:1] == ["refunds"] and len(path) > 1 else None
            known = known or self.books.by_key.get(("refunds", query.get("key", "")))
        return str(known["order_id"]) if known is not None else ""

    def _misbehave_before(self, manner: Manner, hang: Callable[[], None], order_id: str) -> None:
        if order_id.startswith("slow-"):
            time.sleep(SLOW_SECONDS)
        if order_id.startswith("busy-"):
            raise Refusal(429, "busy", "Come back later.", retry_after=3600)
        if manner.before in ("hang", "swallow"):
            hang()
        if manner.before in ("drop", "swallow"):
            raise Dropped
        if manner.before == "answer":
            raise Refusal(manner.status, "told_so", "The shop was told to answer so.", manner.retry_after)

    def _find(
        self, method: str, path: list[str], query: dict[str, str], body: dict[str, Any]
    ) -> tuple[str, Callable[[Manner], Any]]:
        """Return what a call wants, by its name in rules (empty: no rule holds for it), and what does it."""
        books, key = self.books, self.headers.get("Idempotency-Key") or ""
        match method, path:
            case "POST", ["refunds"]:
                return "refund", lambda manner: books.refund(_required(key), body, manner)
            case "POST", ["mails"]:
                return "mail", lambda manner: books.mail(_required(key), body, manner)
            case "POST", ["pickups"]:
                return "pickup", lambda manner: books.pickup(key, body, manner)
            case "POST", ["refunds", refund_id, "undo"]:
                return "undo", lambda _manner: books.undo(refund_id, key)
            case "POST", ["refunds", refund_id, "finish"]:
                return "finish", lambda _manner: books.finish(refund_id)
            case "POST", ["orders", order_id]:
                return "", lambda _manner: books.change(order_id, str(body.get("note", "")))
            case "POST", ["reset"]:
                return "", lambda _manner: books.forget()
            case "GET", ["refunds"] if "key" in query:
                return "query", lambda _manner: books.found(query["key"])
            case "GET", ["refunds" | "mails" | "pickups" as kind]:
                return "", lambda _manner: {"items": books.rows(kind, query.get("order_id"))}
            case "GET", ["refunds", refund_id]:
                return "state", lambda _manner: books.state(refund_id)
            case "GET", ["orders", order_id]:
                return "order", lambda _manner: books.order(order_id)
            case "GET", ["books"]:
                return "", lambda _manner: books.effects(query.get("order_id"))
            case "GET", []:
                return "", lambda _manner: {"shop": "acme", **{kind: len(books.entries[kind]) for kind in KINDS}}
        raise Refusal(404, "nothing_here", "The shop has no such address.")

    def _control(self, method: str, path: list[str], body: dict[str, Any]) -> Any:
        """Take a rule, show or clear them, let go who hangs, show the calls that came in."""
        rules = self.rules
        match method, path:
            case "POST", ["rules"]:
                return rules.add(body)
            case "GET", ["rules"]:
                return {"items": rules.shown()}
            case "DELETE", ["rules"]:
                return rules.clear()
            case "POST", ["release"]:
                return {"released": rules.release(int(body["rule"]))}
            case "POST", ["seed"]:
                return rules.seed(int(body["seed"]))
            case "POST", ["callback"]:
                rules.callback_headers = dict(body["headers"])
                return None
            case "GET", ["calls"]:
                return {"items": list(rules.calls)}
        raise Refusal(404, "nothing_here", "The shop takes no such order.")

    def _call_back(self, manner: Manner, headers: dict[str, str], value: Any) -> None:
        """Tell whoever gave an address in ``X-Quarterdeck-Callback`` what was done, as often and late as told."""
        given = {name.lower(): text for name, text in headers.items()}
        url = given.get("x-quarterdeck-callback")
        if not url:
            return
        time.sleep(manner.callback_s)
        message = {
            "version": 1,
            "epoch": _number(given.get("x-quarterdeck-epoch")),
            "token": given.get("x-quarterdeck-callback-token"),
            "status": "succeeded",
            "result": value,
        }
        data = json.dumps(message).encode()
        own = {"content-type": "application/json", **self.rules.callback_headers}
        for _ in range(manner.callbacks):
            try:
                request = urllib.request.Request(url, data=data, headers=own, method="POST")
                urllib.request.urlopen(request, timeout=_CALLBACK_TIMEOUT_S).close()
            except OSError:
                continue  # whoever does not listen is not told; the books hold what was done

    def _drop(self) -> None:
        self.close_connection = True
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it is gone already

    def _answer(
        self,
        status: int,
        value: Any = None,
        *,
        raw: bytes | None = None,
        retry_after: float | None = None,
        receipt: str | None = None,
    ) -> None:
        data = raw if raw is not None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        if retry_after is not None:
            self.send_header("retry-after", f"{retry_after:g}")
        if receipt is not None:
            self.send_header(RECEIPT, receipt)
        self.end_headers()
        self.wfile.write(data)


def _nothing() -> None:
    """There is nothing to wait for."""


def _receipt(value: dict[str, Any]) -> str:
    """Return under which number the shop's books have what was done."""
    return str(next(value[name] for name in ("refund_id", "mail_id", "pickup_id") if name in value))


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


def _required(key: str) -> str:
    if not key:
        raise Refusal(400, "no_key", "A write carries an Idempotency-Key.")
    return key


class Shop(ThreadingHTTPServer):
    """The server; a restart takes the port over at once."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 256


def serve(port: int, books: str) -> Shop:
    """Return a shop that listens on this machine (port 0: a free one); ``serve_forever`` runs it."""
    handler = type("Bound", (Handler,), {"books": Books(books), "rules": Rules()})
    return Shop(("127.0.0.1", port), handler)
