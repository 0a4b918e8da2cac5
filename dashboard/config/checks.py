"""Names in the environment that mean nothing to us, found before a typing error is taken for a setting."""

from __future__ import annotations

import difflib
import os
from dataclasses import fields
from typing import Any

from django.core.checks import CheckMessage, Warning, register

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
