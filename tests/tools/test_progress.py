"""How far a call is, told while it runs: by functions in each of their ways, and by MCP servers (C2.8)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from runtime.tools.adapters.mcp import shutdown
from runtime.tools.showing import MAX_STAGE, Showing, Told, checked
from tests.support.workers import until
from tests.tools.conftest import python_contract, run
from tests.tools.test_mcp import contract

pytestmark = pytest.mark.req("C2.8")
WAYS = ["inline", "thread", "process"]


class Heard(Showing):
    """Keeps what is told."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        self.refused: list[str] = []
        self.pids: list[int] = []

    def put(self, told: Told) -> None:
        self.told.append(told)

    def refuse(self, why: str) -> None:
        self.refused.append(why)

    def child(self, pid: int) -> None:
        self.pids.append(pid)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((3, 10, "reading_pages"), Told(3.0, 10.0, "reading_pages")),
        ((0.5,), Told(0.5, None, None)),
        ((0, 0, None), Told(0.0, None, None)),
        ((10, 10, "a" * MAX_STAGE), Told(10.0, 10.0, "a" * MAX_STAGE)),
    ],
)
def test_numbers_and_a_code_are_a_report(given: tuple[Any, ...], told: Told) -> None:
    assert checked(*given) == told


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (("half",), "`done`"),
        ((True,), "`done`"),
        ((-1,), "`done`"),
        ((math.nan, 1), "`done`"),
        ((10**400,), "`done`"),
        ((2, 1), "`total`"),
        ((1, "many"), "`total`"),
        ((1, math.inf), "`total`"),
        ((1, 2, "Jane Doe"), "`stage`"),
        ((1, 2, "card_4111"), "`stage`"),
        ((1, 2, "a" * (MAX_STAGE + 1)), "`stage`"),
        ((1, 2, "pages\n"), "`stage`"),
        ((1, 2, {"of": "letters"}), "`stage`"),
    ],
)
def test_anything_else_is_none_and_it_is_said_why(given: tuple[Any, ...], names: str) -> None:
    heard = Heard()
    assert heard.progress(*given) is False
    assert heard.told == []
    assert names in heard.refused[0]
    assert "Doe" not in heard.refused[0]
    with pytest.raises(ValueError, match=names):
        checked(*given)


class Agreeable(float):
    """A number type of a tool's own that compares as it likes."""

    def __le__(self, other: object) -> bool:
        return True

    __lt__ = __ge__ = __gt__ = __le__


class Raising(float):
    def __float__(self) -> float:
        raise RuntimeError


def test_number_types_of_a_tools_own_are_taken_for_what_they_are_worth() -> None:
    heard = Heard()
    for number in (Agreeable(math.nan), Agreeable(math.inf), Agreeable(-1), Raising(1)):
        assert heard.progress(number) is False
        assert heard.progress(1, number) is False
    assert heard.told == []
    assert heard.progress(Agreeable(1), Agreeable(2)) is True
    assert [type(one) for one in heard.told[0][:2]] == [float, float]


@pytest.mark.parametrize("runs", WAYS)
def test_a_function_tells_how_far_it_is_and_a_bad_report_costs_it_nothing(runs: str) -> None:
    heard = Heard()
    told = [[1, 4, "loading"], [2, 4, "no code!"], [3, 4, "writing"], [4, 4, "writing"]]
    result = run(python_contract("counting", runs=runs, writes=True), {"told": told}, showing=heard)
    assert (result.kind, result.value) == ("ok", {"taken": [True, False, True, True]})
    assert heard.told == [Told(1.0, 4.0, "loading"), Told(3.0, 4.0, "writing"), Told(4.0, 4.0, "writing")]
    assert len(heard.pids) == (1 if runs == "process" else 0)


def test_a_flood_of_reports_from_a_process_ends_with_the_last_and_leaves_the_answer_whole() -> None:
    heard = Heard()
    told = [[n, 5_000] for n in range(1, 5_001)]
    result = run(python_contract("counting", runs="process"), {"told": told}, showing=heard)
    assert result.value == {"taken": [True] * 5_000}
    assert heard.told[0].done == 1.0
    assert heard.told[-1] == Told(5_000.0, 5_000.0, None)
    assert len(heard.told) < 5_000


def test_a_flood_of_ever_other_stages_is_bounded_and_its_last_report_is_told() -> None:
    heard = Heard()
    told = [[n, 9_000, "even" if n % 2 else "odd"] for n in range(1, 5_001)]
    assert run(python_contract("counting", runs="process"), {"told": told}, showing=heard).kind == "ok"
    assert len(heard.told) < 2_500
    assert heard.told[-1].done == 5_000.0


def test_a_process_that_a_function_forked_says_nothing_into_its_answer() -> None:
    heard = Heard()
    contract = python_contract("forking", runs="process", writes=True, max_result_bytes=2_000_000)
    result = run(contract, {"size": 900_000}, showing=heard)
    assert (result.kind, len(result.value["large"]), heard.told) == ("ok", 900_000, [])


@pytest.mark.parametrize("runs", WAYS)
def test_a_function_that_nobody_listens_to_is_none_the_worse(runs: str) -> None:
    assert run(python_contract("counting", runs=runs), {"told": [[1, 2, "loading"]]}).value == {"taken": [True]}


def test_an_mcp_servers_notifications_are_heard_without_their_text(tmp_path: Path) -> None:
    heard, counting = Heard(), contract(tmp_path / "log", "counting", writes=False)
    result = run(counting, {"told": [[1, None], [2, 5], [9, 5]]}, showing=heard)
    assert (result.kind, result.value) == ("ok", "told")
    until(lambda: len(heard.told) == 2 and heard.refused, 10, "all notifications are in")
    assert heard.told == [Told(1.0, None, None), Told(2.0, 5.0, None)]
    assert run(counting, {"told": [[1, 2]]}).value == "nobody asks"
    shutdown()
