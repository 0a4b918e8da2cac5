"""Named queries: ``-- name: claim_steps`` starts a query in ``sql/*.sql``; the line after it says what it does."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "sql"
_HEADER = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)


@cache
def queries() -> dict[str, str]:
    """Return every named query, placeholders of shared column lists already filled in."""
    from runtime.store import columns

    found: dict[str, str] = {}
    for path in sorted(FOLDER.glob("*.sql")):
        parts = _HEADER.split(path.read_text())
        for name, body in zip(parts[1::2], parts[2::2], strict=True):
            if name in found:
                raise RuntimeError(f"query {name} is defined twice")
            found[name] = columns.fill(body.strip())
    return found


def schema_sql(name: str) -> str:
    """Return a file of ``sql/schema/``, as migrations run it."""
    return (FOLDER / "schema" / f"{name}.sql").read_text()
