"""Who acts. Every action takes an Actor; the engine is one too, so that no path is without a subject."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Literal

ActorKind = Literal["user", "service", "engine"]


@dataclass(frozen=True, slots=True)
class Actor:
    """A subject inside one tenant (A10.1).

    ``verbs`` holds the permissions of the credential (role of the membership, narrowed by a token's scope);
    ``label`` is what events and the audit record: ``user:ada``, ``service:ci``, ``engine``.
    """

    kind: ActorKind
    name: str
    tenant_id: uuid.UUID
    verbs: frozenset[str] = field(default_factory=frozenset)
    user_id: int | None = None
    token_id: uuid.UUID | None = None

    @property
    def label(self) -> str:
        return "engine" if self.kind == "engine" else f"{self.kind}:{self.name}"

    @property
    def is_engine(self) -> bool:
        return self.kind == "engine"


def engine(tenant_id: uuid.UUID) -> Actor:
    """Return the engine itself as an actor of ``tenant_id``; it passes every permission check and is never audited."""
    return Actor(kind="engine", name="engine", tenant_id=tenant_id)
