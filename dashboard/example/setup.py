"""Making the example: tenant, people, tools for where the shop listens, workflows. Run again it changes nothing."""

from __future__ import annotations

import json
import secrets
import socket
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from dashboard.example.samples import shop_samples
from dashboard.example.tools import contracts
from dashboard.example.workflows import VERIFIER, workflows
from runtime.access.roles import verbs_of_role
from runtime.actions.tenants import add_member, create_tenant
from runtime.actions.workflows import authorise_verifier, register_workflow
from runtime.kernel.actor import Actor
from runtime.kernel.canonical import canonical_bytes, digest
from runtime.kernel.errors import Conflict, NotFound
from runtime.management.example import keep_builtin_samples, register_builtin_tools
from runtime.store import directory
from runtime.tools.registry import register_tool
from runtime.tools.samples import add_samples

SLUG = "acme"
PEOPLE = ("approver", "oncall", "admin", "finance", "integrator")
_MOST_VERSIONS = 1000


@dataclass(frozen=True, slots=True)
class Place:
    """Where the shop lives: its port, and the version its tools are registered in."""

    port: int
    version: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@dataclass(frozen=True, slots=True)
class Made:
    """Where the shop lives, and the passwords of the people that were made just now: name → password."""

    place: Place
    sign_ins: dict[str, str]


def folder() -> Path:
    """Return the folder of the example's files, made if it is not there."""
    path = Path(settings.QUARTERDECK_DATA) / "example"
    path.mkdir(parents=True, exist_ok=True)
    return path


def books() -> Path:
    """Return the shop's books."""
    return folder() / "shop.jsonl"


def shop_command(place: Place) -> list[str]:
    """Return the command that starts the shop."""
    return [sys.executable, "-m", "dashboard.example.shop", "--port", str(place.port), "--books", str(books())]


def ensure(running: Place | None = None) -> Made:
    """Make what is missing of the example; ``running`` is a shop that listens already.

    Passwords are stored hashed: what is made here is known to whoever called, once, and to nobody after.
    """
    tenants = directory.all_tenants(using="owner")
    if not any(one.slug == SLUG for one in tenants):
        create_tenant(slug=SLUG, name="Acme")
        tenants = directory.all_tenants(using="owner")
    tenant = next(one for one in tenants if one.slug == SLUG)
    actor = Actor(kind="service", name="set-up", tenant_id=tenant.id, verbs=verbs_of_role("admin"))
    people = {name: password for name in PEOPLE if (password := _ensure_person(actor, name))}
    # Earlier releases kept the passwords as text.
    (Path(settings.QUARTERDECK_DATA) / "example_sign_ins").unlink(missing_ok=True)
    return Made(_ensure_definitions(actor, running), people)


def new_passwords() -> dict[str, str]:
    """Give the people that the example made new passwords; return who has which. Sign-ins that were open end.

    Somebody who merely has the name of one of them keeps theirs. Raises NotFound when the example was never made here.
    """
    from django.contrib.auth import get_user_model

    users = get_user_model().objects.using("owner").filter(username__in=PEOPLE, email__in=map(_address, PEOPLE))
    made = {}
    for user in users.order_by("username"):
        made[user.username] = secrets.token_urlsafe(12)
        user.set_password(made[user.username])
        user.save(using="owner", update_fields=["password"])
    if not made:
        raise NotFound("There is no example here.", remediation="Run `manage.py example ensure`, or `manage.py up`.")
    return made


def _address(name: str) -> str:
    return f"{name}@{SLUG}.example"


def _ensure_definitions(actor: Actor, running: Place | None) -> Place:
    wanted = running or _free_place()
    if _definitions_are_known(actor.tenant_id, wanted):
        return wanted
    register_builtin_tools(actor)
    keep_builtin_samples(actor)
    place = _register_tools(actor, wanted)
    authorise_verifier(
        actor=actor, name=VERIFIER, version=1, description="The refund stands in the shop's books with its amount."
    )
    for document in workflows(place.version):
        register_workflow(actor=actor, raw=json.dumps(document))
    (folder() / "shop.json").write_text(json.dumps({"port": place.port, "version": place.version}))
    (folder() / "definitions").write_text(_definitions(actor.tenant_id, place))
    return place


def _definitions(tenant_id: uuid.UUID, place: Place) -> str:
    """Return what tells whether the tenant's tools and workflows are those of this code."""
    tools = contracts(place.port, place.version)
    value = [str(tenant_id), tools, [shop_samples(one) for one in tools], workflows(place.version)]
    return digest(canonical_bytes(value)).hex()


def _definitions_are_known(tenant_id: uuid.UUID, place: Place) -> bool:
    """A warm start registers nothing: it compares one hash."""
    path = folder() / "definitions"
    return path.exists() and path.read_text() == _definitions(tenant_id, place)


def place() -> Place | None:
    """Return where the shop lives, None when the example was never made here."""
    try:
        return Place(**json.loads((folder() / "shop.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _free_place() -> Place:
    """Return the shop's place of the last start, or a new one when its port is somebody else's by now."""
    last = place()
    if last is not None and _is_free(last.port):
        return last
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return Place(probe.getsockname()[1], last.version + 1 if last is not None else 1)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _register_tools(actor: Actor, wanted: Place) -> Place:
    """Register the shop's tools with their samples.

    A version that holds another address (of another data folder), or another recording, is passed over.
    """
    for version in range(wanted.version, wanted.version + _MOST_VERSIONS):
        try:
            for contract in contracts(wanted.port, version):
                register_tool(actor=actor, contract=contract)
                samples = shop_samples(contract)
                add_samples(actor=actor, name=contract["name"], version=version, samples=samples)
        except Conflict:
            continue
        return Place(wanted.port, version)
    raise Conflict("The shop's tools have too many versions.", remediation="Run `manage.py example reset`.")


def _ensure_person(actor: Actor, name: str) -> str | None:
    """Create a user with a random password and the role of their name; None when they were there."""
    from django.contrib.auth import get_user_model

    users = get_user_model().objects.db_manager("owner")
    user, password = users.filter(username=name).first(), None
    if user is None:
        password = secrets.token_urlsafe(12)
        user = users.create_user(username=name, password=password, email=_address(name))
    if not any(one.tenant_id == actor.tenant_id for one in directory.memberships_of(user.pk, using="owner")):
        add_member(actor=actor, username=name, role=name)
    return password
