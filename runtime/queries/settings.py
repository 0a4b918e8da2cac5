"""Reads of a tenant's settings: what it asks of its people beyond the defaults."""

from __future__ import annotations

from typing import Any

from runtime.access import verbs as v
from runtime.kernel import classes, seams
from runtime.kernel.actor import Actor
from runtime.machine.second import ALWAYS, EFFECTS, NEVER
from runtime.queries.base import found, parsed, reading

seams.register_settings(
    {
        "force.second_person": seams.Setting(
            "When another admin has to agree before a step is marked as succeeded by hand: on each, on those whose "
            "effect outside is open, or never.",
            default=NEVER,
            words=(NEVER, EFFECTS, ALWAYS),
        ),
        **classes.SETTINGS,
    }
)


def list_settings(*, actor: Actor) -> list[dict[str, Any]]:
    """Return every setting of the actor's tenant by name: {key, value, default, set, takes, says}.

    ``value`` is what counts, ``set`` whether the tenant said it. What stands there and makes no sense counts as the
    default. Verb ``limit.read``.
    """
    with reading(actor, v.LIMIT_READ) as tx:
        row = found(tx.one("read_settings", (actor.tenant_id,)), "tenant")
    stored, known = parsed(row[0]), seams.known_settings()
    return [_present(key, known[key], stored_value(stored, key)) for key in sorted(known)]


def stored_value(settings: Any, key: str) -> Any:
    """Return what the JSON of a tenant says under a dotted name; None where it says nothing that makes sense."""
    setting, value = seams.known_settings()[key], settings
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if setting.words:
        return value if value in setting.words else None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if number and 0 < value < setting.below else None


def takes(setting: seams.Setting) -> str:
    """Return in words what a setting takes."""
    return ", ".join(setting.words) if setting.words else f"a number above 0 and below {setting.below:,.15g}"


def _present(key: str, setting: seams.Setting, value: Any) -> dict[str, Any]:
    default = _plain(setting.default)
    return {
        "key": key,
        "value": default if value is None else _plain(value),
        "default": default,
        "set": value is not None,
        "takes": takes(setting),
        "says": setting.says,
    }


def _plain(value: str | float) -> str | float:
    """Return a number as people write it: 4, not 4.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
