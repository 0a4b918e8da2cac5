"""One cell of the fault matrix: a run of one action kind, a fault at one place, and the record of it (C8.1)."""

from __future__ import annotations

import json
import socket
import threading
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runtime.models import Manifest, Operation, Run
from runtime.store.tx import tenant_tx
from tests.support.shop import Shop
from tests.support.workers import Desk, Stack

BUILD = Path(__file__).resolve().parents[3] / "build" / "fault_matrix"

PLACES = (
    "before_call",
    "delivered_no_receipt",
    "downstream_committed",
    "during_checkpoint",
    "callback_late",
    "lease_lost",
    "version_migration",
    "frozen_before_first_byte",
)
# Kind → the shop's tool, what its books call the effect, and what its contract says.
KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "read_only": ("order", "", {}),
    "idempotent": ("refund", "refunds", {"recovery": "idempotent", "idempotency": "key"}),
    "query_no_retry": ("refund", "refunds", {"recovery": "query", "idempotency": "none", "retry": {"max_attempts": 1}}),
    "compensable": ("refund", "refunds", {"recovery": "compensable", "idempotency": "key"}),
    "human_only": ("pickup", "pickups", {"recovery": "human", "idempotency": "none"}),
}
RETRY = {"initial_s": 0.1, "max_s": 0.2}
CONSISTENT_S = 0.3
NUMBER = {"v": 0}


@dataclass(slots=True)
class Expected:
    """How a cell ends: the run, the effects in the shop's books, the sends, and the decision's name."""

    status: str
    effects: int
    decision: str
    sends: int | None = None


class Gate:
    """A door before the shop: while it is shut, a call's connection hangs before its first byte can leave."""

    def __init__(self, port: int) -> None:
        self.to = port
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(0)
        self.port = self.listener.getsockname()[1]
        self.stuffing: list[socket.socket] = []
        for _ in range(4):  # the queue of a backlog of none is soon full; who comes then is not answered
            stuff = socket.socket()
            stuff.setblocking(False)
            with suppress(BlockingIOError):
                stuff.connect(("127.0.0.1", self.port))
            self.stuffing.append(stuff)

    def let_in(self) -> None:
        """Open: who waits outside is connected to the shop."""
        for stuff in self.stuffing:
            stuff.close()
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *_: object) -> None:
        for one in (*self.stuffing, self.listener):
            one.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                inside, _ = self.listener.accept()
                threading.Thread(target=self._forward, args=(inside,), daemon=True).start()

    def _forward(self, inside: socket.socket) -> None:
        with suppress(OSError), inside, socket.create_connection(("127.0.0.1", self.to)) as outside:
            back = threading.Thread(target=_pump, args=(outside, inside), daemon=True)
            back.start()
            _pump(inside, outside)
            back.join(10)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@dataclass(slots=True)
class Cell:
    """The run of one cell and its evidence."""

    place: str
    kind: str
    desk: Desk
    stack: Stack
    shop: Shop
    port: int = 0
    order: str = field(default_factory=lambda: f"M-{uuid.uuid4().hex[:10]}")
    run_id: uuid.UUID | None = None
    flow: str = ""
    call: dict[str, Any] = field(default_factory=dict)
    injected_at: str = ""

    @property
    def record(self) -> Path:
        """Where the evidence is kept."""
        return BUILD / f"{self.place}-{self.kind}.json"

    @property
    def target(self) -> str:
        """The address the kind calls, as the shop's rules name it."""
        return KINDS[self.kind][0]

    @property
    def writes(self) -> bool:
        return self.kind != "read_only"

    def register(self, **more: Any) -> None:
        """Register the kind's tools on the shop (or a door before it) and a workflow of three steps around the call."""
        NUMBER["v"] += 1
        number = NUMBER["v"]
        name, _books, contract = KINDS[self.kind]
        body = self._tool(name, number, **contract)
        if self.target == "refund":
            lookup = {**body["lookup"], "consistent_after_s": CONSISTENT_S}
            body |= {"lookup": lookup, "query": f"shop.find_refund@{number}"}
            body["compensation"] = f"shop.undo_refund@{number}"
            for helper in ("find_refund", "undo_refund"):
                self.desk.tool(self._tool(helper, number, through=self.shop.port))
        body["config"] = {**body["config"], **more.get("config", {})}
        reference = self.desk.tool(body)
        arguments: dict[str, Any] = {"order_id": {"$": "input.order_id"}}
        if self.target == "refund":
            arguments["amount"] = "10.00"
        call: dict[str, Any] = {"id": "act", "kind": "tool", "tool": reference, "after": ["first"], "input": arguments}
        if self.writes:
            call["business_key"] = "'act:' + input.order_id"
        self.flow, self.call = f"cell-{number}", call
        self.desk.register(self.spec())

    def spec(self, last: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """Return the workflow; ``more`` makes another version of it, ``last`` another call after it."""
        nodes = [
            {"id": "first", "kind": "tool", "tool": "core.noop@1"},
            self.call,
            {"id": "last", "kind": "tool", "tool": "core.noop@1", "after": ["act"], **(last or {})},
        ]
        return {"format": "quarterdeck/1", "name": self.flow, "nodes": nodes, **more}

    def _tool(self, name: str, number: int, *, through: int = 0, **more: Any) -> dict[str, Any]:
        port = through or self.port or self.shop.port
        body = self.shop.contract(name, **more)
        here, there = f"127.0.0.1:{self.shop.port}", f"127.0.0.1:{port}"
        config = {**body["config"], "url": body["config"]["url"].replace(here, there)}
        retry = {**RETRY, **more.get("retry", {})}
        fixed = {"name": f"shop.{name}", "version": number, "config": config, "targets": [there], "timeout_s": 8}
        return {**body, **fixed, "retry": retry}

    def start(self) -> uuid.UUID:
        self.run_id = self.desk.submit(self.flow, {"order_id": self.order})
        return self.run_id

    def now(self) -> None:
        """Note when the fault is injected, by the database's clock."""
        with self.stack.database.connect() as connection:
            row = connection.execute("SELECT qd_now()").fetchone()
        assert row is not None
        self.injected_at = row[0].isoformat()

    def effects(self) -> int:
        """Return how many effects of the kind the shop's own books hold."""
        books = KINDS[self.kind][1]
        return len(self.shop.effects(self.order, books)) if books else 0

    def operation(self) -> Operation | None:
        """Return the operation of the cell's business key, whoever sent it last."""
        with tenant_tx(self.desk.tenant.id):
            return Operation.objects.filter(business_key=f"act:{self.order}").first()

    def settle(self, expected: Expected, seconds: float = 25.0) -> None:
        """Wait for the end, hold it against what is expected, and keep the evidence."""
        assert self.run_id is not None
        run = self.desk.wait(self.run_id, *([expected.status] if expected.status == "paused" else []), seconds=seconds)
        evidence = self.evidence(run)
        story = self.desk.story(self.run_id)
        assert run.status == expected.status, story
        assert evidence["business_fact"]["effects"] == expected.effects, story
        assert evidence["decision"] == expected.decision, story
        operation = self.operation()
        if expected.sends is not None:
            assert (operation.sends if operation else 0) == expected.sends, story
        if expected.decision == "human":
            assert set(run.attention or {}) >= {"owner", "evidence", "due"}
        elif operation is not None:
            assert operation.status == ("compensated" if expected.decision == "compensated" else "succeeded"), story
        undoing = [event for event in self.desk.events(self.run_id) if event.node == "undo:act"]
        self._check_order([event.type for event in self.desk.events(self.run_id) if event not in undoing])
        missing = [name for name, value in evidence.items() if value in (None, "", [])]
        allowed = [] if self.writes else ["operation_id"]
        assert missing == allowed, missing
        BUILD.mkdir(parents=True, exist_ok=True)
        self.record.write_text(json.dumps(evidence, indent=1))

    def _check_order(self, types: list[str]) -> None:
        """Intent before send, send before any verdict on it, and nothing said twice."""
        if "OPERATION_SENT" not in types:
            return
        assert types.index("OPERATION_INTENDED") < types.index("OPERATION_SENT")
        verdicts = [i for i, one in enumerate(types) if one in ("OPERATION_SUCCEEDED", "OPERATION_NEEDS_HUMAN")]
        assert len(verdicts) <= 1
        assert all(types.index("OPERATION_SENT") < at for at in verdicts)
        sends, absences = types.count("OPERATION_SENT"), types.count("OPERATION_ABSENT")
        assert sends <= 1 + absences

    def evidence(self, run: Run) -> dict[str, Any]:
        """Return the record that C8.1 asks of a cell."""
        operation = self.operation()
        events = self.desk.events(run.id)
        with tenant_tx(self.desk.tenant.id):
            manifest = Manifest.objects.get(id=run.manifest_id)
        assert {event.manifest_id for event in events} == {run.manifest_id}, "recovery goes on under the run's manifest"
        step = self.desk.step(run.id, "act")
        digests = [a.input_sha256 for a in self.desk.attempts(run.id) if a.input_sha256 and a.step_id == step.id]
        payload = bytes(operation.payload_sha256) if operation else bytes(digests[0]) if digests else b""
        found = [e.payload["finding"] for e in events if e.type == "OPERATION_QUERIED"]
        starts = sum(event.type == "STEP_STARTED" and event.node == "act" for event in events)
        decision = "controlled retry" if starts > 1 else "completed"
        if operation is not None and operation.status == "compensated":
            decision = "compensated"
        elif run.status in ("needs_attention", "paused"):
            decision = "paused" if run.status == "paused" else "human"
        return {
            "place": self.place,
            "kind": self.kind,
            "run_id": str(run.id),
            "input_sha256": payload.hex(),
            "operation_id": str(operation.id) if operation else None,
            "event_order": [event.type for event in events],
            "manifest": bytes(manifest.sha256).hex(),
            "injected_at": self.injected_at,
            "decision": decision,
            "query_result": found or "not asked",
            "business_fact": {
                "effects": self.effects(),
                "sends": operation.sends if operation else 0,
                "operation": operation.status if operation else "none",
                "calls": len(self.shop.calls(self.order, self.target)),
                "step": step.status,
                "run": run.status,
            },
        }


def waiting_for(stack: Stack, table: str) -> list[int]:
    """Return the database's processes that wait for a lock on ``table``."""
    query = "SELECT DISTINCT pid FROM pg_locks WHERE NOT granted AND relation = to_regclass(%s)"
    with stack.database.connect() as connection:
        return [row[0] for row in connection.execute(query, [table]).fetchall()]


def pid_running(cell: Cell) -> int:
    """Wait until a worker runs the step of the call; return its process."""
    assert cell.run_id is not None
    step = cell.desk.wait_step(cell.run_id, "act", "running")
    return cell.stack.pid_of(step.worker_session_id)
