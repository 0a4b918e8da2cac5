"""Counts by outcome and waiting times, for the API and the page; and a real log of decisions, replayed."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest

from approvals.actions.decide import decide_request
from approvals.actions.own import OwnAction, ask_own
from approvals.models import Request
from approvals.queries import list_requests
from approvals.statistics import EDGES, _group, read_statistics
from dashboard.presenters.times import duration
from runtime.actions.runs import cancel_run
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput
from runtime.store.sqlfile import queries
from runtime.store.tx import tenant_tx
from tests.support.actors import member
from tests.support.api import caller, problem
from tests.support.dags import inputs
from tests.support.duties import expire_requests
from tests.support.pages import Reader

pytestmark = [pytest.mark.req("B6.4", "C5.3"), pytest.mark.django_db(transaction=True)]

LOG = inputs() / "approval_logs" / "bpic2012_loan.approvals.json"
# The log's five months in a week: the clock of the database is set to each moment.
FASTER = 24
DEADLINE = 7_776_000.0


def numbers(office: Any, **time: Any) -> dict[str, Any]:
    """Return the statistics of an office up to and with this moment."""
    now = office.run_now()
    return read_statistics(actor=office.admin, **{"until": now + timedelta(seconds=1), **time})


def test_each_end_is_counted_once(office, clock):
    office.decide(office.pending(office.ask()))
    office.work()
    office.decide(office.pending(office.ask()), "reject")
    cancel_run(actor=office.oncall, run_id=office.ask(), reason="not wanted")
    office.ask()
    clock.advance(3601)
    expire_requests()
    office.ask()
    found = numbers(office)
    wanted = {"pending": 1, "approved": 1, "rejected": 1, "expired": 1, "cancelled": 1, "superseded": 0}
    assert found["all"]["outcomes"] == wanted
    assert found["all"]["approved"] == {"consumed": 1, "lapsed": 0, "withdrawn": 0}
    assert found["all"]["wait_s"]["n"] == 2, "people are waited for where they decided"
    assert [(one["name"], one["asked"]) for one in found["by_tool"]] == [("office.pay@1", 5)]
    assert [(one["name"], one["outcomes"]) for one in found["by_role"]] == [("approver", wanted)]
    assert sum(one["asked"] for one in found["by_period"]) == 5
    assert sum(one["n"] for one in found["all"]["histogram"]) == 2


def test_waiting_times_are_those_of_the_rows(office, clock):
    requests = [office.pending(office.ask(expires_s=DEADLINE, name="slow")) for _ in range(7)]
    for request in requests:
        clock.advance(40)
        office.decide(request)
    found = numbers(office)["all"]
    waits = sorted(waited(office))
    assert found["wait_s"]["p50"] == pytest.approx(statistics.median(waits), abs=1e-3)
    assert found["wait_s"]["p90"] == pytest.approx(statistics.quantiles(waits, n=10, method="inclusive")[-1], abs=1e-3)
    assert (found["wait_s"]["min"], found["wait_s"]["max"]) == pytest.approx((waits[0], waits[-1]), abs=1e-3)
    for one in found["histogram"]:
        assert one["n"] == sum(one["from_s"] <= wait < (one["to_s"] or float("inf")) for wait in waits)


def waited(office: Any) -> list[float]:
    """Return the waiting times, in seconds, as the rows have them."""
    with tenant_tx(office.tenant.id):
        rows = Request.objects.filter(decided_at__isnull=False).values_list("created_at", "decided_at")
        return [(decided - asked).total_seconds() for asked, decided in rows]


def test_a_time_bounds_what_is_counted(office, clock, other_tenant):
    office.ask()
    clock.advance(timedelta(days=80))
    office.ask()
    assert numbers(office)["all"]["asked"] == 1
    whole = numbers(office, since=office.run_now() - timedelta(days=100))
    assert (whole["all"]["asked"], whole["unit"], len(whole["by_period"])) == (2, "week", 2)
    for since in (timedelta(days=400), timedelta(days=-2)):
        with pytest.raises(BadInput):
            numbers(office, since=office.run_now() - since)
    nothing = read_statistics(actor=caller(other_tenant).actor)
    assert (nothing["all"]["asked"], nothing["all"]["wait_s"]["p50"], nothing["by_tool"]) == (0, None, [])


def test_more_than_is_read_is_told(office, monkeypatch):
    monkeypatch.setattr("approvals.statistics.MOST", 2)
    for _ in range(3):
        office.ask()
    found = numbers(office)
    assert (found["cut"], found["all"]["asked"]) == (True, 2)


def test_the_database_counts_the_classes(office, monkeypatch):
    """However many were asked, what is brought for a group is as long as there are classes."""
    rows: list[dict[str, Any]] = []
    group = _group
    monkeypatch.setattr("approvals.statistics._group", lambda row: rows.append(row) or group(row))
    for _ in range(2):
        office.decide(office.pending(office.ask()))
    numbers(office)
    assert {len(row["classes"]) for row in rows} == {len(EDGES) + 1}
    assert {sum(row["classes"]) for row in rows} == {2}


def test_over_http(office):
    office.decide(office.pending(office.ask()))
    until = (office.run_now() + timedelta(seconds=1)).isoformat().replace("+00:00", "Z")
    reader = caller(office.tenant, "viewer")
    assert reader.get(f"approvals/statistics/?until={until}").json()["all"]["outcomes"]["approved"] == 1
    problem(reader.get("approvals/statistics/?until=now"), 400)
    problem(reader.get("approvals/statistics/?since=2001-01-01T00:00:00Z"), 400)
    problem(caller(office.tenant, "admin", ["run.read"]).get("approvals/statistics/"), 403)


def test_it_is_read_by_an_index(test_database):
    now = datetime.fromisoformat("2026-01-01T00:00:00+00:00")
    wanted = {"since": now, "until": now, "unit": "day", "most": 1, "granted": [], "quantiles": [0.5], "edges": [1.0]}
    with test_database.connect() as connection:
        connection.execute("SET enable_seqscan = off")
        plan = "\n".join(row[0] for row in connection.execute(f"EXPLAIN {queries()['approval_statistics']}", wanted))
        keys = {"at": now, "after": "00000000-0000-0000-0000-000000000000", "until": now, "limit": 1}
        asked = "\n".join(row[0] for row in connection.execute(f"EXPLAIN {queries()['approvals_asked']}", keys))
    for one in (plan, asked):
        assert "qd_approval_asked" in one, one
        assert "Seq Scan on qd_approval" not in one, one


# -- a real log


@dataclass(order=True)
class Happening:
    """Something at a moment of the log: a request, its decision, or a look at what is pending."""

    at: datetime
    order: int
    what: str
    row: Any = None


class Replay:
    """The log's requests asked and decided by the product's own actions, each at its moment."""

    def __init__(self, office: Any, clock: Any, rows: list[dict[str, Any]], looks: list[dict[str, Any]]) -> None:
        self.office, self.clock, self.rows, self.looks = office, clock, rows, looks
        self.people: dict[str | None, Actor] = {}
        self.asked: dict[str, dict[str, Any]] = {}
        self.pending: list[tuple[int, float]] = []
        self.begun = datetime.fromisoformat(min(row["requested_at"] for row in rows))
        self.start = office.run_now() + timedelta(minutes=1)

    def run(self) -> None:
        """Live through the log."""
        happenings = [Happening(_at(row["requested_at"]), 0, "ask", row) for row in self.rows]
        happenings += [Happening(_at(row["decided_at"]), 1, "decide", row) for row in self.rows if row["decided_at"]]
        happenings += [Happening(_at(look["t"]), 2, "look") for look in self.looks]
        for one in sorted(happenings, key=lambda one: (one.at, one.order)):
            self.clock.set(self.start + (one.at - self.begun) / FASTER)
            getattr(self, one.what)(one.row)

    def ask(self, row: dict[str, Any]) -> None:
        action = OwnAction(_tool(row["kind"]), {"case": row["case"]}, target=f"loan:{row['case']}")
        self.asked[row["id"]] = ask_own(
            actor=self.office.integrator, key=row["id"], action=action, title=row["kind"], expires_s=DEADLINE
        )

    def decide(self, row: dict[str, Any]) -> None:
        who = row["approver"]
        if who not in self.people:
            self.people[who] = member(self.office.tenant, "approver")
        asked = self.asked[row["id"]]
        decide_request(
            actor=self.people[who],
            request_id=asked["approval_id"],
            decision="approve",
            version=asked["version"],
            payload_hash=asked["payload_hash"],
        )

    def look(self, _row: None) -> None:
        page = list_requests(actor=self.office.admin, sort="age", limit=1, count=True)
        oldest = (self.office.run_now() - page.items[0]["created_at"]).total_seconds() if page.items else 0.0
        self.pending.append((page.count or 0, oldest * FASTER))


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _tool(kind: str) -> str:
    return f"loan.{kind.lower().replace(' ', '_')}@1"


def like(value: float) -> Any:
    """Return what a time of the log is told as: each act takes a moment, and a moment is FASTER times as long there."""
    return pytest.approx(value, rel=0.01, abs=5.0 * FASTER)


def replayed(office: Any, clock: Any, rows: list[dict[str, Any]], looks: list[dict[str, Any]]) -> tuple[Any, Replay]:
    """Replay rows and return the statistics of all of it."""
    replay = Replay(office, clock, rows, looks)
    replay.run()
    return numbers(office, since=replay.start - timedelta(seconds=1)), replay


@pytest.mark.skipif(not LOG.exists(), reason="the log of loan approvals is not beside this repository")
def test_the_first_part_of_the_loan_log_is_counted_as_it_was(office, clock):
    rows = sorted(json.loads(LOG.read_text())["approvals"], key=lambda row: row["requested_at"])[:40]
    found, _replay = replayed(office, clock, rows, [])
    waits = [(_at(row["decided_at"]) - _at(row["requested_at"])).total_seconds() for row in rows if row["decided_at"]]
    check_counts(office, found, rows)
    median = statistics.median(waits)
    assert found["all"]["wait_s"]["p50"] * FASTER == like(median)
    assert found["all"]["wait_s"]["max"] * FASTER == like(max(waits))
    assert found["all"]["wait_s"]["p50"] == pytest.approx(statistics.median(waited(office)), abs=1e-3)


@pytest.mark.proof
@pytest.mark.skipif(not LOG.exists(), reason="the log of loan approvals is not beside this repository")
def test_the_whole_loan_log_is_counted_as_it_was(office, clock):
    log = json.loads(LOG.read_text())
    rows, truth = log["approvals"], log["truth"]
    found, replay = replayed(office, clock, rows, truth["pending_at"])
    check_counts(office, found, rows)
    assert (found["all"]["asked"], found["all"]["outcomes"]["pending"]) == (truth["n"], truth["undecided"])
    assert found["all"]["outcomes"]["approved"] == truth["by_decision"]["done"]
    assert {one["name"]: one["asked"] for one in found["by_tool"]} == {
        _tool(kind): n for kind, n in truth["by_kind"].items()
    }
    told = found["all"]["wait_s"]
    assert told["n"] == truth["wait_s"]["n"]
    for name in ("mean", "min", "max", "p5", "p25", "p50", "p75", "p90", "p95", "p99"):
        assert told[name] * FASTER == like(truth["wait_s"][name]), name
    assert [n for n, _oldest in replay.pending] == [one["pending"] for one in truth["pending_at"]]
    for (_n, oldest), one in zip(replay.pending, truth["pending_at"], strict=True):
        assert oldest == like(one["oldest_pending_s"])


def check_counts(office: Any, found: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Compare what is counted, and what the page says of it, with the rows of the log."""
    decided = [row for row in rows if row["decided_at"]]
    assert found["all"]["asked"] == len(rows)
    assert found["all"]["outcomes"]["approved"] == len(decided)
    assert found["all"]["outcomes"]["pending"] == len(rows) - len(decided)
    kinds = Counter(_tool(row["kind"]) for row in rows)
    assert {one["name"]: one["asked"] for one in found["by_tool"]} == dict(kinds)
    assert not found["cut"]
    page = Reader(office.tenant, "viewer").get("/inbox/statistics/?days=30")
    for name in ("p50", "p90", "p95", "max"):
        assert f"<dd>{duration(found['all']['wait_s'][name])}</dd>" in page, name
    assert f'<td class="num">{len(decided)}</td>' in page
    assert f'<td class="num">{len(rows) - len(decided)}</td>' in page
