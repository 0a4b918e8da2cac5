"""Emergency stops: who may set and lift them, what is told of them, and to whom."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest

from runtime.actions.stops import lift_stop, set_stop
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, NotFound, PermissionDenied, StopStands
from runtime.queries.alerts import list_alerts
from runtime.queries.people import list_audit
from runtime.queries.stops import list_stops, read_stop
from tests.support.actors import member
from tests.support.race import together

pytestmark = [pytest.mark.req("A10.1", "A10.3"), pytest.mark.django_db(transaction=True)]


def operator(tenant) -> Actor:
    """Whoever runs the installation, as the command line lets them act."""
    return Actor("service", "cli", tenant.id, frozenset({"stop.read", "stop.set", "stop.lift", "stop.global"}))


def test_oncall_sets_and_lifts_a_stop(tenant):
    oncall = member(tenant, "oncall")
    made = set_stop(actor=oncall, scope="tool", name="shop.refund@1", reason="the shop books twice")
    shown = list_stops(actor=member(tenant, "viewer"))
    assert [(s["id"], s["standing"], s["set_by"], s["reason"]) for s in shown] == [
        (uuid.UUID(made["stop_id"]), True, oncall.label, "the shop books twice")
    ]
    lifted = lift_stop(actor=oncall, stop_id=uuid.UUID(made["stop_id"]), reason="mended")
    assert lifted["lifted"]
    again = lift_stop(actor=member(tenant, "admin"), stop_id=uuid.UUID(made["stop_id"]), reason="me too")
    assert again == lifted
    after = read_stop(actor=oncall, stop_id=uuid.UUID(made["stop_id"]))
    assert (after["standing"], after["lifted_by"], after["lift_reason"]) == (False, oncall.label, "mended")
    acts = [(e["verb"], e["result"], e["actor"]) for e in list_audit(actor=member(tenant, "admin")).items]
    assert acts == [("stop.lift", "lifted", oncall.label), ("stop.set", "stopped", oncall.label)]


def test_a_stop_ends_by_itself(tenant, clock):
    oncall = member(tenant, "oncall")
    set_stop(actor=oncall, scope="tenant", reason="maintenance", until=clock.now() + timedelta(minutes=5))
    assert [s["standing"] for s in list_stops(actor=oncall, standing=True)] == [True]
    clock.advance(301)
    assert list_stops(actor=oncall, standing=True) == []
    assert [s["standing"] for s in list_stops(actor=oncall)] == [False]


@pytest.mark.parametrize("role", ["viewer", "approver", "finance", "integrator", "verifier"])
def test_others_only_look(tenant, role):
    made = set_stop(actor=member(tenant, "admin"), scope="workflow", name="refund", reason="x")
    with pytest.raises(PermissionDenied):
        set_stop(actor=member(tenant, role), scope="tenant", reason="x")
    with pytest.raises(PermissionDenied):
        lift_stop(actor=member(tenant, role), stop_id=uuid.UUID(made["stop_id"]))
    assert len(list_stops(actor=member(tenant, role))) == 1


@pytest.mark.parametrize(
    ("words", "where"),
    [
        ({"scope": "everything"}, "/scope"),
        ({"scope": "tenant", "name": "acme"}, "/name"),
        ({"scope": "tool"}, "/name"),
        ({"scope": "tool", "name": "Shop Refund"}, "/name"),
        ({"scope": "workflow", "name": "a\x00b"}, "/name"),
        ({"scope": "tenant", "reason": "  "}, "/reason"),
    ],
)
def test_what_is_no_stop(tenant, words, where):
    with pytest.raises(BadInput) as refused:
        set_stop(actor=member(tenant, "admin"), **{"reason": "because", **words})
    assert refused.value.where == where


def test_an_end_in_the_past_is_refused(tenant, clock):
    with pytest.raises(BadInput):
        set_stop(actor=member(tenant, "admin"), scope="tenant", reason="x", until=clock.now() - timedelta(seconds=1))


@pytest.mark.req("A1.4", "C8.6")
def test_stops_of_another_tenant_are_not_there(tenant, other_tenant):
    made = set_stop(actor=member(other_tenant, "admin"), scope="tenant", reason="secret")
    assert list_stops(actor=member(tenant, "admin")) == []
    with pytest.raises(NotFound):
        lift_stop(actor=member(tenant, "admin"), stop_id=uuid.UUID(made["stop_id"]))


@pytest.mark.req("A1.4", "C8.6")
@pytest.mark.usefixtures("fresh_db")  # it is listed to everybody
def test_a_global_stop_is_the_operators(tenant, other_tenant):
    # Several tenants are there and none is the operator's: no admin of one stops the others.
    with pytest.raises(PermissionDenied):
        set_stop(actor=member(tenant, "admin"), scope="global", reason="mine")
    made = set_stop(actor=operator(tenant), scope="global", reason="the network burns")
    try:
        ours = list_stops(actor=member(tenant, "viewer"), standing=True)
        assert [(s["reason"], s["set_by"]) for s in ours] == [("the network burns", "service:cli")]
        theirs = list_stops(actor=member(other_tenant, "viewer"), standing=True)
        assert [(s["scope"], s["reason"], s["set_by"]) for s in theirs] == [
            ("global", "", "the installation's operators")
        ]
        with pytest.raises(PermissionDenied):
            lift_stop(actor=member(other_tenant, "admin"), stop_id=uuid.UUID(made["stop_id"]))
    finally:
        lift_stop(actor=operator(tenant), stop_id=uuid.UUID(made["stop_id"]))


def test_no_tenant_gives_the_right_to_stop_everybody():
    from runtime.access.roles import ROLES, effective

    assert not any("stop.global" in effective(role, ["stop.global"]) for role in ROLES)


@pytest.mark.req("A9.9")
def test_alerts_begin_empty(tenant):
    assert list_alerts(actor=member(tenant, "viewer"), count=True).as_json() == {
        "items": [],
        "next": None,
        "count": 0,
        "count_is": "exact",
    }


def test_the_same_order_again_is_the_same_stop(tenant, clock):
    oncall = member(tenant, "oncall")
    words = {"scope": "tool", "name": "shop.refund", "reason": "the shop books twice"}
    made = set_stop(actor=oncall, **words)
    again = set_stop(actor=oncall, **words)
    assert (again["stop_id"], again["replayed"], made["replayed"]) == (made["stop_id"], True, False)
    timed = {"scope": "tenant", "reason": "maintenance"}
    first = set_stop(actor=oncall, **timed, until=clock.now() + timedelta(minutes=15))
    clock.advance(3)
    # A second click counts its quarter of an hour from its own moment.
    second = set_stop(actor=oncall, **timed, until=clock.now() + timedelta(minutes=15))
    assert (second["stop_id"], second["until"], second["replayed"]) == (first["stop_id"], first["until"], True)
    assert len(list_stops(actor=oncall, standing=True)) == 2
    assert len(list_audit(actor=member(tenant, "admin"), verb="stop.set").items) == 2


def test_another_order_for_what_is_stopped_names_the_stop_that_stands(tenant, clock):
    oncall, admin = member(tenant, "oncall"), member(tenant, "admin")
    made = set_stop(actor=oncall, scope="tool", name="shop.refund", reason="the shop books twice")
    others = [
        {"actor": admin, "reason": "the shop books twice"},
        {"actor": oncall, "reason": "another"},
        {"actor": oncall, "reason": "the shop books twice", "until": clock.now() + timedelta(hours=1)},
    ]
    for words in others:
        with pytest.raises(StopStands) as refused:
            set_stop(scope="tool", name="shop.refund", **words)
        there = refused.value.extra["standing"]
        assert (there["stop_id"], there["name"], there["until"]) == (made["stop_id"], "shop.refund", None)
        assert there["address"] == f"/api/v1/stops/{made['stop_id']}/"
        assert oncall.label in refused.value.detail
    # One version of it, a workflow or everything is another subject.
    set_stop(actor=admin, scope="tool", name="shop.refund@1", reason="x")
    set_stop(actor=admin, scope="workflow", name="shop.refund", reason="x")
    assert len(list_stops(actor=oncall, standing=True)) == 3
    # What is over or lifted stands in nobody's way.
    lift_stop(actor=admin, stop_id=uuid.UUID(made["stop_id"]))
    set_stop(actor=admin, scope="tool", name="shop.refund", reason="y", until=clock.now() + timedelta(seconds=30))
    clock.advance(31)
    set_stop(actor=admin, scope="tool", name="shop.refund", reason="z")


def test_a_stop_takes_the_place_of_the_one_it_names(tenant, clock):
    oncall = member(tenant, "oncall")
    words = {"actor": oncall, "scope": "tool", "name": "shop.refund"}
    brief = set_stop(**words, reason="look at it", until=clock.now() + timedelta(minutes=15))
    with pytest.raises(StopStands):
        set_stop(**words, reason="it books twice", replaces=uuid.uuid4())
    longer = set_stop(**words, reason="it books twice", replaces=uuid.UUID(brief["stop_id"]))
    (stands,) = list_stops(actor=oncall, standing=True)
    assert (str(stands["id"]), stands["until"], stands["reason"]) == (longer["stop_id"], None, "it books twice")
    assert read_stop(actor=oncall, stop_id=uuid.UUID(brief["stop_id"]))["lift_reason"] == "it books twice"
    again = set_stop(**words, reason="it books twice", replaces=uuid.UUID(brief["stop_id"]))
    assert (again["stop_id"], again["replayed"]) == (longer["stop_id"], True)


def test_of_many_orders_at_once_one_stop_is_made(tenant):
    oncall = member(tenant, "oncall")

    def order() -> str:
        return set_stop(actor=oncall, scope="tenant", reason="fire")["stop_id"]

    assert len(set(together(*[order] * 6))) == 1
    assert len(list_stops(actor=oncall, standing=True)) == 1


def test_lifting_says_what_still_holds_it_back(tenant):
    admin = member(tenant, "admin")
    made = {
        name or scope: set_stop(actor=admin, scope=scope, name=name, reason=f"{scope} {name}")["stop_id"]
        for scope, name in (
            ("tool", "shop.refund"), ("tool", "shop.refund@2"), ("tool", "shop.pay"), ("workflow", "refund"),
            ("tenant", ""),
        )
    }  # fmt: skip

    def still(name: str) -> set[str]:
        answer = lift_stop(actor=admin, stop_id=uuid.UUID(made[name]))
        return {one["name"] or one["scope"] for one in answer["still"]}

    assert still("shop.refund") == {"shop.refund@2", "tenant"}
    assert still("tenant") == {"shop.refund@2", "shop.pay", "refund"}
    assert still("refund") == set()
    assert still("shop.refund@2") == set()
