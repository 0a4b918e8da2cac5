"""The sidebar: which pages there are, which of them this reader may open, and what waits behind them."""

from __future__ import annotations

from dataclasses import dataclass, field

from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext as _

from approvals.verbs import POLICY, READ
from dashboard.pages import requests
from repair.queries import count_due
from repair.verbs import READ as REPAIR_READ
from runtime.access import verbs as v
from runtime.access.authorize import may
from runtime.kernel.actor import Actor
from runtime.queries.attention import count_attention


@dataclass(frozen=True)
class Item:
    """One entry: its address, icon and word; ``count`` waits there, ``state`` gives it colour."""

    key: str
    label: str
    icon: str
    url: str
    count: int = 0
    state: str = ""


@dataclass(frozen=True)
class Group:
    """Entries under one heading."""

    label: str
    items: list[Item] = field(default_factory=list)


def groups(actor: Actor) -> list[Group]:
    """Return the sidebar of this reader; a page they may not open is not named."""
    waiting = requests.count_decisions(actor)
    cases = count_due(actor=actor)[0] if may(actor, REPAIR_READ) else 0
    attention = count_attention(actor=actor) if may(actor, v.RUN_READ) else 0
    rows = [
        Group(
            "",
            _kept(
                actor,
                ("now", _("Now"), "compass", v.RUN_READ, 0, ""),
                ("inbox", _("Inbox"), "inbox", READ, waiting, "hold"),
                ("repairs", _("Repairs"), "wrench", REPAIR_READ, cases, "unknown"),
                ("runbooks", _("Runbooks"), "book-open", REPAIR_READ, 0, ""),
            ),
        ),
        Group(
            _("Work"),
            _kept(
                actor,
                ("runs", _("Runs"), "play", v.RUN_READ, attention, "unknown"),
                ("tasks", _("Tasks"), "square-check", v.TASK_READ, 0, ""),
                ("workflows", _("Workflows"), "workflow", v.WORKFLOW_READ, 0, ""),
            ),
        ),
        Group(
            _("Estate"),
            _kept(
                actor,
                ("alerts", _("Alerts"), "bell", v.ALERT_READ, 0, ""),
                ("workers", _("Workers"), "server", v.WORKER_READ, 0, ""),
                ("tools", _("Tools"), "plug", v.TOOL_READ, 0, ""),
                ("messages", _("Messages"), "send", v.MESSAGE_READ, 0, ""),
                ("hooks", _("Webhooks"), "webhook", v.NOTICE_MANAGE, 0, ""),
                ("policy", _("Policy"), "scale", POLICY, 0, ""),
                ("limits", _("Limits"), "gauge", v.LIMIT_READ, 0, ""),
                ("stops", _("Stops"), "octagon-x", v.STOP_READ, 0, ""),
                ("audit", _("Audit"), "scroll-text", v.AUDIT_READ, 0, ""),
                ("members", _("Members"), "users", v.MEMBER_READ, 0, ""),
                ("tokens", _("Tokens"), "key-round", v.TOKEN_ISSUE, 0, ""),
            ),
        ),
    ]
    return [group for group in rows if group.items]


def _kept(actor: Actor, *rows: tuple[str, str, str, str, int, str]) -> list[Item]:
    found = []
    for key, label, icon, verb, count, state in rows:
        try:
            url = reverse(key)
        except NoReverseMatch:
            continue  # its page has not been built into this installation
        if may(actor, verb):
            found.append(Item(key, label, icon, url, count, state))
    return found
