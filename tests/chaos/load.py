"""What is asked of the system while it is killed: submits by HTTP, single and in bulk, some of them twice; cancels.

Of the effects some may be sent again under their key, some can be asked about, some only a person may repeat, and of
the deals a part fails at its end, so that what it did has to be undone.
"""

from __future__ import annotations

import http.client
import json
import random
import threading
import urllib.error
import urllib.request
import uuid
from dataclasses import dataclass, field
from typing import Any

SUBMITTERS = 3
PAUSE_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Scene:
    """The tenant of the run, its token, and the shop's tools as it knows them."""

    tenant_id: uuid.UUID
    token: str

    @classmethod
    def make(cls, shop: Any, seed: int) -> Scene:
        """Register tools and workflows; needs a running database."""
        from django.contrib.auth.models import User

        from runtime.access.roles import verbs_of_role
        from runtime.actions.tenants import add_member, create_tenant
        from runtime.actions.tokens import issue_token
        from runtime.actions.workflows import register_workflow
        from runtime.kernel.actor import Actor
        from runtime.management.example import register_builtin_tools
        from runtime.tools.registry import register_tool

        tenant_id = uuid.UUID(create_tenant(slug="chaos", name="Chaos")["tenant_id"])
        admin = Actor(kind="service", name="chaos", tenant_id=tenant_id, verbs=verbs_of_role("admin"))
        User.objects.create_user("chaos")
        add_member(actor=admin, username="chaos", role="admin")
        register_builtin_tools(admin)
        kept = {"recovery": "idempotent", "idempotency": "key", "timeout_s": 4}
        for name, more in (
            ("chaos.pay", kept),
            ("chaos.mail", kept),
            ("chaos.ship", {"recovery": "human", "idempotency": "none", "timeout_s": 4}),
        ):
            path = f"/moody/{name[6:]}?seed={seed}" + ("&keyed=1" if more is kept else "")
            register_tool(actor=admin, contract=shop.contract(path, **{**more, "name": name}))
        for name in ("find", "unbill", "unbook", "bill", "book"):
            register_tool(actor=admin, contract=_deal_tool(shop, seed, name))
        for document in workflows():
            register_workflow(actor=admin, raw=json.dumps(document))
        token = issue_token(actor=admin, username="chaos", name="chaos", verbs=None, days=1)["token"]
        return cls(tenant_id, token)


# The shop's books are complete once a slow call is through, which takes a second or two.
_LOOKUP = {
    "input": {"key": {"$": "operation.id"}},
    "applied": "answer.found",
    "result": {"$": "answer.answer"},
    "consistent_after_s": 5,
    "retention_s": 86400,
}
_RETRY = {"max_attempts": 6, "initial_s": 0.3, "max_s": 3}


def _deal_tool(shop: Any, seed: int, name: str) -> dict[str, Any]:
    """Return a tool of the deals: `bill` keeps no key and is asked about, `book` keeps one; both can be undone."""
    if name == "find":
        return shop.contract("/lookup/{key}", writes=False, name="chaos.find", timeout_s=4)
    keyed = {"recovery": "idempotent", "idempotency": "key", "retry": _RETRY}
    more: dict[str, Any] = {
        "bill": {"recovery": "query", "idempotency": "none", "query": "chaos.find@1", "lookup": _LOOKUP},
        "book": {**keyed, "recovery": "compensable"},
    }.get(name, keyed)
    if not name.startswith("un"):
        more = {**more, "compensation": f"chaos.un{name}@1"}
    path = f"/moody/{name}?seed={seed}" + ("&keyed=1" if more["idempotency"] == "key" else "")
    return shop.contract(path, **{"timeout_s": 4, **more, "name": f"chaos.{name}"})


def workflows() -> list[dict[str, Any]]:
    """Return the workflows: one with effects, one that is wide and quick, one whose effects are undone if it fails."""
    order = {"order": {"$": "input.order"}}

    def write(name: str, *after: str) -> dict[str, Any]:
        return {
            "id": name, "kind": "tool", "tool": f"chaos.{name}@1", "after": list(after), "input": order,
            "business_key": f"'{name}:' + input.order", "retry": _RETRY,
        }  # fmt: skip

    look = {"id": "look", "kind": "tool", "tool": "core.echo@1", "input": order}
    leaves = [
        {"id": f"n{i}", "kind": "tool", "tool": "core.sleep@1", "after": ["look"], "input": {"seconds": 0.2}}
        for i in range(8)
    ]
    end = {"id": "end", "kind": "tool", "tool": "core.noop@1", "after": [leaf["id"] for leaf in leaves]}
    seal = {"when": "input.bad", "to": ["spoil"]}
    deal = [
        look, write("bill", "look"), write("book", "bill"),
        {"id": "seal", "kind": "switch", "after": ["book"], "cases": [seal], "default": ["done"]},
        {"id": "spoil", "kind": "tool", "tool": "core.fail@1", "input": {"error_class": "business"}},
        {"id": "done", "kind": "tool", "tool": "core.noop@1"},
    ]  # fmt: skip
    rest = {"id": "rest", "kind": "wait", "seconds": 1, "after": ["pay"]}
    return [
        {
            "format": "quarterdeck/1",
            "name": "order",
            "nodes": [look, write("pay", "look"), write("ship", "pay"), rest, write("mail", "rest")],
        },
        {"format": "quarterdeck/1", "name": "wide", "nodes": [look, *leaves, end]},
        {"format": "quarterdeck/1", "name": "deal", "nodes": deal, "defaults": {"on_failure": "compensate"}},
    ]


@dataclass(slots=True)
class Load:
    """Submitters in threads. ``accepted``: request key → the ids that a 202 gave; ``keys``: all that was asked."""

    scene: Scene
    address: str
    seed: int
    accepted: dict[str, tuple[str, str]] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    conflicts: list[str] = field(default_factory=list)
    refusals: dict[str, int] = field(default_factory=dict)
    cancelled: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        """Begin to submit."""
        for number in range(SUBMITTERS):
            thread = threading.Thread(target=self._work, args=(number,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """Stop, when what is under way has its answer or is given up."""
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def _work(self, number: int) -> None:
        rng = random.Random(f"{self.seed}:{number}")
        count = 0
        while not self._stop.is_set():
            count += 1
            name = f"c{number}-{count}"
            if rng.random() < 0.2:
                self._submit_many([f"{name}-{i}" for i in range(10)], rng)
            else:
                self._submit(name, rng)
            if rng.random() < 0.05:
                self._cancel_one(rng)
            self._stop.wait(PAUSE_SECONDS * (0.5 + rng.random()))

    def _task(self, order: str, rng: random.Random) -> dict[str, Any]:
        [workflow] = rng.choices(("order", "deal", "wide"), (5, 3, 2))
        value: dict[str, Any] = {"order": order}
        if workflow == "deal":
            value["bad"] = rng.random() < 0.3
        return {"workflow": workflow, "input": value}

    def _submit(self, order: str, rng: random.Random) -> None:
        task = self._task(order, rng)
        with self._lock:
            self.keys[order] = task["workflow"]
        for _again in range(1 + (rng.random() < 0.15)):
            status, answer = self._insist("tasks/", task, {"Idempotency-Key": order})
            if status == 202:
                self._accept(order, answer)

    def _submit_many(self, orders: list[str], rng: random.Random) -> None:
        tasks = [{**self._task(order, rng), "request_key": order} for order in orders]
        with self._lock:
            self.keys.update({one["request_key"]: one["workflow"] for one in tasks})
        status, answer = self._insist("tasks/bulk/", {"tasks": tasks}, {})
        if status == 202:
            for order, item in zip(orders, answer["items"], strict=True):
                if item.get("status") == "accepted":
                    self._accept(order, item)

    def _accept(self, order: str, answer: dict[str, Any]) -> None:
        ids = (answer["task_id"], answer["run_id"])
        with self._lock:
            if self.accepted.setdefault(order, ids) != ids:
                self.conflicts.append(f"{order}: {self.accepted[order]} and {ids}")

    def _cancel_one(self, rng: random.Random) -> None:
        with self._lock:
            runs = [ids[1] for ids in list(self.accepted.values())[-30:]]
        if runs:
            status, _ = self._call(f"runs/{rng.choice(runs)}/cancel/", {"reason": "chaos"}, {})
            self.cancelled += status == 200

    def _insist(self, path: str, body: Any, headers: dict[str, str]) -> tuple[int, Any]:
        """Send until there is a definite answer or the run ends: the same key, so that nothing is made twice."""
        while True:
            status, answer = self._call(path, body, headers)
            with self._lock:
                self.refusals[str(status)] = self.refusals.get(str(status), 0) + 1
            if status and status < 500:
                return status, answer
            if self._stop.wait(0.3):
                return status, answer

    def _call(self, path: str, body: Any, headers: dict[str, str]) -> tuple[int, Any]:
        """Return (status, answer); status 0 when there was none."""
        request = urllib.request.Request(
            f"{self.address}/api/v1/{path}",
            data=json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self.scene.token}", "Content-Type": "application/json", **headers,
            },
        )  # fmt: skip
        try:
            with urllib.request.urlopen(request, timeout=15) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read()[:300]
        except (OSError, http.client.HTTPException, ValueError):
            return 0, None
