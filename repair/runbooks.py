"""Reads of runbooks: the one that fits a case best, all that stand, the versions of one."""

from __future__ import annotations

from typing import Any

from repair.models import Runbook
from repair.verbs import READ
from runtime.kernel.actor import Actor
from runtime.queries.base import reading

FIELDS = ("tool", "error_class", "version", "text", "written_by", "written_at", "reason")


def scopes_of(tool: str, error_class: str) -> list[tuple[str, str]]:
    """Return (tool, error class) of the runbooks that may be about a case, the closest first."""
    tools = list(dict.fromkeys((tool, tool.partition("@")[0], "")))
    classes = list(dict.fromkeys((error_class, "")))
    return [(one, kind) for one in tools for kind in classes]


def runbook_for(tool: str, error_class: str) -> dict[str, Any] | None:
    """Return the newest version of the runbook that fits best, None when there is none; in the tenant's transaction."""
    scopes = scopes_of(tool, error_class)
    rows = Runbook.objects.filter(
        tool__in={one for one, _kind in scopes}, error_class__in={kind for _tool, kind in scopes}
    )
    newest = {
        (row["tool"], row["error_class"]): row
        for row in rows.order_by("tool", "error_class", "-version").distinct("tool", "error_class").values(*FIELDS)
    }
    fitting = [newest[scope] for scope in scopes if scope in newest and newest[scope]["text"]]
    return dict(fitting[0]) if fitting else None


def list_runbooks(*, actor: Actor) -> list[dict[str, Any]]:
    """Return the newest version of each runbook that stands: FIELDS, by tool and error class. Verb ``repair.read``."""
    with reading(actor, READ):
        rows = Runbook.objects.order_by("tool", "error_class", "-version").distinct("tool", "error_class")
        return [dict(row) for row in rows.values(*FIELDS) if row["text"]]


def runbook_versions(*, actor: Actor, tool: str, error_class: str) -> list[dict[str, Any]]:
    """Return every version of one runbook, newest first, at most 200; one that took it away too. ``repair.read``."""
    with reading(actor, READ):
        rows = Runbook.objects.filter(tool=tool, error_class=error_class).order_by("-version").values(*FIELDS)
        return [dict(row) for row in rows[:200]]
