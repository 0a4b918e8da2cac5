"""Tests that share what is dear to start run in one process."""

from __future__ import annotations

import pytest

from tests.support.schedule import group_of

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
