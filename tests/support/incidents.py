"""Incidents of other systems, read from ``QUARTERDECK_INPUTS``: what must hold in ours, line by line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from tests.support.dags import inputs

# Not replayed, with the reason: nothing here could break in that way yet.
LEFT = {
    "INC-05": "There are no schedules yet.",
    "INC-07": "There are no schedules yet.",
    "INC-35": "Nothing meters costs yet.",
}


@cache
def incidents() -> dict[str, dict[str, Any]]:
    """Return incidents by id; none where the inputs are not there."""
    path = inputs() / "incidents" / "incidents.json"
    return {one["id"]: one for one in json.loads(path.read_text())["incidents"]} if path.exists() else {}


@contextmanager
def holds(incident: str, line: str) -> Iterator[None]:
    """Assert in the block what an incident's ``must_hold`` says in ``line``, word by word."""
    if incidents():
        assert line in incidents()[incident]["must_hold"]
    yield
