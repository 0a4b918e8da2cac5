"""The statements that are sent to the database, whoever sends them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest


@contextmanager
def captured(of: str = "") -> Iterator[list[tuple[str, Any]]]:
    """Collect the statements that name ``of``, whoever sends them, with their parameters."""
    asked: list[tuple[str, Any]] = []
    execute = psycopg.Cursor.execute

    def note(self: Any, query: Any, params: Any = None, **more: Any) -> Any:
        if of in str(query):
            asked.append((str(query), params))
        return execute(self, query, params, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg.Cursor, "execute", note)
        yield asked
