"""A person's own password. Another's is set by a command of the host, `manage.py changepassword NAME`."""

from __future__ import annotations

from typing import Any

from runtime.journal import audit
from runtime.kernel.actor import Actor
from runtime.kernel.errors import PermissionDenied
from runtime.store import directory
from runtime.store.tx import tenant_tx

VERB = "password.change"


def change_own_password(*, actor: Actor, user: Any, password: str) -> None:
    """Give ``user``, who acts, a new password, and tell the audit of each of their tenants; every other session ends.

    The caller has asked for the old one and judged the new one (AUTH_PASSWORD_VALIDATORS). A session is bound to the
    password that it was begun with; the caller keeps its own. Tokens are credentials of their own and stay. Raises
    PermissionDenied for anybody but the user in person.
    """
    if actor.kind != "user" or actor.user_id != user.pk or actor.token_id is not None:
        raise PermissionDenied("A password is changed by its owner, signed in.", verb=VERB)
    user.set_password(password)
    with tenant_tx(actor.tenant_id) as tx:
        user.save(using=tx.using, update_fields=["password"])
        _record(tx, actor, user)
    for one in directory.memberships_of(user.pk):
        if one.tenant_id != actor.tenant_id:
            with tenant_tx(one.tenant_id) as tx:
                _record(tx, Actor(actor.kind, actor.name, one.tenant_id, frozenset(), user_id=user.pk), user)


def record_refused_password(*, actor: Actor, username: str) -> None:
    """Tell the audit that a change of one's own password was refused: the old one was wrong, the new one weak."""
    with tenant_tx(actor.tenant_id) as tx:
        audit.record(
            tx, actor=actor, verb=VERB, subject_kind="user", subject_id=username, result="refused", details=None
        )


def _record(tx: Any, actor: Actor, user: Any) -> None:
    audit.record(
        tx, actor=actor, verb=VERB, subject_kind="user", subject_id=user.username, result="changed", details=None
    )
