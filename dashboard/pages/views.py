"""Saved views of lists: names for query strings, each reader's own in each tenant; they outlive the session."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from django.utils.translation import gettext as _

from dashboard.models import SavedView
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput
from runtime.store.tx import tenant_tx

MAX_VIEWS, MAX_NAME, MAX_QUERY = 20, 40, 2000


@dataclass(frozen=True, slots=True)
class Kind:
    """Which list the views are of, and which parameters of its address they keep."""

    key: str
    known: frozenset[str]


RUNS = Kind("runs", frozenset({"status", "workflow", "error", "q", "pool", "age", "effect", "within"}))

TASKS = Kind("tasks", frozenset({"workflow"}))
REPAIRS = Kind("repairs", frozenset({"view", "kind", "tool", "risk", "alike"}))


def common() -> list[dict[str, str]]:
    """Return the views of runs that every reader has, as {name, query, own}."""
    return [
        {"name": _("Open"), "query": "status=running&status=queued&status=accepted&within=all", "own": ""},
        {
            "name": _("Waits for a person"),
            "query": "status=waiting_approval&status=needs_attention&status=paused&within=all",
            "own": "",
        },
        {"name": _("Failed"), "query": "status=failed&status=partially_completed&within=7d", "own": ""},
    ]


def saved(actor: Actor, kind: Kind) -> list[dict[str, str]]:
    """Return the reader's own views of a list in the order of their making, as {name, query, own}."""
    with tenant_tx(actor.tenant_id):
        rows = SavedView.objects.filter(user_id=_reader(actor), page=kind.key).order_by("id")
        return [{"name": row.name, "query": row.query, "own": "1"} for row in rows[:MAX_VIEWS]]


def save(actor: Actor, kind: Kind, name: str, query: str) -> None:
    """Keep ``query`` under ``name``, in place of what was there.

    Raises BadInput for a name that cannot be shown, a query that is too long, or one view too many.
    """
    name = name.strip()
    if not 1 <= len(name) <= MAX_NAME or not name.isprintable():
        raise BadInput(_("A view's name has 1 to 40 characters."), where="/name", remediation=_("Choose another name."))
    kept = urlencode([(key, value) for key, value in parse_qsl(query) if key in kind.known])
    if len(kept) > MAX_QUERY:
        raise BadInput(_("These filters are too long to be kept."), where="/query")
    with tenant_tx(actor.tenant_id):
        rows = SavedView.objects.filter(user_id=_reader(actor), page=kind.key)
        SavedView.objects.update_or_create(
            tenant_id=actor.tenant_id, user_id=_reader(actor), page=kind.key, name=name, defaults={"query": kept}
        )
        if rows.count() > MAX_VIEWS:
            # Raised out of the transaction, so that the new one is gone with it.
            raise BadInput(_("There are 20 saved views already."), where="/name", remediation=_("Forget one first."))


def forget(actor: Actor, kind: Kind, name: str) -> None:
    """Forget a view; one that is not there stays so."""
    with tenant_tx(actor.tenant_id):
        SavedView.objects.filter(user_id=_reader(actor), page=kind.key, name=name).delete()


def _reader(actor: Actor) -> int:
    """Return whose views they are: only people read pages."""
    assert actor.user_id is not None
    return actor.user_id
