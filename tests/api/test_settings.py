"""A tenant's settings by the command line: named, checked, audited, and heeded by what follows."""

from __future__ import annotations

from typing import Any

import pytest

from repair.policy import policy_of
from runtime.actions.settings import set_setting
from runtime.kernel.classes import CLASSES
from runtime.kernel.errors import BadInput, PermissionDenied
from runtime.machine.second import why_second
from runtime.models import AuditEntry, Tenant
from runtime.queries.settings import list_settings
from runtime.store.tx import tenant_tx
from tests.api.test_commands import run
from tests.support.actors import member

pytestmark = [pytest.mark.req("C6.1", "A10.3"), pytest.mark.django_db(transaction=True)]


def stored(tenant: Any) -> Any:
    with tenant_tx(tenant.id):
        return Tenant.objects.values_list("settings", flat=True).get(id=tenant.id)


def audited(tenant: Any) -> list[tuple[str, str, str]]:
    with tenant_tx(tenant.id):
        rows = AuditEntry.objects.filter(verb="tenant.set").order_by("number")
        return list(rows.values_list("actor", "result", "reason"))


def test_every_setting_is_listed_with_what_counts_and_what_it_takes(tenant):
    rows = {row["key"]: row for row in run("tenant", "settings", "--tenant", tenant.slug)}
    assert sorted(rows) == [
        "approvals.default",
        *sorted(f"classes.{name}.{part}" for name in CLASSES for part in ("start_s", "end_s")),
        "force.second_person",
        *(f"repair.due_hours.{risk}" for risk in ("high", "low", "medium")),
        "repair.second_person",
    ]
    assert {key: row["value"] for key, row in rows.items()} == {key: row["default"] for key, row in rows.items()}
    assert not any(row["set"] for row in rows.values())
    assert rows["force.second_person"]["takes"] == "never, effects, always"
    assert rows["classes.batch.end_s"]["takes"] == "a number above 0 and below 31,536,000"
    numbers = [row["default"] for row in rows.values() if not isinstance(row["default"], str)]
    assert [str(one) for one in numbers] == [f"{one:g}" for one in numbers], "4, not 4.0"


def test_what_is_set_is_heeded_and_audited_until_it_is_taken_back(tenant):
    slug = ("--tenant", tenant.slug)
    answer = run("tenant", "set", "repair.second_person", "always", "--reason", "auditors ask", *slug)[0]
    assert (answer["before"], answer["value"], answer["set"]) == ("by_risk", "always", True)
    run("tenant", "set", "force.second_person", "effects", *slug)
    run("tenant", "set", "repair.due_hours.high", "0.5", *slug)
    assert stored(tenant) == {
        "repair": {"second_person": "always", "due_hours": {"high": 0.5}},
        "force": {"second_person": "effects"},
    }
    with tenant_tx(tenant.id):
        policy = policy_of(tenant.id)
    assert (policy.always_second, policy.due_hours) == (True, {"high": 0.5, "medium": 4.0, "low": 24.0})
    assert why_second(stored(tenant), 1)
    for key in ("repair.second_person", "force.second_person", "repair.due_hours.high"):
        assert run("tenant", "unset", key, *slug)[0]["set"] is False
    assert stored(tenant) == {}
    acts = audited(tenant)
    assert acts[0] == ("service:cli", "set", "auditors ask")
    assert [result for _actor, result, _reason in acts] == ["set"] * 3 + ["unset"] * 3
    assert run("audit", "verify", *slug)[0]["ok"] is True


@pytest.mark.parametrize(
    ("key", "value", "where", "mend"),
    [
        ("repair.second", "always", "/key", "repair.second_person"),
        ("repair", "always", "/key", "force.second_person"),
        ("repair.second_person", "sometimes", "/value", "by_risk, always"),
        ("repair.due_hours.low", "-1", "/value", "above 0"),
        ("repair.due_hours.low", "nan", "/value", "above 0"),
        ("repair.due_hours.low", "10000", "/value", "below 10,000"),
    ],
)
def test_a_setting_that_is_not_there_or_makes_no_sense_changes_nothing(tenant, key, value, where, mend):
    arguments = ("tenant", "set", key, value, "--tenant", tenant.slug)
    problem = run(*arguments, fails=True)[0]
    assert (problem["code"], problem["where"]) == ("bad_input", where)
    assert mend in problem["remediation"]
    assert stored(tenant) == {}
    assert audited(tenant) == []


def test_a_setting_is_an_admins(tenant, other_tenant):
    for role in ("oncall", "approver", "finance"):
        with pytest.raises(PermissionDenied):
            set_setting(actor=member(tenant, role), key="force.second_person", value="always")
    set_setting(actor=member(tenant, "admin"), key="force.second_person", value="always")
    values = {row["key"]: row["value"] for row in list_settings(actor=member(tenant, "viewer"))}
    assert values["force.second_person"] == "always"
    assert stored(other_tenant) == {}


def test_what_makes_no_sense_in_the_row_counts_as_the_default_and_is_replaced(tenant):
    with tenant_tx(tenant.id, using="owner"):
        Tenant.objects.using("owner").filter(id=tenant.id).update(settings={"repair": "always", "other": 1})
    rows = {row["key"]: row for row in list_settings(actor=member(tenant, "admin"))}
    assert rows["repair.second_person"]["value"] == "by_risk"
    set_setting(actor=member(tenant, "admin"), key="repair.second_person", value="always")
    assert stored(tenant) == {"repair": {"second_person": "always"}, "other": 1}
    with pytest.raises(BadInput):
        set_setting(actor=member(tenant, "admin"), key="other", value="2")
