"""Tenants, who belongs to them with which role, and the tokens they call the API with (A1.4, A10.1)."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from runtime.kernel.ids import uuid7


class Tenant(models.Model):
    """The wall between customers; every row below carries its id."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    slug = models.SlugField(max_length=63, unique=True)
    name = models.CharField(max_length=200)
    settings = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)
    suspended_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "qd_tenant"

    def __str__(self) -> str:
        return self.slug


class TenantOwned(models.Model):
    """A row of exactly one tenant; row-level security compares ``tenant_id`` with the transaction's setting."""

    # No foreign key in the database: it would cost a look-up per event, and the policy's WITH CHECK already
    # refuses every tenant_id but the transaction's own.
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="+", db_index=False, db_constraint=False)

    class Meta:
        abstract = True


class Membership(TenantOwned):
    """A user's role in a tenant; ``extra_verbs`` widen it for this one person."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="memberships")
    role = models.CharField(max_length=40)
    extra_verbs = models.JSONField(default=list)
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "qd_membership"
        constraints = [
            models.UniqueConstraint(fields=["tenant", "user"], condition=Q(ended_at=None), name="qd_membership_once")
        ]


class Preference(models.Model):
    """What a person chose for themselves, in whatever tenant: the language that mails to them are written in."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, primary_key=True, on_delete=models.CASCADE, related_name="preference"
    )
    language = models.CharField(max_length=20)
    set_at = models.DateTimeField()

    class Meta:
        db_table = "qd_preference"


class ApiToken(TenantOwned):
    """A scoped credential; only its SHA-256 is stored."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=100)
    token_sha256 = models.BinaryField(max_length=32, unique=True)
    verbs = models.JSONField(null=True, help_text="Narrows the role's verbs; null means all of them.")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "qd_api_token"
