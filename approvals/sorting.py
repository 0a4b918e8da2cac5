"""The orders in which requests are listed, each with the place a page goes on from."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

from django.db.models import BooleanField, F, Func, Q, Value
from django.db.models.functions import Coalesce
from django.db.models.lookups import LessThan

from approvals.models import OVER_AT
from runtime.kernel.actor import Actor
from runtime.queries.base import cursor_of, position_of

_NEVER = datetime.fromisoformat("9998-01-01T00:00:00+00:00")


class ByDeadline:
    """The soonest first, those without a deadline last; ``name`` keeps cursors of different orders apart."""

    name = "approvals"

    def after(self, rows: Any, position: list[Any]) -> Any:
        due = datetime.fromisoformat(position[0])
        annotated = rows.annotate(due=Coalesce(F("deadline"), _NEVER))
        return annotated.filter(Q(due__gt=due) | Q(due=due, id__gt=position[1]))

    def sorted(self, rows: Any) -> Any:
        return rows.order_by(F("deadline").asc(nulls_last=True), "id")

    def position(self, row: dict[str, Any]) -> list[Any]:
        return [(row["deadline"] or _NEVER).isoformat(), str(row["id"])]


class ByRisk:
    """The riskiest first."""

    name = "approvals.risk"

    def after(self, rows: Any, position: list[Any]) -> Any:
        return rows.filter(Q(risk__lt=position[0]) | Q(risk=position[0], id__gt=position[1]))

    def sorted(self, rows: Any) -> Any:
        return rows.order_by("-risk", "id")

    def position(self, row: dict[str, Any]) -> list[Any]:
        return [row["risk"], str(row["id"])]


class ByAge:
    """The oldest first."""

    name = "approvals.age"

    def after(self, rows: Any, position: list[Any]) -> Any:
        return rows.filter(id__gt=position[0])

    def sorted(self, rows: Any) -> Any:
        return rows.order_by("id")

    def position(self, row: dict[str, Any]) -> list[Any]:
        return [str(row["id"])]


class Newest(ByAge):
    """The newest first."""

    name = "approvals.all"

    def after(self, rows: Any, position: list[Any]) -> Any:
        return rows.filter(id__lt=position[0])

    def sorted(self, rows: Any) -> Any:
        return rows.order_by("-id")


class ByDecision:
    """What was decided, or ended otherwise, last comes first.

    That moment is fixed once a request waits no more (``models.OVER_AT``), so nobody changes places between two pages.
    """

    name = "approvals.decided"

    def after(self, rows: Any, position: list[Any]) -> Any:
        # As a pair: the index is entered at the position, however many requests ended at one moment.
        at = Value(datetime.fromisoformat(position[0])), Value(uuid.UUID(position[1]))
        return rows.filter(LessThan(_Pair(OVER_AT, F("id")), _Pair(*at)))

    def sorted(self, rows: Any) -> Any:
        return rows.order_by(OVER_AT.desc(), "-id")

    def position(self, row: dict[str, Any]) -> list[Any]:
        return [(row["decided_at"] or row["closed_at"] or row["created_at"]).isoformat(), str(row["id"])]


class _Pair(Func):
    """Two values that are compared as one."""

    template = "ROW(%(expressions)s)"
    output_field = BooleanField()


SORTS: dict[str, Any] = {"deadline": ByDeadline(), "risk": ByRisk(), "age": ByAge()}


def paged(
    rows: Any, columns: list[str], order: Any, actor: Actor, cursor: str | None, limit: int
) -> tuple[list[dict[str, Any]], str | None]:
    """Return a page of rows in an order, and the cursor to what follows."""
    if (position := position_of(order.name, actor, cursor)) is not None:
        rows = order.after(rows, position)
    listed = list(order.sorted(rows).values(*columns)[: limit + 1])
    if len(listed) <= limit:
        return listed, None
    listed = listed[:limit]
    return listed, cursor_of(order.name, actor, order.position(listed[-1]))
