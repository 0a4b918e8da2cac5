"""The drain: a doorbell rang, so claim, run and complete until nothing is ready and nothing runs (engine.md 2, 5).

One thread talks to the database; calls that wait on the network run in slots. Completions are coalesced: a batch
goes out when it is full, when it is some milliseconds old, or when there is nothing else to do.
"""

from __future__ import annotations

import queue
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import psycopg
import structlog
from django.db import connections

from runtime.actions.base import WORK_CHANNEL
from runtime.kernel.conf import conf
from runtime.kernel.errors import Unavailable
from runtime.store.tx import RETRYABLE, plain_tx
from runtime.tools.registry import read_tool
from runtime.worker.bell import Stop
from runtime.worker.claim import Claimer, SessionOver, ready_tenants
from runtime.worker.complete import complete
from runtime.worker.execute import Prepared, begin, failed, perform
from runtime.worker.gates import let_go
from runtime.worker.held import compare, heed_missed
from runtime.worker.intents import intend
from runtime.worker.looking import carry_out, first_call, look
from runtime.worker.onward import Onward
from runtime.worker.pace import Pace
from runtime.worker.session import Session
from runtime.worker.stops import Remembered, held_back
from runtime.worker.underway import UnderWay
from runtime.worker.work import Claimed, Report, by_tenant

log = structlog.get_logger(__name__)

_MAX_DRAIN_SECONDS, _MOST_REFUSED = 600.0, 50
_RETRY_SECONDS, _SHUN_SECONDS, _DOUBT_SECONDS, _COMPARE_SECONDS = 0.5, 10.0, 0.02, 5.0
_BLOCKED_SECONDS, _MAX_BLOCKED = 0.002, 50
_TURNS = 8  # every so many claims everybody is asked; every so many completions do not go on with their runs
DATABASE_AWAY = (Unavailable, psycopg.OperationalError, psycopg.InterfaceError)


class Drain:
    """Works for one session. ``inbox`` takes reports and looked-at calls from slots, and wake-ups from the listener."""

    def __init__(self, session: Session) -> None:
        self.session, self.claimer = session, Claimer(session.id)
        self.inbox: queue.SimpleQueue[Report | Prepared | None] = queue.SimpleQueue()
        self.running, self.stops = UnderWay(session.lease), Remembered()
        self.reports: list[Report] = []
        self.oldest_report = self.next_poll = 0.0
        self.hungry, self.over = True, False
        self.slots = ThreadPoolExecutor(conf().slots, thread_name_prefix="slot")
        self.claims = self.turn = self.flushes = self.written = self.blocked = 0
        self.pace = Pace()
        self.likely: set[uuid.UUID] = set()  # tenants in which this worker's own completions made steps ready
        self.doubtful: set[uuid.UUID] = set()  # tenants in which a claim may have been committed unseen
        self.shunned: dict[uuid.UUID, float] = {}  # tenants whose claim broke, and until when they are left alone
        self.next_compare = time.monotonic() + _COMPARE_SECONDS

    def run(self, *, stop: Stop | None = None) -> int:
        """Work until idle; returns how many steps ended. With the database away nothing starts (invariant 6)."""
        done, until = 0, time.monotonic() + _MAX_DRAIN_SECONDS
        self.hungry = True
        try:
            while True:
                self._beat()
                closing = self.over or (stop is not None and stop.is_set())
                if time.monotonic() >= self.next_compare:
                    self._compare()
                # What ran inline is completed first: it goes on with its own successors.
                unwritten = not self.running and 2 * len(self.reports) >= max(1, self.pace.quick())
                if not closing and not unwritten and self.hungry and self._free() > 0:
                    self._claim()
                self._collect(closing)
                late = time.monotonic() > until and not self.doubtful
                if self.reports and self._due():
                    done += self._flush(go_on=not closing and not late and self.session.lease.held())
                if not self.running and not self.reports and (closing or not self.hungry or late):
                    return done
        finally:
            self.session.lease.rest(self.written)

    def wake(self) -> None:
        """Look for work again; called by the listener thread."""
        if self.running:
            self.inbox.put(None)

    def _beat(self, more: int = 0) -> None:
        """Show that the loop goes round, how many steps are in hand, and how many were written so far."""
        held = len(self.running) + len(self.reports) + more
        self.session.lease.beat(min(conf().slots, held), self.written)

    def _slots(self) -> int:
        return conf().slots - len(self.running)

    def _free(self) -> int:
        return max(min(conf().claim_batch, self._slots()), self.pace.quick() - len(self.reports))

    def _claim(self) -> None:
        if not self.session.lease.held():
            self.over = True  # by our own clock: nothing new starts, whatever the row says
            return
        self.hungry = False
        self.next_poll = time.monotonic() + conf().poll_seconds
        try:
            likely, self.likely = self.likely, set()
            # Now and then everybody is asked, so that one tenant's long run keeps nobody waiting.
            self.claims += 1
            if self.claims % _TURNS == 0:
                likely = set()
            self.hungry = bool(likely)  # whoever only looked at the likely ones has to look again
            for tenant_id in list(self.doubtful):
                self._recover(tenant_id)
            self.hungry = self.hungry or bool(self.doubtful)
            asked = likely or ready_tenants(list(conf().pools))
            ready = [t for t in asked if self.shunned.get(t, 0.0) <= time.monotonic()]
            got = self._claim_from(ready)
            if not likely:
                self._passed_over(bool(ready) and got == 0)
        except SessionOver:
            # What runs is finished and reported, as late facts; only a new session may claim again.
            self.over = True
        except DATABASE_AWAY as problem:
            self._step_back(problem)
            self.hungry = True

    def _claim_from(self, ready: list[uuid.UUID]) -> int:
        """Claim from each tenant its share of the free slots, beginning with another one each time; return how many."""
        self.turn += 1
        got, first = 0, self.turn % max(1, len(ready))
        for index, tenant_id in enumerate(order := ready[first:] + ready[:first]):
            for pool in conf().pools:
                if (free := self._free()) <= 0:
                    self.hungry = True
                    return got
                share = -(-free // (len(order) - index))
                claimed = self._claim_one(tenant_id, pool, share, self._slots())
                got += len(claimed) + self.claimer.parked  # what is parked is out of the way: others lie behind it
                self.hungry = self.hungry or len(claimed) == share or self.claimer.parked > 0 or self.claimer.left
                self._start(tenant_id, claimed)
        return got

    def _claim_one(self, tenant_id: uuid.UUID, pool: str, limit: int, slots: int) -> list[Claimed]:
        try:
            return self.claimer.claim(tenant_id, pool, limit, slots, self.pace.inline())
        except DATABASE_AWAY as problem:
            if not isinstance(problem, RETRYABLE):
                self.doubtful.add(tenant_id)
            raise
        except SessionOver:
            raise
        except Exception:
            # A broken run must not keep the others waiting, nor a broken tenant other tenants.
            if limit == 1 and 0 < self.claimer.refuse() <= _MOST_REFUSED:
                log.exception("a run is not claimed from", tenant=str(tenant_id))
                self.hungry = True
            elif limit == 1:
                log.exception("claim refused", tenant=str(tenant_id))
                self.shunned[tenant_id] = time.monotonic() + _SHUN_SECONDS
            else:
                return self._claim_singly(tenant_id, pool, limit, slots)
            return []

    def _claim_singly(self, tenant_id: uuid.UUID, pool: str, limit: int, slots: int) -> list[Claimed]:
        """Claim one step after the other, so that what breaks the claim is found and passed over."""
        got: list[Claimed] = []
        try:
            for _ in range(limit):
                one = self._claim_one(tenant_id, pool, 1, slots - len(got))
                got += one
                if not one:
                    break
        except DATABASE_AWAY as problem:
            # What is here by now is ours whatever follows.
            self._step_back(problem)
            self.hungry = True
        return got

    def _recover(self, tenant_id: uuid.UUID) -> None:
        """Take up steps that a claim gave us whose commit nobody confirmed to us; nobody else would run them."""
        try:
            found = self.claimer.recover(tenant_id, self._known())
        except DATABASE_AWAY:
            raise
        except Exception:
            # One cannot be read: no longer in doubt they are found as forgotten, and given back run by run.
            log.exception("claimed steps are not taken up", tenant=str(tenant_id))
            self.doubtful.discard(tenant_id)
            self.hungry, self.next_compare = True, 0.0
            return
        if found is None:
            time.sleep(_DOUBT_SECONDS)  # the server is still at it: what it commits will be ours to run
            return
        self.doubtful.discard(tenant_id)
        self._start(tenant_id, found)

    def _known(self) -> set[uuid.UUID]:
        return {*self.running, *(report.claimed.step_id for report in self.reports)}

    def _compare(self) -> None:
        self.next_compare = time.monotonic() + _COMPARE_SECONDS
        try:
            if self.session.lease.held():
                mended = compare(self.session.id, self.running, self._known(), self.doubtful)
                self.hungry = self.hungry or mended > 0
                heed_missed(self.running)
        except DATABASE_AWAY as problem:
            self._step_back(problem)

    def _step_back(self, problem: BaseException) -> None:
        """Wait a moment after the database was away; a row that was only locked is tried again at once."""
        if isinstance(problem, RETRYABLE):
            return
        log.warning("database away", problem=str(problem)[:200])
        connections["default"].close()
        self._beat()
        time.sleep(_RETRY_SECONDS)

    def _passed_over(self, blocked: bool) -> None:
        """Work is ready but other workers hold its runs: look again in a moment, not at the next poll."""
        self.blocked = self.blocked + 1 if blocked else 0
        if 0 < self.blocked <= _MAX_BLOCKED:
            self.hungry = True
            time.sleep(_BLOCKED_SECONDS)

    def _start(self, tenant_id: uuid.UUID, claimed: list[Claimed]) -> None:
        """Run control nodes and inline tools here, commit intents of writing calls, give the rest to slots."""
        writing: list[Prepared] = []
        self.pace.begin(len(claimed), len(self.reports))
        self._beat(len(claimed))
        for index, item in enumerate(claimed):
            if self.pace.is_late():
                for rest in claimed[index:]:
                    self._report(Report(rest, "given_back", cause="given_back"))
                break
            begun = self._begin(tenant_id, item)
            if isinstance(begun, Report):
                self._report(begun)
            elif begun is not None and begun.reader is not None:
                self._slot(begun, look)
            elif begun is not None and begun.tool.contract.writes:
                writing.append(begun)
            elif begun is not None:
                self._call(begun)
        self.pace.end(len(self.reports))
        for prepared in self._intend(tenant_id, writing) if writing else []:
            self._call(prepared)

    def _begin(self, tenant_id: uuid.UUID, item: Claimed) -> Report | Prepared | None:
        """Begin a step; None when the lease ran out while the database was away: others take the step over."""
        while True:
            try:
                begun = begin(item, lambda reference: read_tool(tenant_id, reference))
                # A writing call asks for stops in the transaction of its intent.
                if isinstance(begun, Prepared) and (first := first_call(begun)) is not None:
                    stop = self.stops.of(first)
                    return begun if stop is None else held_back(begun, stop)
                return begun
            except DATABASE_AWAY as problem:
                self._step_back(problem)
            if not self.session.lease.held():
                self.over = True
                return None

    def _intend(self, tenant_id: uuid.UUID, writing: list[Prepared]) -> list[Prepared]:
        """Commit intents; a batch that fails is cut in halves. With the lease lost nothing is sent."""
        while self.session.lease.held():
            try:
                calls, reports = intend(tenant_id, writing)
            except DATABASE_AWAY as problem:
                self._step_back(problem)
            except Exception as problem:  # whatever it is (a gate's fault, say): it must not end the others' session
                if len(writing) > 1:
                    middle = len(writing) // 2
                    return self._intend(tenant_id, writing[:middle]) + self._intend(tenant_id, writing[middle:])
                log.error("intent refused", step=str(writing[0].claimed.step_id), problem=repr(problem)[:500])
                self._report(failed(writing[0].claimed, "internal", type(problem).__name__, code="intent_refused"))
                return []
            else:
                for report in reports:
                    self._report(report)
                return calls
        self.over = True
        return []

    def _call(self, prepared: Prepared) -> None:
        if prepared.tool.contract.runs == "inline" and prepared.reader is None:
            self.running.tell(prepared)
            self._report(self.running.over(perform(prepared, self.session.lease.held)))
            return
        self._slot(prepared, carry_out)

    def _slot(self, prepared: Prepared, work: Callable[[Prepared, Callable[[], bool]], Report | Prepared]) -> None:
        self.running.begin(prepared)
        self.slots.submit(lambda: self.inbox.put(work(prepared, self.session.lease.held)))

    def _report(self, report: Report) -> None:
        if not self.reports:
            self.oldest_report = time.monotonic()
        self.reports.append(report)

    def _collect(self, closing: bool) -> None:
        """Take what the slots brought; wait only when there is nothing better to do."""
        wait = 0.0
        if self.running and (closing or (self.hungry and self._free() <= 0)):
            wait = conf().flush_seconds if self.reports else conf().poll_seconds
        elif self.running and not self.hungry:
            wait = conf().flush_seconds if self.reports else max(0.0, self.next_poll - time.monotonic())
        looked: list[Prepared] = []
        while True:
            try:
                item = self.inbox.get(timeout=wait) if wait > 0 else self.inbox.get_nowait()
            except queue.Empty:
                self.hungry = self.hungry or (bool(self.running) and time.monotonic() >= self.next_poll)
                break
            wait = 0.0
            if item is None:
                self.hungry = True
                continue
            self.running.end(item)
            if isinstance(item, Report):
                self._report(item)
            else:
                looked.append(item)
            if len(self.reports) >= conf().flush_batch:
                break
        for tenant_id, writing in by_tenant(looked).items():  # their targets were looked at: now the intents, together
            for prepared in self._intend(tenant_id, writing):
                self._call(prepared)

    def _due(self) -> bool:
        if len(self.reports) >= conf().flush_batch or not self.running:
            return True
        return time.monotonic() - self.oldest_report >= conf().flush_seconds

    def _flush(self, *, go_on: bool) -> int:
        """Complete the gathered reports; they are kept and sent again when the database is away.

        ``go_on``: take the steps that become ready thereby, as far as there is room.
        """
        of_tenants = by_tenant(self.reports)
        done, self.flushes = 0, self.flushes + 1
        go_on = go_on and self.flushes % _TURNS != 0
        taken: list[tuple[uuid.UUID, list[Claimed]]] = []
        for tenant_id, reports in of_tenants.items():
            onward = self._onward(len(of_tenants)) if go_on else None
            try:
                ready, started, freed = complete(tenant_id, reports, onward)
            except DATABASE_AWAY as problem:
                if onward is not None and not isinstance(problem, RETRYABLE):
                    # It may have started successors for us: look for them before this worker falls idle.
                    self.doubtful.add(tenant_id)
                    self.hungry = True
                log.warning("completion waits for the database", reports=len(reports))
                left = list(of_tenants)[list(of_tenants).index(tenant_id) :]
                self.reports = [replace(r, resent=True) for r in self.reports if r.claimed.tenant_id in left]
                self._step_back(problem)
                for begun in taken:
                    self._start(*begun)
                return done
            done += len(reports)
            self.written += len(reports)
            if started:
                taken.append((tenant_id, started))
            ready += let_go(tenant_id, freed) if freed else 0
            if ready:
                self.hungry = True
                self.likely.add(tenant_id)
                if ready > self._free():
                    self._ring()
        self.reports = []
        for begun in taken:
            self._start(*begun)
        return done

    def _onward(self, tenants: int) -> Onward:
        """Return what a completion may take: this worker's free places, shared among the tenants of a flush."""
        slots, inline = self._slots(), self.pace.inline()
        steps = max(slots, self.pace.quick())
        return Onward(self.claimer, conf().pools, -(-steps // tenants), -(-slots // tenants), -(-inline // tenants))

    def _ring(self) -> None:
        """More became ready than this worker can take: wake the idle ones, who would look in a second anyway."""
        try:
            with plain_tx() as tx:
                tx.notify(WORK_CHANNEL)
        except DATABASE_AWAY as problem:
            self._step_back(problem)
