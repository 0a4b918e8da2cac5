"""What the audit keeps of sign-ins that failed (A10.3): the tenants of the name that was tried are told."""

from __future__ import annotations

from runtime.journal import audit
from runtime.kernel.actor import Actor
from runtime.store import directory
from runtime.store.tx import tenant_tx


def record_refused_sign_in(*, user_id: int, username: str, address: str, locked: bool) -> None:
    """Append a refused sign-in of a user to the audit of each of their tenants.

    ``locked`` says that it was one too many and the name is locked for a while from this ``address``. Nobody is signed
    in, so the sign-in page itself is the subject that acts; no password and nothing of the request is kept.
    """
    for one in directory.memberships_of(user_id):
        actor = Actor(kind="service", name="sign-in", tenant_id=one.tenant_id, verbs=frozenset())
        with tenant_tx(one.tenant_id) as tx:
            audit.record(
                tx,
                actor=actor,
                verb="session.begin",
                subject_kind="user",
                subject_id=username,
                result="locked" if locked else "refused",
                details={"address": address},
            )
