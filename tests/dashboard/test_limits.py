"""The page of what bounds the work: limits set, raised and lifted as they were shown; breakers opened and closed."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest

from runtime.actions.limits import set_limit
from runtime.models import AuditEntry, Breaker
from runtime.queries.limits import list_breakers, list_limits
from runtime.store.tx import tenant_tx
from tests.support.pages import Reader, Scene

pytestmark = [pytest.mark.req("C2.7", "B4.2"), pytest.mark.django_db(transaction=True)]
SET = {"scope": "tool", "name": "core.echo", "most": "4", "reason": "the shop is small", "version": "0"}


def standing(made: Scene) -> dict[str, Any]:
    (found,) = list_limits(actor=made.engine.actor)
    return found


def opened(made: Scene, state: str = "open") -> Breaker:
    with tenant_tx(made.tenant.id) as tx:
        at = tx.now()
        return Breaker.objects.create(
            tenant=made.tenant, tool="shop.pay@1", error_class="timeout", state=state, failures=7,
            last_failure_at=at, opened_at=at, open_until=at,
        )  # fmt: skip


def breakers(made: Scene) -> list[dict[str, Any]]:
    """Return those of the tool that :func:`opened` makes; the scene's own failures are counted too."""
    return [one for one in list_breakers(actor=made.engine.actor) if one["tool"] == "shop.pay@1"]


def breaker(made: Scene) -> dict[str, Any]:
    (found,) = breakers(made)
    return found


def test_a_limit_needs_no_reason_and_a_name_that_nobody_registered_is_told(made, admin: Reader):
    """As the command and the API have it: one rule for all three."""
    nobodys = {**SET, "name": "core.ehco", "reason": ""}
    page = admin.post("/limits/", nobodys, follow=True, status=200).content.decode()
    assert "Set, but nothing is registered as core.ehco: nothing that runs today is limited." in unescape(page)
    admin.post(f"/limits/{standing(made)['id']}/lift/", {"version": "1"})
    assert list_limits(actor=made.engine.actor) == []
    page = admin.post("/limits/", SET, follow=True, status=200).content.decode()
    assert "Set as version" in page


def test_a_limit_is_set_raised_and_lifted_with_reasons(made, admin: Reader):
    admin.post("/limits/", SET)
    page = admin.get("/limits/?scope=tool&name=core.echo")
    assert "the shop is small" in page
    assert 'name="most" value="4"' in page
    shown = re.search(r'<input type="hidden" name="version" value="(\d+)" id="id_version"', page)
    assert shown is not None
    assert shown.group(1) == "1"
    admin.post("/limits/", {**SET, "most": "40", "version": shown.group(1), "reason": "it grew"})
    assert (standing(made)["most"], standing(made)["version"]) == (40, 2)
    admin.post(f"/limits/{standing(made)['id']}/lift/", {"version": "2", "reason": "it is large now"})
    assert list_limits(actor=made.engine.actor) == []
    with tenant_tx(made.tenant.id):
        acts = list(AuditEntry.objects.filter(verb="limit.set").order_by("number").values_list("result", "reason"))
    assert acts == [("set", "the shop is small"), ("set", "it grew"), ("removed", "it is large now")]


def test_a_stale_form_changes_nothing_and_tells_what_stands(made, admin: Reader):
    admin.post("/limits/", SET)
    set_limit(actor=made.engine.actor, scope="tool", name="core.echo", most=9, reason="the shop has more hands")
    page = admin.post("/limits/", {**SET, "most": "5", "version": "1", "reason": "mine"}, 409).content.decode()
    assert "This moved while you read. Nothing was done." in page
    assert "9 at once" in page
    assert "the shop has more hands" in page
    assert "mine</textarea>" in page, "what was typed is kept"
    assert standing(made)["most"] == 9
    admin.post(f"/limits/{standing(made)['id']}/lift/", {"version": "1", "reason": "x"}, 409)
    assert standing(made)["most"] == 9
    # Sent once more, on top of what stands now.
    admin.post("/limits/", {**SET, "most": "5", "version": "2", "reason": "mine"})
    assert (standing(made)["most"], standing(made)["version"]) == (5, 3)


def test_a_new_limit_takes_no_other_away_unseen(made, admin: Reader):
    set_limit(actor=made.engine.actor, scope="tool", name="core.echo", most=9, reason="theirs")
    admin.post("/limits/", SET, 409)
    assert standing(made)["most"] == 9


def test_a_form_that_was_shown_a_limit_makes_none_when_it_is_gone(made, admin: Reader):
    page = admin.post("/limits/", {**SET, "version": "3"}, 409).content.decode()
    assert "The limit was taken away." in page
    assert list_limits(actor=made.engine.actor) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"most": ""},
        {"most": "0"},
        {"most": "many"},
        {"calls": "5"},
        {"name": ""},
        {"name": "no tool"},
        {"scope": "planet"},
        {"version": "x"},
    ],
    ids=str,
)
def test_what_bounds_nothing_is_refused_and_nothing_is_set(made, admin: Reader, wrong):
    admin.post("/limits/", {**SET, **wrong}, 400)
    assert list_limits(actor=made.engine.actor) == []


def test_a_breaker_shows_its_state_and_is_closed_and_opened_by_hand(made, admin: Reader, clock):
    one = opened(made)
    page = admin.get("/limits/")
    assert "shop.pay@1" in page
    assert "next probe" in page
    admin.post(f"/limits/breakers/{one.id}/close/", {"reason": "", "state": "open"}, 400)
    admin.post(f"/limits/breakers/{one.id}/close/", {"reason": "the network is back", "state": "open"})
    assert breakers(made) == []
    admin.post(
        f"/limits/breakers/{one.id}/open/", {"reason": "it answers rubbish", "state": "closed", "seconds": "900"}
    )
    found = breaker(made)
    assert found["state"] == "open"
    assert 890 < (found["open_until"] - clock.now()).total_seconds() <= 900
    with tenant_tx(made.tenant.id):
        acts = list(
            AuditEntry.objects.filter(subject_kind="breaker").order_by("number").values_list("result", flat=True)
        )
    assert acts == ["closed", "opened"]


def test_a_breaker_that_moved_is_left_as_it_is(made, admin: Reader):
    one = opened(made, "half_open")
    page = admin.post(f"/limits/breakers/{one.id}/close/", {"reason": "x", "state": "open"}, 409).content.decode()
    assert "being tried" in page
    assert breaker(made)["state"] == "half_open"


def test_who_may_not_only_looks(made, admin: Reader):
    admin.post("/limits/", SET)
    one, oncall = opened(made), Reader(made.tenant, "oncall")
    assert "Set it" not in oncall.get("/limits/")
    oncall.post("/limits/", {**SET, "most": "5", "version": "1"}, 403)
    oncall.post(f"/limits/{standing(made)['id']}/lift/", {"version": "1", "reason": "x"}, 403)
    oncall.post(f"/limits/breakers/{one.id}/close/", {"reason": "x", "state": "open"}, 403)
    assert (standing(made)["most"], breaker(made)["state"]) == (4, "open")


def test_what_waits_for_a_runs_own_bound_is_told(made, admin: Reader):
    engine = made.engine
    nodes = [{"id": f"n{i}", "kind": "tool", "tool": "core.echo@1", "input": {"a": 1}} for i in range(3)]
    spec = {"format": "quarterdeck/1", "name": "narrow", "max_parallel": 1, "nodes": nodes}
    run_id = engine.submit(spec, {})
    engine.claim()
    page = admin.get("/limits/")
    assert "Held back by bounds of their own" in page
    assert str(run_id) in page
