"""Whether a forced success needs a second person: a tenant's policy, ``settings["force"]`` (A2.6)."""

from __future__ import annotations

from typing import Any

ALWAYS, EFFECTS, NEVER = "always", "effects", "never"


def why_second(settings: Any, open_operations: int) -> str | None:
    """Return why another admin has to agree, one sentence; None when nobody has to.

    ``{"force": {"second_person": "always" | "effects"}}``: on every forced success, or on those of a step whose effect
    outside is open. Anything else asks for nobody.
    """
    said = settings.get("force") if isinstance(settings, dict) else None
    wanted = said.get("second_person") if isinstance(said, dict) else None
    if wanted == ALWAYS:
        return "The tenant's policy asks for a second person on every forced success."
    if wanted == EFFECTS and open_operations:
        return "The tenant's policy asks for a second person where an effect outside is open."
    return None
