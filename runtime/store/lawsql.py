"""The law as SQL text: fills the guard templates in ``sql/schema/guards.sql`` from :mod:`runtime.machine.law`'s rows.

The store stands below the machine, so the caller (a migration) hands the law in.
"""

from __future__ import annotations

from collections.abc import Iterable

from runtime.store.sqlfile import schema_sql


def _list(values: Iterable[str]) -> str:
    return ", ".join("'" + value.replace("'", "''") + "'" for value in values)


def guards(
    *,
    step_entry: Iterable[str],
    step_pairs: Iterable[str],
    run_pairs: Iterable[str],
    operation_pairs: Iterable[str],
    rows: Iterable[tuple[str, str, str, str, str]],
) -> str:
    """Return the guards' SQL; pairs are ``source>target``, rows are (subject, source, target, by, why)."""
    text = schema_sql("guards")
    filled = {
        "step_entry": _list(step_entry),
        "step_pairs": _list(step_pairs),
        "run_pairs": _list(run_pairs),
        "operation_pairs": _list(operation_pairs),
        "transition_rows": ", ".join(f"({_list(row)})" for row in rows),
    }
    for name, value in filled.items():
        text = text.replace("{" + name + "}", value)
    return text


def approval_guard(pairs: Iterable[str], file: str = "approvals") -> str:
    """Return the SQL of the approvals' walls and guard, as ``file`` has it; pairs are ``source>target``."""
    return schema_sql(file).replace("{approval_pairs}", _list(pairs))


def case_guard(pairs: Iterable[str]) -> str:
    """Return the SQL of the repair cases' walls and guard; pairs are ``source>target``."""
    return schema_sql("repair").replace("{case_pairs}", _list(pairs))


def bulk_guard(pairs: Iterable[str]) -> str:
    """Return the SQL of the bulk repairs' walls and guard; pairs are ``source>target``."""
    return schema_sql("repair_bulk").replace("{bulk_pairs}", _list(pairs))
