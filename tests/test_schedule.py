"""Tests that share what is dear to start run in one process; none that hangs takes the time of all the others."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.support.schedule import group_of

ROOT = Path(__file__).resolve().parents[1]
ALONE = "tests/machine/test_moves.py::test_x[a]"


@pytest.mark.parametrize(
    ("nodeid", "group"),
    [
        ("tests/browser/test_graph.py::test_x[chromium]", "browser"),
        ("tests/faults/matrix/test_matrix.py::test_x[a-b]", "matrix"),
        ("tests/faults/test_deaf.py::test_x", "up"),
        ("tests/system/test_up_example.py::test_x", "up"),
        ("tests/live/test_feed.py::test_x", "tests/live/test_feed.py"),
        (ALONE, ALONE),
    ],
)
def test_a_group_goes_by_place(nodeid, group):
    assert group_of(nodeid) == group


def limits() -> dict[str, int]:
    """Return every time limit of tests in seconds: the common one, those of single tests, and make's."""
    common = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["timeout"]
    found = {"pyproject.toml": int(common)}
    for path in [ROOT / "Makefile", *sorted((ROOT / "tests").rglob("*.py"))]:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if match := re.search(r"mark\.timeout\((\d+)\)|--timeout[ =](\d+)", line):
                found[f"{path.relative_to(ROOT)}:{number}"] = int(match[1] or match[2])
    return found


def test_a_test_that_hangs_is_ended_after_a_quarter_of_an_hour():
    assert {place: seconds for place, seconds in limits().items() if seconds > 900} == {}
