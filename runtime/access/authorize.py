"""The one permission question. It fails closed: no actor, no verb, no object of this tenant — no permission."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from runtime.access import verbs as v
from runtime.kernel import seams
from runtime.kernel.actor import Actor
from runtime.kernel.conf import conf
from runtime.kernel.errors import ConfigurationError, PermissionDenied
from runtime.store import directory
from runtime.store.tx import tenant_tx

if TYPE_CHECKING:
    from guardian.core import ObjectPermissionChecker

    from runtime.models import Workflow

# What an object permission on one workflow (django-guardian) adds to the role, for that workflow only.
WIDENED: dict[str, frozenset[str]] = {
    "submit_workflow": frozenset({v.TASK_SUBMIT, v.RUN_CREATE}),
    "operate_workflow": frozenset(
        {
            v.RUN_CANCEL,
            v.RUN_PAUSE,
            v.RUN_RESUME,
            v.RUN_CREATE,
            v.STEP_RERUN,
            v.STEP_SKIP,
            v.STEP_UNSKIP,
            v.STEP_HOLD,
            v.STEP_RELEASE,
            v.STEP_KILL,
        }
    ),
}


def authorize(actor: Actor | None, verb: str, obj: Workflow | uuid.UUID | None = None) -> None:
    """Return when ``actor`` may do ``verb``; raise PermissionDenied otherwise.

    ``obj`` is the Workflow concerned (or its id): object permissions on it widen the role. Raises ConfigurationError
    for a verb nobody declared, a mistake of the code that must not look like a refusal.
    """
    if verb not in seams.known_verbs():
        raise ConfigurationError(f"The verb {verb!r} was never declared.")
    if not may(actor, verb, obj):
        who = actor.label if isinstance(actor, Actor) else "Nobody"
        raise PermissionDenied(
            f"{who} may not {verb}: {seams.known_verbs()[verb]}",
            remediation=f"Ask an admin of the tenant for a role that carries `{verb}`.",
            verb=verb,
        )


def may(actor: Actor | None, verb: str, obj: Workflow | uuid.UUID | None = None) -> bool:
    """Return whether ``actor`` may do ``verb``, without raising; for showing or hiding a button, never for a change."""
    if not isinstance(actor, Actor):
        return False
    if actor.is_engine or verb in actor.verbs:
        return not _foreign(actor, obj)
    return obj is not None and not _foreign(actor, obj) and _widened(actor, verb, obj)


def operates(actor: Actor) -> bool:
    """Say whether the actor runs the installation: holds ``stop.global``, or is an admin of the operator's tenant.

    That is the tenant named by QUARTERDECK_OPERATOR_TENANT; without one, the only tenant there is.
    """
    if may(actor, v.STOP_GLOBAL):
        return True
    if not may(actor, v.MEMBER_MANAGE):
        return False
    tenants = [one for one in directory.all_tenants() if not one.suspended]
    named = conf().operator_tenant
    mine = [one for one in tenants if one.id == actor.tenant_id]
    return bool(mine) and (mine[0].slug == named if named else len(tenants) == 1)


def may_which(actor: Actor, verbs: Iterable[str], obj: Workflow | uuid.UUID) -> frozenset[str]:
    """Return which of ``verbs`` the actor may do on ``obj``: as :func:`may` for each, with one look at the grants."""
    wanted = frozenset(verbs)
    allowed = frozenset(verb for verb in wanted if may(actor, verb))
    if _foreign(actor, obj):
        return frozenset()
    left = wanted - allowed
    permissions = [name for name, covered in WIDENED.items() if left & covered]
    checker = _checker(actor) if permissions else None
    if checker is None:
        return allowed
    granted = checker.get_perms(_workflow(actor, obj))
    widened = left & frozenset().union(*(WIDENED[name] for name in permissions if name in granted))
    return allowed | _in_scope(actor, widened)


def may_each(actor: Actor, verb: str, workflows: Iterable[uuid.UUID]) -> frozenset[uuid.UUID]:
    """Return on which of these workflows of their tenant the actor may do ``verb``: few queries for all of them."""
    wanted = frozenset(workflows)
    if may(actor, verb):
        return wanted
    permissions = [name for name, covered in WIDENED.items() if verb in covered]
    checker = _checker(actor) if permissions and wanted and _in_scope(actor, {verb}) else None
    if checker is None:
        return frozenset()
    from runtime.models import Workflow

    targets = [Workflow(id=one, tenant_id=actor.tenant_id) for one in wanted]
    checker.prefetch_perms(targets)  # type: ignore[arg-type]  # a list will do
    return frozenset(one.id for one in targets if any(checker.has_perm(name, one) for name in permissions))


def _foreign(actor: Actor, obj: Workflow | uuid.UUID | None) -> bool:
    owner = getattr(obj, "tenant_id", None)
    return owner is not None and owner != actor.tenant_id


def _widened(actor: Actor, verb: str, obj: Workflow | uuid.UUID) -> bool:
    permissions = [name for name, covered in WIDENED.items() if verb in covered]
    checker = _checker(actor) if permissions and _in_scope(actor, {verb}) else None
    if checker is None:
        return False
    return not set(permissions).isdisjoint(checker.get_perms(_workflow(actor, obj)))


def _workflow(actor: Actor, obj: Workflow | uuid.UUID) -> Workflow:
    from runtime.models import Workflow

    return obj if isinstance(obj, Workflow) else Workflow(id=obj, tenant_id=actor.tenant_id)


def _checker(actor: Actor) -> ObjectPermissionChecker | None:
    """Return who answers what was granted to the actor on single objects; None where nothing can widen the role."""
    from django.contrib.auth import get_user_model
    from guardian.core import ObjectPermissionChecker

    if actor.user_id is None:
        return None
    user = get_user_model().objects.filter(pk=actor.user_id, is_active=True).first()
    if user is None:
        return None
    # A superuser of Django is nobody special here: only granted permissions count.
    user.is_superuser = False
    return ObjectPermissionChecker(user)


def _in_scope(actor: Actor, verbs: Collection[str]) -> frozenset[str]:
    """A narrowed token is not widened beyond its scope by what its owner may do on one workflow."""
    if actor.token_id is None or not verbs:
        return frozenset(verbs)
    with tenant_tx(actor.tenant_id) as tx:
        scope = directory.token_scope(tx, actor.token_id)
    return frozenset(verbs) if scope is None else frozenset(verbs) & frozenset(scope)
