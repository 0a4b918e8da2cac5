"""What of the environment cannot be meant, found at the start: names nobody reads, packages that a setting needs."""

from __future__ import annotations

import difflib
import importlib.util
import os
from dataclasses import fields
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register

from runtime.kernel.conf import Conf

_OURS = "QUARTERDECK_"
_OTHERS = frozenset(
    "DATA DB_ROLE POOL POOL_SIZE WORKERS HOST PREPARE_THRESHOLD IDLE_TRANSACTION_SECONDS CHROMIUM INPUTS".split()
)  # what is read elsewhere than through ``Conf``
_FREE = ("QUARTERDECK_TOOL_", "QUARTERDECK_TEST_", "QUARTERDECK_BENCH_")


@register("quarterdeck")
def check_names(**kwargs: Any) -> list[CheckMessage]:
    """W101: a QUARTERDECK_ variable that nobody reads."""
    known = {_OURS + name for name in (*_OTHERS, *(field.name.upper() for field in fields(Conf)))}
    found: list[CheckMessage] = []
    for name in sorted(os.environ):
        if not name.startswith(_OURS) or name.startswith(_FREE) or name in known:
            continue
        near = difflib.get_close_matches(name, known, 1)
        hint = f"Did you mean {near[0]}?" if near else "The variables are listed in README, Configuration."
        found.append(Warning(f"{name} means nothing here.", hint=hint, id="quarterdeck.W101"))
    return found


@register("quarterdeck")
def check_redis(**kwargs: Any) -> list[CheckMessage]:
    """E102: REDIS_URL without the packages of the extra ``redis``; every socket and every cached value would fail."""
    missing = [name for name in ("redis", "channels_redis") if importlib.util.find_spec(name) is None]
    if not settings.REDIS_URL or not missing:
        return []
    hint = "Install the extra redis (channels-redis and redis), or take REDIS_URL away."
    return [
        Error(f"REDIS_URL is set, and {' and '.join(missing)} cannot be imported.", hint=hint, id="quarterdeck.E102")
    ]
