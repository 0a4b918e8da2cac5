"""What every read shares: a permission, the actor's tenant transaction, keyset pages, plain values."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
from django.core import signing

from runtime.access.authorize import authorize
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, NotFound
from runtime.store.tx import Tx, tenant_tx

if TYPE_CHECKING:
    from django.db.models import QuerySet

DEFAULT_LIMIT = 50
MAX_LIMIT = 500
COUNT_BOUND = 1_000


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list. ``next`` continues it, None at its end.

    ``count`` is None unless asked for; it is exact below COUNT_BOUND and says "at least" from there on.
    """

    items: list[dict[str, Any]]
    next: str | None = None
    count: int | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the page as the API answers it."""
        body: dict[str, Any] = {"items": self.items, "next": self.next}
        if self.count is not None:
            body["count"] = min(self.count, COUNT_BOUND)
            body["count_is"] = "exact" if self.count <= COUNT_BOUND else "at_least"
        return body


@contextmanager
def reading(actor: Actor, verb: str) -> Iterator[Tx]:
    """Ask for the permission and open the actor's tenant transaction."""
    authorize(actor, verb)
    with tenant_tx(actor.tenant_id) as tx:
        yield tx


def cursor_of(name: str, actor: Actor, position: list[Any]) -> str:
    """Return an opaque signed cursor into list ``name``; it is of no use to another tenant or list."""
    return signing.dumps([str(actor.tenant_id), *position], salt=f"quarterdeck.cursor.{name}")


def position_of(name: str, actor: Actor, cursor: str | None) -> list[Any] | None:
    """Return the position in a cursor, None without one. Raises BadInput for anything this list did not give out."""
    if not cursor:
        return None
    try:
        tenant, *position = signing.loads(cursor, salt=f"quarterdeck.cursor.{name}")
    except (signing.BadSignature, ValueError):
        tenant, position = "", []
    if tenant != str(actor.tenant_id):
        raise BadInput(
            "The cursor does not belong to this list.",
            where="query cursor",
            remediation="Start again without a cursor, and pass on the `next` of the answer.",
        )
    return position


def page(
    rows: QuerySet[Any, Any],
    *,
    name: str,
    actor: Actor,
    key: str = "id",
    cursor: str | None,
    limit: int,
    count: bool,
    present: Callable[[dict[str, Any]], dict[str, Any]],
) -> Page:
    """Return a page of ``rows`` (a ``.values()`` query), newest first by the unique column ``key``.

    Ids are UUIDv7, so their order is that of creation. Call it inside the tenant's transaction.
    """
    counted = len(rows.order_by()[: COUNT_BOUND + 1].values_list(key)) if count else None
    position = position_of(name, actor, cursor)
    if position is not None:
        rows = rows.filter(**{f"{key}__lt": position[0]})
    found = list(rows.order_by(f"-{key}")[: limit + 1])
    more = len(found) > limit
    found = found[:limit]
    value = found[-1][key] if more else None
    following = cursor_of(name, actor, [str(value) if isinstance(value, uuid.UUID) else value]) if more else None
    return Page([present(row) for row in found], following, counted)


def found(row: Any, what: str) -> Any:
    """Return ``row``. Raises NotFound when it is None; another tenant's rows are as if they were not there."""
    if row is None:
        raise NotFound(f"There is no {what} of that id in this tenant.")
    return row


def parsed(value: Any) -> Any:
    """Return a jsonb column as a value: Django's connections leave it as text."""
    return orjson.loads(value) if isinstance(value, str | bytes) else value


def content(value: Any) -> Any:
    """Return canonical JSON bytes as a value; None stays None."""
    return None if value is None else orjson.loads(bytes(value))


def hexed(value: Any) -> str | None:
    """Return a digest column in hex; None stays None."""
    return None if value is None else bytes(value).hex()
