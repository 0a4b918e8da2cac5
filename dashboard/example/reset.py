"""Beginning again: nothing is deleted, since the ledger never is; the old tenant is retired under another name."""

from __future__ import annotations

import contextlib
import urllib.error
import urllib.request
from typing import Any

from dashboard.example import setup
from runtime.access.roles import verbs_of_role
from runtime.actions.runs import cancel_run
from runtime.actions.tenants import retire_tenant
from runtime.kernel.actor import Actor
from runtime.kernel.errors import QuarterdeckError
from runtime.machine.law import RUN_ENDED
from runtime.models.work import RUN_STATUSES
from runtime.queries.runs import list_runs
from runtime.store import directory


def reset() -> dict[str, Any]:
    """Cancel what is open, retire the tenant, empty the shop's books, and make the example anew.

    Returns {retired, cancelled, shop, sign_ins}; ``sign_ins`` are those of people that were missing. A run that an open
    effect keeps from ending stays as it is, retired with it.
    """
    old = next((one for one in directory.all_tenants(using="owner") if one.slug == setup.SLUG), None)
    retired, cancelled = None, 0
    if old is not None:
        actor = Actor(kind="service", name="reset", tenant_id=old.id, verbs=verbs_of_role("admin"))
        cancelled = _cancel_open(actor)
        retired = retire_tenant(tenant_id=old.id)["slug"]
    last = setup.place()
    if last is not None:
        _empty_books(last)
    made = setup.ensure(last)
    return {"retired": retired, "cancelled": cancelled, "shop": made.place.url, "sign_ins": made.sign_ins}


def _cancel_open(actor: Actor) -> int:
    status = [one for one in RUN_STATUSES if one not in RUN_ENDED]
    count, cursor = 0, None
    while True:
        page = list_runs(actor=actor, status=status, cursor=cursor, limit=500)
        for run in page.items:
            with contextlib.suppress(QuarterdeckError):
                cancel_run(actor=actor, run_id=run["id"], reason="the example is reset")
                count += 1
        cursor = page.next
        if cursor is None:
            return count


def _empty_books(place: setup.Place) -> None:
    """Ask the running shop to begin with empty books, or delete them when it does not run."""
    request = urllib.request.Request(f"{place.url}/reset", data=b"{}", method="POST")
    try:
        with urllib.request.urlopen(request, timeout=5):
            return
    except (urllib.error.URLError, OSError):
        setup.books().unlink(missing_ok=True)
