"""The chaos run's verdict finds each kind of breach, and none where there is none."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.chaos.load import Load, Scene
from tests.chaos.verdict import _books, _lost, _untold, missing

pytestmark = pytest.mark.req("C8.1")

OWNED = {"owner": "oncall", "evidence": "its answer was lost", "due": "2040-01-01T00:00:00Z"}


def world() -> dict[str, Any]:
    """Return a run that did all three effects and one whose second effect is in doubt and owned."""
    runs = {
        "r1": ("r1", "completed", "", None, "o1", "order", "t1"),
        "r2": ("r2", "needs_attention", "", dict(OWNED), "o2", "order", "t2"),
        "r3": ("r3", "failed", "", None, "o3", "deal", "t3"),
    }
    operations = [[f"{k}1", f"{k}:o1", "succeeded", 1, "r1", None, None] for k in ("pay", "ship", "mail")]
    operations += [
        ["pay2", "pay:o2", "succeeded", 1, "r2", None, None],
        ["ship2", "ship:o2", "unknown", 1, "r2", None, None],
        ["bill3", "bill:o3", "absent", 1, "r3", None, None],
        ["unbook3", "undo:book:o3", "succeeded", 1, "r3", None, None],
        ["book3", "book:o3", "compensated", 1, "r3", None, None],
    ]
    done = [("pay1", "pay", "o1"), ("ship1", "ship", "o1"), ("mail1", "mail", "o1"), ("pay2", "pay", "o2")]
    done += [("book3", "book", "o3"), ("unbook3", "unbook", "o3")]
    effects = [{"key": key, "path": f"/moody/{what}?seed=1", "body": {"order": order}} for key, what, order in done]
    accepted = {f"o{n}": (f"t{n}", f"r{n}") for n in (1, 2, 3)}
    load = Load(Scene(tenant_id=None, token=""), "", 1, accepted, {"o1": "order", "o2": "order", "o3": "deal"})
    return {"runs": runs, "operations": operations, "effects": effects, "load": load}


def breaches(made: dict[str, Any]) -> list[str]:
    load, runs, effects = made["load"], made["runs"], made["effects"]
    return _lost(load, runs) + _books(runs, made["operations"], effects) + _untold(load, runs, effects)


def changed(run: str, place: int, value: Any) -> Any:
    def change(made: dict[str, Any]) -> None:
        row = list(made["runs"][run])
        row[place] = value
        made["runs"][run] = tuple(row)

    return change


def operation(index: int, place: int, value: Any) -> Any:
    return lambda made: made["operations"][index].__setitem__(place, value)


def stranger(made: dict[str, Any]) -> None:
    made["effects"].append({**made["effects"][0], "key": "x", "body": {"order": "o9"}})


def test_a_clean_world_has_none():
    assert breaches(world()) == []


def test_what_was_asked_for_and_is_not_done_is_told_by_its_run():
    """One effect is in doubt, the one after it was never intended: both are in the hands of the run's owner."""
    made = world()
    found = missing(made["load"], made["runs"], made["effects"])
    assert [(key, run[1]) for key, run in found] == [
        ("ship:o2", "needs_attention"), ("mail:o2", "needs_attention"), ("bill:o3", "failed"),
    ]  # fmt: skip
    for status in ("failed", "cancelled", "partially_completed"):
        changed("r2", 1, status)(made)
        assert _untold(made["load"], made["runs"], made["effects"]) == []


@pytest.mark.parametrize(
    ("word", "change"),
    [
        ("was done 2 times", lambda made: made["effects"].append(copy.deepcopy(made["effects"][1]))),
        ("unknown operation", stranger),
        ("without its effect", lambda made: made["effects"].pop(0)),
        ("denied but done", operation(3, 2, "refused")),
        ("under way for ever", operation(4, 2, "sent")),
        ("without an owner", changed("r2", 3, {**OWNED, "due": None})),
        ("attention of nobody", changed("r2", 3, None)),
        ("completed without", operation(0, 2, "unknown")),
        ("of its effects", lambda made: made["operations"].pop(2)),
        ("nothing tells of it", changed("r2", 1, "completed")),
        ("nothing tells of it", changed("r2", 3, {**OWNED, "owner": None})),
        ("nothing tells of it", lambda made: made["effects"].pop(2)),
        ("nothing tells of it", lambda made: made["load"].accepted.update(o9=("t9", "r9"))),
        ("accepted and lost", lambda made: made["runs"].pop("r1") and made["operations"].__delitem__(slice(0, 3))),
        ("accepted and lost", lambda made: made["load"].accepted.update(o9=("t9", "r9"))),
        ("tasks under the key", changed("r2", 4, "o1")),
        ("nobody asked", lambda made: made["load"].keys.pop("o2")),
        ("not undone although", operation(7, 2, "succeeded")),
        ("without its effect", lambda made: made["effects"].pop(4)),
        ("was done 2 times", lambda made: made["effects"].append({**made["effects"][5], "key": "again"})),
        ("nothing tells of it", lambda made: made["effects"].pop(4) and changed("r3", 1, "completed")(made)),
        ("two answers", lambda made: made["load"].conflicts.append("o1")),
    ],
)  # fmt: skip
def test_each_breach_is_found(word, change):
    made = world()
    change(made)
    assert [one for one in breaches(made) if word in one]
