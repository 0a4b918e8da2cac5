"""Mistakes of the configuration as Django system checks, found by `manage.py check` before anything runs."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

# The longest a message or request may be delivered again.
REDELIVERY_DAYS = 30


@register("quarterdeck")
def check_database(**kwargs: Any) -> list[CheckMessage]:
    """E001: every alias is PostgreSQL. E002: workers do not use a pool, which forked processes would share."""
    found: list[CheckMessage] = []
    for alias, database in settings.DATABASES.items():
        if database["ENGINE"] != "django.db.backends.postgresql":
            message = f"Database {alias!r} is not PostgreSQL."
            found.append(Error(message, hint="Set DATABASE_URL.", id="quarterdeck.E001"))
        if settings.QUARTERDECK_ROLE == "worker" and database.get("OPTIONS", {}).get("pool"):
            found.append(Error("A worker must not use a connection pool.", id="quarterdeck.E002"))
    return found


@register("quarterdeck")
def check_limits(**kwargs: Any) -> list[CheckMessage]:
    """E003 to E005: the QUARTERDECK_* values fit the configuration and contradict neither each other nor sense."""
    from runtime.kernel.conf import Conf

    try:
        conf = Conf(**settings.QUARTERDECK)
    except TypeError as error:
        return [Error(f"settings.QUARTERDECK does not fit: {error}", id="quarterdeck.E003")]
    if conf.lease_seconds < 3 * conf.poll_seconds:
        return [
            Error(
                "The lease is shorter than three polls: workers would be declared lost while they live.",
                hint="Raise QUARTERDECK_LEASE_SECONDS or lower QUARTERDECK_POLL_SECONDS.",
                id="quarterdeck.E003",
            )
        ]
    if conf.operation_retention_days < REDELIVERY_DAYS:
        return [
            Error(
                "Answers of operations would be forgotten while a message may still be delivered again.",
                hint=f"Set QUARTERDECK_OPERATION_RETENTION_DAYS to {REDELIVERY_DAYS} or more.",
                id="quarterdeck.E004",
            )
        ]
    if not 1 <= conf.live_most_each <= conf.live_most:
        return [
            Error(
                "One person or token may open no stream at all, or more than a web process serves.",
                hint="Set QUARTERDECK_LIVE_MOST_EACH between 1 and QUARTERDECK_LIVE_MOST.",
                id="quarterdeck.E005",
            )
        ]
    return []
