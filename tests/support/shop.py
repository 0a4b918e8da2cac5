"""The shop as the tests' outside world: its process, what it is told per call, and its own books."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.request import Request, urlopen

from dashboard.example.tools import contracts
from tests.support.patience import patient

ROOT = Path(__file__).resolve().parents[2]


class Shop:
    """Handle of a running shop: ``with Shop(tmp_path) as shop``. See ``dashboard.example.shop.manners`` for rules."""

    def __init__(self, folder: Path) -> None:
        self.books_file = folder / "shop.jsonl"
        self.port = 0

    def __enter__(self) -> Shop:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Start it, on the port it had before if it had one; returns when it listens."""
        command = [sys.executable, "-m", "dashboard.example.shop"]
        self.process = subprocess.Popen(
            [*command, "--port", str(self.port), "--books", str(self.books_file), "--tell-port"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def kill(self) -> None:
        """End it at once; its port then refuses connections."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path: str, body: Any = None, *, method: str | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(self.url + path, data=data, method=method), timeout=patient(10)) as answer:
            return json.load(answer)

    def tell(self, to: str = "*", order_id: str | None = None, **manner: Any) -> int:
        """Tell it how to behave to the next call (``times=None``: to all from now on); returns the rule's number."""
        return self.ask("/control/rules", {"to": to, "order_id": order_id, **manner})["id"]

    def hits(self, rule: int) -> int:
        """Return how many calls a rule has met."""
        return next(one["hits"] for one in self.ask("/control/rules")["items"] if one["id"] == rule)

    def release(self, rule: int) -> None:
        """Let go who hangs by a rule."""
        self.ask("/control/release", {"rule": rule})

    def behave(self) -> None:
        """Forget every rule."""
        self.ask("/control/rules", method="DELETE")

    def calls(self, order_id: str, to: str | None = None) -> list[dict[str, Any]]:
        """Return the calls about an order that reached it, whatever came of them."""
        calls = self.ask("/control/calls")["items"]
        return [one for one in calls if one["order_id"] == order_id and to in (None, one["to"])]

    def effects(self, order_id: str, kind: str | None = None) -> list[dict[str, Any]]:
        """Return what its books hold of an order, oldest first; ``kind``: refunds, mails, pickups or undo."""
        items = self.ask(f"/books?order_id={order_id}")["items"]
        return [one for one in items if kind in (None, one["kind"])]

    def counts(self) -> dict[str, int]:
        """Return how many effects there are per kind and order: ``refunds:ORDER`` → n."""
        return self.ask("/books")["counts"]

    def contract(self, name: str, **more: Any) -> dict[str, Any]:
        """Return the example's contract ``shop.<name>`` for this shop, with members laid over it."""
        [found] = [one for one in contracts(self.port, 1) if one["name"] == f"shop.{name}"]
        return {**found, **more}
