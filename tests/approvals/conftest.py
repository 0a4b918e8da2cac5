"""An office whose payments need a person; what is exported of it in the end is judged by rules that are not ours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.office import Office
from tests.support.traces import judge


@pytest.fixture
def office(tenant) -> Iterator[Office]:
    """The tenant's office. However a test leaves it, its exported trace passes agentack's rules."""
    yield Office(tenant)
    judge(tenant)
