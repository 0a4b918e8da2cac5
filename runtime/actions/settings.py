"""A tenant's settings, as whoever runs the installation says them: where a second person is asked for, due times.

They are the tenant's own row, which no role of the web or the workers may write: it is written as the database's owner.
"""

from __future__ import annotations

import math
from typing import Any

import orjson

from runtime.access import verbs as v
from runtime.access.authorize import authorize
from runtime.actions.base import LOCK_TIMEOUT_MS, check_reason
from runtime.journal import audit
from runtime.kernel import seams
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput
from runtime.queries.base import found, parsed
from runtime.queries.settings import stored_value, takes
from runtime.store.tx import tenant_tx


def set_setting(*, actor: Actor, key: str, value: str | None, reason: str = "") -> dict[str, Any]:
    """Set one setting of the actor's tenant by its dotted name; None takes it back to the default.

    ``value`` is the text of a word or a number, as the setting takes it. What is asked for already stays as it was
    asked; the next act is judged by the new value. Returns {key, value, before, default, set}. Raises BadInput for an
    unknown name or value, PermissionDenied. Verb ``tenant.set``.
    """
    authorize(actor, v.TENANT_SET)
    why = check_reason(reason)
    setting = _known(key)
    wanted = None if value is None else _checked(key, setting, value)
    with tenant_tx(actor.tenant_id, using="owner", lock_timeout_ms=LOCK_TIMEOUT_MS) as tx:
        row = found(tx.one("lock_settings", (actor.tenant_id,)), "tenant")
        stored = parsed(row[0])
        before = stored_value(stored, key)
        tx.send("put_settings", (orjson.dumps(_with(stored, key.split("."), wanted)).decode(), actor.tenant_id))
        details = {
            "key": key,
            "value": setting.default if wanted is None else wanted,
            "before": setting.default if before is None else before,
            "default": setting.default,
            "set": wanted is not None,
        }
        audit.record(
            tx,
            actor=actor,
            verb=v.TENANT_SET,
            subject_kind="tenant",
            subject_id=actor.tenant_id,
            result="set" if wanted is not None else "unset",
            reason=why,
            details=details,
        )
    return details


def _known(key: str) -> seams.Setting:
    known = seams.known_settings()
    if key not in known:
        raise BadInput(
            f"There is no setting {key[:80]!r}.", where="/key", remediation=f"Use one of: {', '.join(sorted(known))}."
        )
    return known[key]


def _checked(key: str, setting: seams.Setting, text: str) -> str | int | float:
    """Return the value that a text stands for. Raises BadInput with what the setting takes."""
    if setting.words:
        if text in setting.words:
            return text
    else:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if 0 < number < setting.below:
            return int(number) if number.is_integer() else number
    raise BadInput(f"{key} takes no {text[:80]!r}.", where="/value", remediation=f"Use {takes(setting)}.")


def _with(settings: Any, path: list[str], value: Any) -> dict[str, Any]:
    """Return the JSON of a tenant with one value put in, or taken out; what is no object on the way is replaced."""
    said = dict(settings) if isinstance(settings, dict) else {}
    name, *rest = path
    if rest:
        below = _with(said.get(name), rest, value)
        said = {**said, name: below} if below else {key: one for key, one in said.items() if key != name}
    elif value is None:
        said.pop(name, None)
    else:
        said[name] = value
    return said
