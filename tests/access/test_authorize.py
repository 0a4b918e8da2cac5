"""authorize() fails closed; roles, object permissions and tokens carry what they say and no more."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.contrib.auth.models import AnonymousUser
from guardian.shortcuts import assign_perm

from runtime.access import authorize, identity, may
from runtime.access.authorize import may_which
from runtime.access.roles import ROLES, verbs_of_role
from runtime.kernel import seams
from runtime.kernel.actor import Actor, engine
from runtime.kernel.errors import BadInput, ConfigurationError, NotAuthenticated, PermissionDenied
from runtime.models import ApiToken, Workflow
from runtime.store.tx import tenant_tx
from tests.support.actors import member, outsider
from tests.support.factories import make_member, make_tenant, make_user

pytestmark = [pytest.mark.req("A10.1"), pytest.mark.django_db(transaction=True)]


def token_of(actor: Actor, verbs: list[str] | None = None, days: float = 1) -> identity.IssuedToken:
    with tenant_tx(actor.tenant_id) as tx:
        return identity.insert_token(tx, user_id=actor.user_id, name="t", verbs=verbs, days=days, now=tx.now())


@pytest.fixture
def workflow(tenant):
    with tenant_tx(tenant.id):
        return Workflow.objects.create(tenant=tenant, name="w")


def test_no_actor_is_a_refusal():
    with pytest.raises(PermissionDenied):
        authorize(None, "run.read")


def test_who_has_left_acts_in_no_tenant_whatever_others_are_called(tenant):
    """What a person ordered is carried out as long as they are a member; no other membership stands in for it."""
    namesake = make_tenant(str(tenant.id))
    person = make_member(namesake, "admin")
    with pytest.raises(PermissionDenied):
        identity.actor_in_tenant(tenant.id, person.pk)
    assert identity.actor_in_tenant(namesake.id, person.pk).tenant_id == namesake.id


def test_a_verb_nobody_declared_is_a_mistake_of_the_code():
    with pytest.raises(ConfigurationError):
        authorize(engine(uuid.uuid4()), "run.explode")


def test_a_refusal_names_the_verb_and_the_mend(db, tenant):
    with pytest.raises(PermissionDenied) as refusal:
        authorize(outsider(tenant), "step.force")
    assert refusal.value.extra["verb"] == "step.force"
    assert "`step.force`" in refusal.value.remediation


def test_the_engine_passes(db, tenant):
    authorize(engine(tenant.id), "step.force")


@pytest.mark.parametrize(
    ("role", "can", "cannot"),
    [
        ("viewer", {"run.read", "task.read"}, {"payload.read", "run.cancel", "task.submit", "audit.read"}),
        ("approver", {"run.read", "payload.read"}, {"run.cancel", "step.force", "task.submit"}),
        ("oncall", {"run.cancel", "step.rerun", "step.skip", "payload.read"}, {"step.force", "member.manage"}),
        ("finance", {"audit.read"}, {"payload.read", "run.cancel", "task.submit"}),
        (
            "integrator",
            {"task.submit", "workflow.register"},
            {"step.force", "step.skip", "audit.read", "tool.register"},
        ),
        ("admin", {"step.force", "member.manage", "audit.read", "run.cancel"}, {"outcome.record"}),
        ("verifier", {"outcome.record", "payload.read"}, {"run.cancel", "task.submit"}),
    ],
)
def test_roles(role, can, cannot):
    verbs = verbs_of_role(role)
    assert can <= verbs
    assert not cannot & verbs
    assert role in ROLES


def test_an_unknown_role_carries_nothing():
    with pytest.raises(BadInput):
        verbs_of_role("emperor")


def test_an_object_permission_widens_for_one_workflow(db, tenant, workflow):
    actor = member(tenant, "viewer")
    with tenant_tx(tenant.id):
        other = Workflow.objects.create(tenant=tenant, name="other")
    assert not may(actor, "run.cancel", workflow)
    assign_perm("runtime.operate_workflow", _user(actor), workflow)
    assert may(actor, "run.cancel", workflow)
    assert may(actor, "run.cancel", workflow.id)
    assert not may(actor, "run.cancel", other)
    assert not may(actor, "run.cancel")
    assert not may(actor, "step.force", workflow)
    assert not may(actor, "task.submit", workflow)


def test_an_object_permission_does_not_widen_a_narrowed_token(db, tenant, workflow):
    owner = member(tenant, "viewer")
    assign_perm("runtime.operate_workflow", _user(owner), workflow)
    assert may(identity.actor_for_token(token_of(owner).raw), "run.cancel", workflow)
    assert not may(identity.actor_for_token(token_of(owner, ["run.read"]).raw), "run.cancel", workflow)
    assert may(identity.actor_for_token(token_of(owner, ["run.cancel"]).raw), "run.cancel", workflow)


# What a description's words promise; the longest that is there counts.
PROMISES = {
    "recording outcomes": "outcome.record", "records outcomes": "outcome.record",
    "stopping the whole installation": "stop.global", "registers workflows": "workflow.register",
    "tools": "tool.register", "submits tasks": "task.submit", "asks for approvals": "approval.ask",
    "decides approvals": "approval.decide", "operates runs": "run.cancel", "steps": "step.rerun",
    "repairs": "repair.work", "audit log": "audit.read", "members": "member.read", "answers inputs": "approval.answer",
    "looks at runs": "run.read", "without reading their contents": "payload.read", "reads what": "payload.read",
}  # fmt: skip


@pytest.mark.parametrize("role", ROLES)
def test_a_roles_description_names_no_verb_that_it_lacks(role):
    text, verbs = ROLES[role].lower(), verbs_of_role(role)
    named = {verb for words, verb in PROMISES.items() if words in text}
    assert named, "say what the role does in words that this test knows"
    lacking = {"payload.read"} if role == "viewer" else seams.known_verbs().keys() - verbs if role == "admin" else set()
    assert named - verbs == lacking
    for word in ("cost", "budget", "schedule", "trigger"):
        assert word not in text, "that is not there yet"


VERBS = frozenset().union(*map(verbs_of_role, ROLES))


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("granted", [[], ["operate_workflow"], ["operate_workflow", "submit_workflow"]])
def test_all_verbs_are_answered_at_once_as_one_by_one(
    db, tenant, workflow, role, granted, django_assert_max_num_queries
):
    actor = member(tenant, role)
    for name in granted:
        assign_perm(f"runtime.{name}", _user(actor), workflow)
    narrowed = identity.actor_for_token(token_of(actor, ["run.read", "run.cancel"]).raw)
    for who in (actor, narrowed):
        one_by_one = {verb for verb in VERBS if may(who, verb, workflow)}
        with django_assert_max_num_queries(5):
            assert may_which(who, VERBS, workflow.id) == one_by_one


def test_nothing_of_another_tenants_workflow_is_allowed(db, other_tenant, workflow):
    assert may_which(member(other_tenant, "admin"), VERBS, workflow) == frozenset()


def test_a_workflow_of_another_tenant_is_refused_whatever_the_role(db, tenant, other_tenant, workflow):
    admin = member(other_tenant, "admin")
    with pytest.raises(PermissionDenied):
        authorize(admin, "run.cancel", workflow)


def test_django_superusers_are_nobody_special(db, tenant, workflow):
    user = make_user()
    type(user).objects.filter(pk=user.pk).update(is_superuser=True)
    make_member(tenant, "viewer", user)
    assert not may(identity.actor_for_user(user), "run.cancel", workflow)


def test_the_actor_of_a_user(db, tenant, other_tenant):
    user = make_member(tenant, "oncall")
    actor = identity.actor_for_user(user)
    assert (actor.label, actor.tenant_id) == (f"user:{user.username}", tenant.id)
    assert actor.verbs == verbs_of_role("oncall")
    with pytest.raises(PermissionDenied):
        identity.actor_for_user(user, other_tenant.slug)
    make_member(other_tenant, "viewer", user)
    with pytest.raises(BadInput, match="several tenants"):
        identity.actor_for_user(user)
    assert identity.actor_for_user(user, other_tenant.slug).verbs == verbs_of_role("viewer")


def test_no_actor_for_visitors_and_inactive_users(db, tenant):
    with pytest.raises(NotAuthenticated):
        identity.actor_for_user(AnonymousUser())
    user = make_member(tenant, "admin")
    user.is_active = False
    with pytest.raises(NotAuthenticated):
        identity.actor_for_user(user)


def test_a_token_acts_as_its_owner_and_is_stored_hashed(db, tenant):
    owner = member(tenant, "oncall")
    token = token_of(owner)
    actor = identity.actor_for_token(token.raw)
    assert (actor.label, actor.tenant_id, actor.verbs) == (owner.label, tenant.id, owner.verbs)
    with tenant_tx(tenant.id):
        row = ApiToken.objects.get(id=token.id)
    assert token.raw.startswith("qd_")
    assert bytes(row.token_sha256) == identity.token_digest(token.raw)
    assert token.raw[3:] not in repr(row.__dict__)
    assert row.last_used_at is not None


def test_a_scope_narrows_and_never_widens(db, tenant):
    actor = identity.actor_for_token(token_of(member(tenant, "viewer"), ["run.read", "run.cancel"]).raw)
    assert actor.verbs == {"run.read"}


def test_a_token_expires_by_the_clock_of_the_database(db, tenant, clock):
    token = token_of(member(tenant, "viewer"), days=1)
    clock.advance(timedelta(hours=23, minutes=59))
    identity.actor_for_token(token.raw)
    clock.advance(timedelta(minutes=2))
    with pytest.raises(NotAuthenticated, match="expired"):
        identity.actor_for_token(token.raw)


def test_a_token_ends_with_the_membership_the_user_and_the_tenant(db, tenant):
    from runtime.models import Membership, Tenant

    owner = member(tenant, "viewer")
    token = token_of(owner)
    with tenant_tx(tenant.id) as tx:
        Membership.objects.filter(user_id=owner.user_id).update(ended_at=tx.now())
    with pytest.raises(NotAuthenticated):
        identity.actor_for_token(token.raw)
    other = token_of(second := member(tenant, "viewer"))
    type(_user(second)).objects.filter(pk=second.user_id).update(is_active=False)
    with pytest.raises(NotAuthenticated):
        identity.actor_for_token(other.raw)
    third = token_of(member(tenant, "viewer"))
    identity.actor_for_token(third.raw)
    with tenant_tx(tenant.id, using="owner") as tx:
        Tenant.objects.using("owner").filter(id=tenant.id).update(suspended_at=tx.now())
    with pytest.raises(NotAuthenticated):
        identity.actor_for_token(third.raw)


@pytest.mark.parametrize("raw", ["", "qd_", "qd_wrong", "Bearer", "qd_" + "x" * 500, "qd_\udc80"])
def test_what_is_no_token_is_refused(db, raw):
    with pytest.raises(NotAuthenticated):
        identity.actor_for_token(raw)


def _user(actor: Actor):
    from django.contrib.auth.models import User

    return User.objects.get(pk=actor.user_id)
