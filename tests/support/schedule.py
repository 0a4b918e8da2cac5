"""Which tests share a process under pytest-xdist: those that share something that is dear to start.

pytest-xdist's own ``xdist_group`` mark has no effect here: it writes the group into a private name of pytest's items,
which pytest 9 reads no more. So groups go by place.
"""

from __future__ import annotations

import re

from xdist.scheduler import LoadGroupScheduling

# What lies at these places → the name of its group.
GROUPS = {
    r"tests/browser/": "browser",  # a Chromium and a web process
    r"tests/faults/matrix/": "matrix",  # a stack, a shop and a web process
    r"tests/system/test_up|tests/faults/test_deaf": "up",  # whole consoles, one after the other
    r"(tests/live/\w+\.py)": r"\1",  # a web process each
}


def group_of(nodeid: str) -> str:
    """Return the group of a test; most are one by themselves."""
    for place, name in GROUPS.items():
        if match := re.match(place, nodeid):
            return match.expand(name)
    return nodeid


class ByPlace(LoadGroupScheduling):
    """Hands out tests one by one, and those of a group to one process."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
