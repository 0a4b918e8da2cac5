"""Runs in every state, so that no page is empty: made once, by the same actions that people and programs use."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from approvals.actions.decide import decide_request
from approvals.queries import get_request, list_requests
from dashboard.example.setup import SLUG
from repair.actions.runbooks import write_runbook
from runtime.access.identity import actor_for_user
from runtime.actions.runs import cancel_run, pause_run
from runtime.actions.steps import force_step, hold_step, skip_step
from runtime.actions.stops import lift_stop, set_stop
from runtime.actions.submit import Accepted, SubmitRequest, submit_bulk
from runtime.kernel.actor import Actor
from runtime.kernel.errors import Conflict, QuarterdeckError
from runtime.machine.law import RUN_ENDED
from runtime.models import Task
from runtime.queries.runs import list_runs, read_run
from runtime.queries.steps import list_steps
from runtime.store.tx import tenant_tx

WAIT_SECONDS = 60.0
# What people call a task, by its input.
# The request keys of what is submitted first: by them it is known that this was begun.
_FIRST = "example:{order_id}"
_NAMES = {
    "refund": "Refund of {order_id}",
    "pick-up": "Pick-up of {order_id}",
    "close-account": "Account behind {order_id}",
    "close-books": "Books of the day",
    "archive-order": "Archive {order_id}",
    "exchange": "Exchange of {order_id}",
}
_LOOK_SECONDS = 0.1
_RUNBOOK = """# A pick-up whose answer was lost

The courier books every call anew: **never send it again** before you know.

1. Call the courier and ask for the order by its number.
2. Booked: *Record success*, with the number that the courier names.
3. Not booked: *Confirm absent*, and say whom you spoke to.
"""


class NotThere(Exception):
    """Something did not come about in time: no workers, or a shop that does not answer."""


class Seed:
    """The people of the example at work."""

    def __init__(self) -> None:
        from django.contrib.auth import get_user_model

        users = get_user_model().objects
        people = {name: users.get(username=name) for name in ("approver", "oncall", "admin", "integrator")}
        actors = {name: actor_for_user(user, SLUG) for name, user in people.items()}
        self.approver, self.oncall = actors["approver"], actors["oncall"]
        self.admin, self.integrator = actors["admin"], actors["integrator"]

    def needed(self) -> bool:
        """Say whether this was never begun; what people submitted meanwhile does not count."""
        with tenant_tx(self.admin.tenant_id):
            return not Task.objects.filter(request_key=_FIRST.format(order_id="A-1001")).exists()

    def run(self) -> dict[str, int]:
        """Make everything and return how many runs there are of each status."""
        now = datetime.now(UTC)
        orders = [{"order_id": f"A-{n}", "amount": f"{12 + 7 * (n % 12)}.50"} for n in range(1001, 1019)]
        self.submit("refund", orders, key=_FIRST)
        small = self.submit("refund", [{"order_id": f"B-{n}", "amount": f"{100 + n}.00"} for n in range(1, 7)])
        waiting = self.submit(
            "refund",
            [
                {"order_id": f"C-{n}", "amount": amount}
                for n, amount in ((2001, "249.00"), (2002, "1180.00"), (2003, "140.50"))
            ],
            goal="The customer sent the goods back; pay the money back if the order says so.",
        )
        self.submit("close-account", [{"order_id": "C-2010"}])
        self.submit("refund", [{"order_id": "D-3001", "amount": "40.00"}], scheduled_at=now + timedelta(days=1))
        self.submit("refund", [{"order_id": "busy-3002", "amount": "20.00"}])
        later = {"seconds": 0, "resume_at": (now + timedelta(hours=6)).isoformat()}
        self.submit("close-books", [later, {"seconds": 0}, {"seconds": 0, "fail": "business"}])
        (queued,) = self.submit("archive-order", [{"order_id": "A-1001"}])
        (running,) = self.submit("count-stock", [{"seconds": 6}], name="Yearly count")
        failed = self.submit("refund", [{"order_id": "closed-4001", "amount": "35.00"}])
        lost = self.submit("pick-up", [{"order_id": "E-5001"}, {"order_id": "lost-5002"}])
        self.submit("refund", [{"order_id": "lost-6001", "amount": "75.00"}])
        (undoing,) = self.submit("exchange", [{"order_id": "tied-7001", "amount": "64.00"}])
        for run_id in small[:4]:
            self.decide(run_id, "approve", "The goods are back.")
        self.decide(small[4], "reject", "The goods were used.")
        self.cancelled(small[5])
        self.paused()
        self.held()
        self.forced()
        self.stopped()
        self.written()
        for run_id in (*small[:5], *failed, lost[0]):
            self.until(partial(self.ended, run_id), "an end")
        self.until(lambda: self.status(lost[1]) == "needs_attention", "a run that needs attention")
        self.until(lambda: all(self.request(run_id) for run_id in waiting), "requests")
        self.until(lambda: self.status(running) == "running", "a running run")
        self.until(lambda: self.status(queued) == "queued", "a queued run")
        self.until(lambda: self.status(undoing) == "compensating", "a run that undoes what it did")
        return self.counts()

    # -- acts

    def submit(self, workflow: str, inputs: list[dict[str, Any]], key: str = "", **more: Any) -> list[uuid.UUID]:
        """Submit tasks as the integrator, with request keys made of their inputs by ``key``; return their runs."""
        called = _NAMES.get(workflow, "")
        requests = [
            SubmitRequest(
                workflow=workflow,
                input=one,
                request_key=key.format(**one) or None,
                **{"name": called.format(**one), **more},
            )
            for one in inputs
        ]
        answers = submit_bulk(actor=self.integrator, requests=requests)
        for answer in answers:
            if isinstance(answer, QuarterdeckError):
                raise answer
        return [answer.run_id for answer in answers if isinstance(answer, Accepted)]

    def decide(self, run_id: uuid.UUID, decision: str, comment: str, actor: Actor | None = None) -> None:
        """Decide the request that a run waits with, as the approver who has looked at it."""
        row = self.until(lambda: self.request(run_id), "a request")
        who = actor or self.approver
        shown = get_request(actor=who, request_id=row["id"])
        words = {"version": shown["version"], "payload_hash": shown["payload_hash"], "comment": comment}
        decide_request(actor=who, request_id=row["id"], decision=decision, **words)

    def cancelled(self, run_id: uuid.UUID) -> None:
        """A run that was cancelled while it waited."""
        self.until(lambda: self.request(run_id), "a request")
        cancel_run(actor=self.oncall, run_id=run_id, reason="The customer keeps the goods.")

    def written(self) -> None:
        """A runbook, for the pick-up whose answer was lost."""
        write_runbook(
            actor=self.admin,
            tool="shop.pickup",
            error_class="network",
            text=_RUNBOOK,
            expected_version=0,
            reason="Asked for after the last lost pick-up.",
        )

    def paused(self) -> None:
        """A paused run."""
        (run_id,) = self.submit("close-books", [{"seconds": 1}], name="Books of yesterday")
        pause_run(actor=self.oncall, run_id=run_id, reason="The ledger is being moved.")

    def held(self) -> None:
        """A run that waits for an operator; and one in which a step was skipped."""
        resume = {"seconds": 0, "resume_at": (datetime.now(UTC) + timedelta(hours=8)).isoformat()}
        held, skipped = self.submit("close-books", [resume, resume])
        for run_id, verb, reason in (
            (held, hold_step, "Wait for the second count."),
            (skipped, skip_step, "Nothing to cool down."),
        ):
            step = self.until(partial(self.step, run_id, "cool-down", "waiting", "timer"), "a timer")
            verb(actor=self.oncall, step_id=step["id"], expected_version=step["version"], reason=reason)

    def forced(self) -> None:
        """A step whose success an admin forced; the run's other steps stand."""
        (run_id,) = self.submit("close-books", [{"seconds": 0, "fail": "validation"}], name="Books of last week")
        try:
            step = self.until(lambda: self.step(run_id, "print", "failed"), "a failed step")
            reason = "Printed by hand, see folder 12."
            force_step(actor=self.admin, step_id=step["id"], expected_version=step["version"], reason=reason)
        except Conflict:
            pass  # the run went on meanwhile; a page shows it all the same

    def stopped(self) -> None:
        """An emergency stop that was set and lifted."""
        stop = set_stop(actor=self.oncall, scope="tool", name="shop.undo_refund", reason="The shop books it twice.")
        lift_stop(actor=self.oncall, stop_id=uuid.UUID(stop["stop_id"]), reason="The shop has mended it.")

    # -- what is there

    def status(self, run_id: uuid.UUID) -> str:
        return str(read_run(actor=self.admin, run_id=run_id)["status"])

    def ended(self, run_id: uuid.UUID) -> bool:
        return self.status(run_id) in RUN_ENDED

    def request(self, run_id: uuid.UUID) -> dict[str, Any] | None:
        """Return the pending request of a run."""
        rows = list_requests(actor=self.admin, run_id=run_id).items
        return rows[0] if rows else None

    def step(self, run_id: uuid.UUID, node: str, status: str, cause: str | None = None) -> dict[str, Any] | None:
        """Return a run's step when it is where it is waited for."""
        steps = list_steps(actor=self.admin, run_id=run_id, all_versions=False)["items"]
        for step in steps:
            if (step["node"], step["status"]) == (node, status) and cause in (None, step["cause"]):
                return step
        return None

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        """Return the first true value. Raises NotThere."""
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            if value := condition():
                return value
            time.sleep(_LOOK_SECONDS)
        raise NotThere(f"{what} did not come about within {WAIT_SECONDS:.0f} s")

    def counts(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for run in list_runs(actor=self.admin, limit=500).items:
            found[run["status"]] = found.get(run["status"], 0) + 1
        return found
