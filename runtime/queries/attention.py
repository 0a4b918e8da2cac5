"""How many runs need a person: a bounded count over the index of open runs."""

from __future__ import annotations

from runtime.access import verbs as v
from runtime.kernel.actor import Actor
from runtime.models import Run
from runtime.queries.base import reading

BOUND = 100


def count_attention(*, actor: Actor) -> int:
    """Return the number of runs that need attention, at most BOUND. Verb ``run.read``."""
    with reading(actor, v.RUN_READ):
        return len(Run.objects.filter(status="needs_attention").values_list("id")[:BOUND])
