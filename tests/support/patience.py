"""How long tests wait for what must come: machines are shared, so a deadline only ends a wait that is in vain."""

from __future__ import annotations

PATIENCE = 3.0


def patient(seconds: float) -> float:
    """Return the deadline (seconds) for something that takes up to ``seconds`` on a machine at rest."""
    return seconds * PATIENCE
