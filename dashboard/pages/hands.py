"""The mark of a person's hand on runs: steps that were forced or skipped, and what a repair resolved (A2.6, C8.4)."""

from __future__ import annotations

from typing import Any

from django.utils.translation import ngettext

from repair.queries import repairs_of_runs
from repair.verbs import READ
from runtime.access.authorize import may
from runtime.kernel.actor import Actor
from runtime.queries.runs import steps_by_hand


def marked(actor: Actor, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return runs with ``by_hand`` {forced, skipped, repaired}, empty where nobody's hand was; two queries for all."""
    ids = [row["id"] for row in rows]
    steps = steps_by_hand(actor=actor, run_ids=ids)
    repairs = repairs_of_runs(actor=actor, run_ids=ids) if may(actor, READ) else {}
    return [{**row, "by_hand": _counts(steps.get(row["id"], {}), repairs.get(row["id"], 0))} for row in rows]


def _counts(steps: dict[str, int], repaired: int) -> dict[str, int]:
    return {name: number for name, number in {**steps, "repaired": repaired}.items() if number}


def words(by_hand: dict[str, int]) -> str:
    """Return what was done by hand, to be read behind that word; empty for nothing."""
    told = []
    if n := by_hand.get("forced", 0):
        told.append(ngettext("%(n)d step marked as succeeded", "%(n)d steps marked as succeeded", n) % {"n": n})
    if n := by_hand.get("skipped", 0):
        told.append(ngettext("%(n)d step skipped", "%(n)d steps skipped", n) % {"n": n})
    if n := by_hand.get("repaired", 0):
        told.append(ngettext("%(n)d repair", "%(n)d repairs", n) % {"n": n})
    return ", ".join(told)
