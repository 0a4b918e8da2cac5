"""The timeline and the critical path, from events alone (B1.2)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dashboard.presenters import timeline, times
from dashboard.presenters.critical import HOLD, OTHER, QUEUE, RETRY, UNKNOWN, WORK, critical_path
from dashboard.presenters.spans import STOPPED, THROTTLED, spans_of

T0 = datetime(2026, 11, 12, 2, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


class Story:
    """A run told step by step: ``story.move("a", "queued", 0)``."""

    def __init__(self, *edges: tuple[str, str], any_of: tuple[str, ...] = ()) -> None:
        names = list(dict.fromkeys(name for edge in edges for name in edge))
        self.events: list[dict[str, Any]] = []
        self.steps: dict[str, dict[str, Any]] = {
            name: {"status": "waiting", "cause": None, "finished_at": None, "error": None} for name in names
        }
        self.graph = {
            "nodes": [
                {
                    "id": name, "title": name.upper(), "kind": "tool", "tool": None, "step": self.steps[name],
                    "join": {"mode": "any" if name in any_of else "all"},
                }
                for name in names
            ],
            "edges": [{"source": a, "target": b, "taken": None} for a, b in edges],
        }  # fmt: skip

    def move(self, node: str, to: str, seconds: float, cause: str | None = None) -> Story:
        step = self.steps[node]
        self.events.append(
            {
                "seq": len(self.events) + 1, "type": "X", "node": node, "execution_version": 1, "attempt": 1,
                "from_status": step["status"], "to_status": to, "cause": cause, "occurred_at": at(seconds),
            }
        )  # fmt: skip
        step.update(status=to, cause=cause)
        if to in ("succeeded", "failed", "skipped", "killed"):
            step["finished_at"] = at(seconds)
        return self

    def park(self, node: str, seconds: float, kind: str, name: str) -> Story:
        """A queued step waits for a limit, a breaker or a state; its status stays."""
        self.events.append(
            {
                "seq": len(self.events) + 1, "type": "STEP_PARKED", "node": node, "execution_version": 1, "attempt": 0,
                "from_status": None, "to_status": None, "cause": "throttled", "occurred_at": at(seconds),
                "payload": {"kind": kind, "name": name},
            }
        )  # fmt: skip
        return self

    def work(self, node: str, queued: float, started: float, ended: float) -> Story:
        return self.move(node, "queued", queued).move(node, "running", started).move(node, "succeeded", ended)

    def path(self, now: float) -> Any:
        return critical_path(self.graph, spans_of(self.events), T0, at(now))


def test_spans_tell_queue_run_retry_hold_and_unknown_apart():
    story = Story(("a", "b"))
    story.move("a", "queued", 0).move("a", "running", 2).move("a", "waiting", 5, "retry_scheduled")
    story.move("a", "queued", 9).move("a", "running", 10).move("a", "unknown", 14).move("a", "succeeded", 20)
    story.move("b", "hold", 20, "approval").move("b", "waiting", 50, "granted").move("b", "queued", 50)
    kinds = {node: [(s.kind, s.seconds(at(60))) for s in spans] for node, spans in spans_of(story.events).items()}
    assert kinds["a"] == [("queue", 2), ("bad", 3), ("retry", 4), ("queue", 1), ("run", 4), ("unknown", 6)]
    assert kinds["b"] == [("hold", 30), ("queue", 0), ("queue", 10)]


def test_what_throttles_a_step_and_for_how_long_is_told_apart_from_the_queue():
    story = Story(("a", "b"))
    story.move("a", "queued", 0).park("a", 2, "tool", "shop.refund").move("a", "running", 12).move("a", "succeeded", 13)
    story.move("b", "queued", 13).park("b", 13, "breaker", "shop.mail@1").park("b", 20, "tenant", "")
    spans = spans_of(story.events)
    assert [(s.kind, s.seconds(at(60)), s.gate) for s in spans["a"]] == [
        ("queue", 2, None), ("throttled", 10, ("tool", "shop.refund")), ("run", 1, None),
    ]  # fmt: skip
    assert [(s.kind, s.seconds(at(60)), s.gate) for s in spans["b"]] == [
        ("queue", 0, None), ("throttled", 7, ("breaker", "shop.mail@1")), ("throttled", 40, ("tenant", "")),
    ]  # fmt: skip
    path = story.path(60)
    assert path.parts == pytest.approx({WORK: 1, QUEUE: 2, THROTTLED: 57})
    assert path.worst == (THROTTLED, "b")
    run = {"created_at": T0, "finished_at": None, "deadline": None}
    drawn = timeline.build(story.graph, story.events, run, at(60))
    rows = {row.node: row for row in drawn.rows}
    assert [bar.title for bar in rows["a"].bars][1] == "throttled by the limit of shop.refund 10 s"
    assert rows["b"].note == "throttled by the tenant's limit 40 s"
    assert "Throttling B costs the most." in drawn.sentence


def test_a_stop_and_a_proof_of_absence_have_their_spans():
    story = Story(("a", "b"))
    story.move("a", "queued", 0).move("a", "running", 1).move("a", "waiting", 2, "stopped").move("a", "queued", 32)
    story.move("a", "running", 32).move("a", "unknown", 33).move("a", "waiting", 40, "reconciled")
    story.move("a", "queued", 41).move("a", "running", 42).move("a", "succeeded", 43)
    kinds = [(s.kind, s.seconds(at(60))) for s in spans_of(story.events)["a"]]
    assert kinds == [
        ("queue", 1), ("run", 1), ("stopped", 30), ("queue", 0), ("run", 1), ("unknown", 7), ("queue", 1), ("queue", 1),
        ("run", 1),
    ]  # fmt: skip
    assert story.path(43).worst == (STOPPED, "a")


def test_where_the_time_went_adds_up_to_the_run():
    story = Story(("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"))
    story.work("a", 0, 1, 4).work("b", 4, 4, 5).move("c", "queued", 4).move("c", "running", 6)
    story.move("c", "waiting", 9, "retry_scheduled").move("c", "queued", 12).move("c", "running", 12)
    story.move("c", "succeeded", 20).move("d", "hold", 20.5, "approval").move("d", "waiting", 40, "granted")
    story.move("d", "queued", 40).move("d", "running", 41).move("d", "succeeded", 42)
    path = story.path(42)
    assert path.nodes == ["a", "c", "d"]
    assert path.seconds == pytest.approx(42)
    assert path.parts == pytest.approx({WORK: 12, QUEUE: 4, RETRY: 6, HOLD: 19.5, OTHER: 0.5})
    assert path.minimum == pytest.approx(3 + 8 + 1), "the longest chain of work alone"
    assert path.worst == (HOLD, "d")


def test_an_or_join_waits_for_the_first_only():
    story = Story(("a", "c"), ("b", "c"), any_of=("c",))
    story.work("a", 0, 0, 2).move("b", "queued", 0).move("b", "running", 0).work("c", 2, 2, 3).move("b", "killed", 9)
    story.steps["b"]["finished_at"] = at(2)
    path = story.path(9)
    assert path.nodes[-1] == "c"
    assert "a" in path.nodes
    assert path.minimum == pytest.approx(3)


def test_a_run_under_way_is_measured_up_to_now():
    story = Story(("a", "b"))
    story.work("a", 0, 0, 1).move("b", "queued", 1).move("b", "running", 2).move("b", "unknown", 3)
    path = story.path(10)
    assert path.nodes == ["a", "b"]
    assert path.parts == pytest.approx({WORK: 2, QUEUE: 1, UNKNOWN: 7})


def test_a_branch_not_taken_is_on_no_path():
    story = Story(("a", "b"), ("a", "c"))
    story.work("a", 0, 0, 1).work("b", 1, 1, 2).move("c", "skipped", 1, "branch")
    assert story.path(2).nodes == ["a", "b"]


def test_a_step_that_was_held_for_long_and_ran_shortly_says_both():
    story = Story(("a", "b"))
    story.work("a", 0, 0, 1).move("b", "hold", 1, "approval").work("b", 91, 91, 92)
    run = {"created_at": T0, "finished_at": at(92), "deadline": None}
    rows = {row.node: row for row in timeline.build(story.graph, story.events, run, at(100)).rows}
    assert rows["a"].note == "1.0 s"
    assert rows["b"].note == "held 1:30, 1.0 s"


def test_nothing_started_has_no_path():
    path = Story(("a", "b")).path(5)
    assert path.nodes == []
    assert path.seconds == 0


def test_bars_lie_inside_the_axis_and_say_what_they_are():
    story = Story(("a", "b"), ("b", "c"))
    story.work("a", 0, 2, 4).move("b", "hold", 4, "approval")
    run = {"created_at": T0, "finished_at": None, "deadline": None}
    drawn = timeline.build(story.graph, story.events, run, at(100))
    rows = {row.node: row for row in drawn.rows}
    for row in drawn.rows:
        for bar in row.bars:
            assert 0 <= bar.x <= bar.x + bar.width <= 100
    assert [bar.kind for bar in rows["a"].bars] == ["queue", "run"]
    assert rows["b"].note == "held 1:36"
    assert rows["c"].note == "waits for B"
    assert drawn.now_x is not None
    assert drawn.now_x < 100
    assert sum(one["width"] for one in drawn.shares) == pytest.approx(100)
    longest = timeline.build(story.graph, story.events, run, at(100), "longest")
    assert [row.node for row in longest.rows] == ["b", "a", "c"]


@pytest.mark.parametrize("span", [0.002, 0.3, 7, 61, 4000, 90_000, 9_000_000])
def test_an_axis_has_few_round_marks(span):
    marks = times.axis(span)
    assert marks[0] == 0
    assert 2 <= len(marks) <= 11
    assert marks[-1] <= span


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (0.02, "20 ms"), (0.4, "0.4 s"), (12, "12 s"), (581, "9:41"), (7800, "2 h 10"), (273_600, "3 d 4 h")],
)
def test_lengths_of_time_are_read_at_a_glance(seconds, text):
    assert times.duration(seconds) == text


@pytest.mark.parametrize(("seconds", "tone"), [(3600, ""), (899, "tone st-hold"), (299, "tone st-failed")])
def test_countdowns_turn_amber_then_red(seconds, tone):
    assert times.tone(seconds) == tone


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0.0, 60.0, "under 1 min"),
        (300.0, 900.0, "5 min – 15 min"),
        (900.0, 3600.0, "15 min – 1 h"),
        (14_400.0, 86_400.0, "4 h – 1 d"),
        (30.0, 90.0, "30 s – 90 s"),
        (604_800.0, None, "7 d or longer"),
    ],
)
def test_a_class_of_durations_is_told_by_round_ends(low, high, text):
    assert times.between(low, high) == text
