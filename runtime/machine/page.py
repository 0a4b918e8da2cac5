"""The law of states as a page, generated from :mod:`runtime.machine.law`: what the code holds to, for people."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from runtime.machine import law

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --yes: #2e7d3222; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 78rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { border: 1px solid var(--line); padding: .3rem .5rem; text-align: left; vertical-align: top; }
thead th { position: sticky; top: 0; background: Canvas; }
td.yes { background: var(--yes); }
td.no { color: GrayText; text-align: center; }
code { font: 13px ui-monospace, monospace; }
"""
_SUBJECTS = (
    ("Step", law.STEP, law.STEP_STATUSES),
    ("Run", law.RUN, None),
    ("Operation", law.OPERATION, None),
)


def law_page() -> str:
    """Return the whole law as one HTML document without scripts or outside references."""
    parts = [section(title, table, statuses) for title, table, statuses in _SUBJECTS]
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>The law of states</title>',
            f"<style>{_STYLE}</style></head><body><h1>The law of states</h1>",
            "<p>Generated from <code>runtime/machine/law.py</code>. Every move is one conditional update and one event",
            "in one transaction; the database's guard refuses any other.</p>",
            *parts,
            "<h2>Notes</h2><ul>",
            f"<li>A skipped step carries a cause: {_codes(law.SKIP_CAUSES)}.</li>",
            f"<li>A rerun (from {_codes(law.RERUN_SOURCES)}) makes a new row at the next execution version; the old",
            "row keeps its status, is superseded and never changes again; a forced one keeps its mark.</li>",
            f"<li>A row begins as one of: {_codes(law.STEP_ENTRY)}.</li>",
            f"<li>A run that is one of {_codes(law.RUN_ENDED)} is never left.</li>",
            "</ul></body></html>",
            "",
        ]
    )


def section(title: str, table: dict[tuple[str, str], law.Move], statuses: Iterable[str] | None) -> str:
    """Return one subject: the matrix of its moves, then the list with who causes each and why."""
    names = list(statuses) if statuses is not None else in_order(table)
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    rows = "".join(f"<tr><th>{escape(a)}</th>{''.join(_cell(table, a, b) for b in names)}</tr>" for a in names)
    moves = "".join(
        f"<tr><td>{escape(move.source)}</td><td>{escape(move.target)}</td><td>{escape(_by(move))}</td>"
        f"<td>{escape(move.why)}</td></tr>"
        for move in table.values()
    )
    return (
        f"<h2>{escape(title)}</h2><p>From the row to the column, and by whom.</p>"
        f"<table><thead><tr><th>from \\ to</th>{head}</tr></thead><tbody>{rows}</tbody></table>"
        f"<table><thead><tr><th>from</th><th>to</th><th>by</th><th>when</th></tr></thead><tbody>{moves}</tbody></table>"
    )


def in_order(table: dict[tuple[str, str], law.Move]) -> list[str]:
    """Return the statuses a table names, in the order of their first naming."""
    return list(dict.fromkeys(name for pair in table for name in pair))


def _codes(names: Iterable[str]) -> str:
    return ", ".join(f"<code>{escape(name)}</code>" for name in names)


def _by(move: law.Move) -> str:
    return ", ".join(sorted(move.by))


def _cell(table: dict[tuple[str, str], law.Move], source: str, target: str) -> str:
    move = table.get((source, target))
    if move is None:
        return '<td class="no">·</td>'
    return f'<td class="yes" title="{escape(move.why)}">{escape(_by(move))}</td>'
