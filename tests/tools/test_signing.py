"""A tool version whose contract asks for samples is not called before they are signed for that contract (C8.8)."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from runtime.actions.stops import lift_stop, set_stop
from runtime.kernel.errors import BadInput, NotFound, PermissionDenied
from runtime.models import ToolSample
from runtime.queries.samples import read_samples
from runtime.store.tx import tenant_tx
from runtime.tools.builtin_samples import builtin_samples
from runtime.tools.contract import check_contract
from runtime.tools.recordings import MOST_PLAYED_EACH
from runtime.tools.registry import register_tool, tool_of
from runtime.tools.samples import SampleExists, SamplesUnfit, add_samples, check_samples, sign_samples
from runtime.worker.asking import query_operation
from runtime.worker.maintenance.stops import Releaser
from runtime.worker.maintenance.timers import fire_timers
from runtime.worker.work import REST_SECONDS
from tests.support.office import Office, writing
from tests.support.specs import workflow

pytestmark = [pytest.mark.req("C8.8"), pytest.mark.django_db(transaction=True)]
NAME = "office.recorded"


@pytest.fixture
def office(fresh_db, tenant) -> Office:
    """An office alone in its database: the duty that lets go looks at everybody's steps."""
    return Office(tenant)


def reading(version: int = 1, **more: Any) -> dict[str, Any]:
    effect = {"side_effect": "read", "recovery": "replayable", "idempotency": "none"}
    return writing(NAME, version, samples="required", **effect, **more)


def samples(version: int = 1, **more: Any) -> list[dict[str, Any]]:
    return builtin_samples(check_contract(reading(version, **more)))


def register(office: Office, version: int = 1, **more: Any) -> None:
    register_tool(actor=office.actor, contract=reading(version, **more))


def keep(office: Office, given: Any, version: int = 1) -> dict[str, Any]:
    return add_samples(actor=office.admin, name=NAME, version=version, samples=given)


def sign(office: Office, version: int = 1, **more: Any) -> dict[str, Any]:
    return sign_samples(actor=office.admin, name=NAME, version=version, reason="looked through", **more)


def called(office: Office, version: int = 1) -> Any:
    node = {"id": "a", "kind": "tool", "tool": f"{NAME}@{version}", "input": {"n": 1}}
    run_id = office.submit(workflow(node, name=f"recorded-{version}"))
    office.work()
    return run_id


def test_calls_wait_until_the_samples_are_signed_and_then_go_on(office):
    register(office)
    run_id = called(office)
    step = office.step(run_id, "a")
    assert (step.status, step.cause, step.error["code"]) == ("waiting", "stopped", "samples_unsigned")
    releaser = Releaser()
    releaser.run_once()
    office.work()
    assert office.step(run_id, "a").status == "waiting"
    keep(office, samples())
    assert read_samples(actor=office.admin, name=NAME, version=1)["blocked"]
    assert sign(office)["signed_by"] == office.admin.label
    releaser.run_once()
    office.work()
    assert office.statuses(run_id) == {"a": "succeeded"}
    office.check(run_id)
    told = read_samples(actor=office.admin, name=NAME, version=1)
    assert (told["required"], told["signed"], told["blocked"], told["added"]) == (True, True, False, 0)


def test_a_step_whose_tool_is_unsigned_uses_no_attempt_when_something_else_goes_on(office):
    """A stop's end and another tool's signature let go what they held back, and nothing else."""
    register(office)
    register(office, 2, max_result_bytes=5_000)
    waits, other = called(office), called(office, 2)
    before = office.step(waits, "a").attempt
    stop = set_stop(actor=office.admin, scope="tool", name="core.echo", reason="looked into")
    lift_stop(actor=office.admin, stop_id=uuid.UUID(stop["stop_id"]), reason="it was nothing")
    releaser = Releaser()
    assert releaser.run_once() == 0
    keep(office, samples(2, max_result_bytes=5_000), 2)
    sign(office, 2)
    assert releaser.run_once() == 1
    office.work()
    assert office.statuses(other) == {"a": "succeeded"}
    step = office.step(waits, "a")
    assert (step.status, step.cause, step.attempt) == ("waiting", "stopped", before)
    keep(office, samples())
    sign(office)
    assert releaser.run_once() == 1
    office.work()
    assert office.statuses(waits) == {"a": "succeeded"}
    assert office.step(waits, "a").attempt == before + 1


def test_looking_whether_the_samples_are_signed_uses_no_attempt(office, clock):
    register(office)
    run_id = called(office)
    before, releaser = office.step(run_id, "a"), Releaser()
    for _ in range(3):
        clock.advance(REST_SECONDS + 1)
        assert (releaser.run_once(), fire_timers(), office.claim()) == (0, 0, [])
    step = office.step(run_id, "a")
    assert (step.status, step.cause, step.error) == ("waiting", "stopped", before.error)
    assert (step.attempt, step.owner_epoch) == (before.attempt, before.owner_epoch)
    assert step.not_before > before.not_before, "it rests on"
    assert not [one for one in office.events(run_id) if one.type == "RETRY_SCHEDULED"]
    office.check(run_id)
    keep(office, samples())
    sign(office)
    assert releaser.run_once() == 1
    office.work()
    assert office.statuses(run_id) == {"a": "succeeded"}
    assert office.step(run_id, "a").attempt == before.attempt + 1
    office.check(run_id)


def test_a_timer_lets_a_step_go_on_whose_tool_is_signed_by_then(office, clock):
    register(office)
    run_id = called(office)
    keep(office, samples())
    sign(office)
    clock.advance(REST_SECONDS + 1)
    assert fire_timers() == 1
    assert office.statuses(run_id) == {"a": "queued"}


def test_a_step_that_was_put_to_wait_after_the_signature_is_found_all_the_same(office, clock):
    """Its worker had looked before: nothing woke the step, so the floor does."""
    register(office)
    run_id = office.submit(workflow({"id": "a", "kind": "tool", "tool": f"{NAME}@1", "input": {"n": 1}}))
    [claimed] = office.claim()
    keep(office, samples())
    sign(office)
    clock.advance(60)
    releaser = Releaser()
    assert releaser.run_once() == 0
    error = {"class": "policy", "code": "samples_unsigned", "message": "", "sent": False, "tool": f"{NAME}@1"}
    later = claimed.now + timedelta(seconds=REST_SECONDS)
    office.report(claimed, "yielded", cause="stopped", not_before=later, error=error)
    assert releaser.run_once() == 0
    clock.advance(600)
    assert releaser.run_once() == 1
    office.work()
    assert office.statuses(run_id) == {"a": "succeeded"}


def test_a_stop_without_an_end_uses_no_attempt_either(office, clock):
    stop = set_stop(actor=office.admin, scope="tool", name="office.pay", reason="looked into")
    pay = {"id": "a", "kind": "tool", "tool": "office.pay@1", "input": {}}
    run_id = office.submit(workflow(pay, name="held"))
    office.work()
    before, releaser = office.step(run_id, "a"), Releaser()
    assert (before.status, before.cause) == ("waiting", "stopped")
    for _ in range(3):
        clock.advance(REST_SECONDS + 1)
        assert (releaser.run_once(), fire_timers(), office.claim()) == (0, 0, [])
    assert office.step(run_id, "a").attempt == before.attempt
    office.check(run_id)
    lift_stop(actor=office.admin, stop_id=uuid.UUID(stop["stop_id"]), reason="it was nothing")
    assert releaser.run_once() == 1
    office.work()
    assert office.statuses(run_id) == {"a": "succeeded"}


def test_a_step_whose_target_is_read_by_an_unsigned_tool_goes_on_when_that_is_signed(office):
    register(office)
    reads = {"tool": f"{NAME}@1", "input": {"n": 1}, "version": "'v1'"}
    terms = {"recovery": "human", "idempotency": "none", "target_version": reads}
    register_tool(actor=office.actor, contract=writing("office.careful", **terms))
    pay = {"id": "pay", "kind": "tool", "tool": "office.careful@1", "input": {}}
    run_id = office.submit(workflow(pay, name="careful"))
    office.work()
    step = office.step(run_id, "pay")
    assert (step.cause, step.error["code"], step.error["tool"]) == ("stopped", "samples_unsigned", f"{NAME}@1")
    releaser = Releaser()
    assert releaser.run_once() == 0
    keep(office, samples())
    sign(office)
    assert releaser.run_once() == 1
    assert office.step(run_id, "pay").status == "queued"


def test_a_changed_contract_is_not_called_before_its_samples_are_signed_anew(office):
    register(office)
    keep(office, samples())
    sign(office)
    register(office, 2, max_result_bytes=5_000)
    run_id = called(office, 2)
    assert office.step(run_id, "a").error["code"] == "samples_unsigned"
    with pytest.raises(SamplesUnfit) as refused:
        sign(office, 2)
    assert "normal" in refused.value.extra["missing"]
    told = sign(office, 2, taken_from=1)
    assert (told["passed"], told["missing"], len(told["checks"])) == (True, [], 6)
    Releaser().run_once()
    office.work()
    assert office.statuses(run_id) == {"a": "succeeded"}
    signatures = [read_samples(actor=office.admin, name=NAME, version=n)["signatures"][0] for n in (1, 2)]
    assert signatures[0]["contract_sha256"] != signatures[1]["contract_sha256"]
    assert sign(office, 2, taken_from=1)["replayed"] is True


def test_what_a_changed_contract_reads_otherwise_is_not_signed(office):
    """The new version takes a text for no answer; a normal one was recorded as such."""
    register(office)
    keep(office, samples())
    sign(office)
    register(office, 2, output_schema={"type": "object", "required": ["receipt"]})
    with pytest.raises(SamplesUnfit) as refused:
        sign(office, 2, taken_from=1)
    assert "normal" in refused.value.detail
    assert [one["name"] for one in refused.value.extra["checks"] if not one["passed"]] == ["normal"]
    told = read_samples(actor=office.admin, name=NAME, version=2)
    assert (told["samples"], told["signatures"], told["blocked"]) == ([], [], True)


def test_a_recording_is_never_changed(office):
    register(office)
    given = samples()
    assert keep(office, given) == {"tool": f"{NAME}@1", "added": 6, "kept": 6}
    assert keep(office, given)["added"] == 0
    other = {**given[0], "recording": {"answer": {"value": {"n": 2}}}}
    with pytest.raises(SampleExists):
        keep(office, [other])
    with tenant_tx(office.tenant.id):
        row = ToolSample.objects.get(name="normal")
        for act in (lambda: ToolSample.objects.filter(id=row.id).update(kind="denied"), row.delete):
            with pytest.raises(Exception, match=r"append|permission|denied") as refused:
                _savepoint(act)
            assert isinstance(refused.value.__cause__, psycopg.Error)


def _savepoint(act: Any) -> None:
    from django.db import transaction

    with transaction.atomic():
        act()


def test_who_may_not_and_other_tenants_change_nothing(office, other_tenant):
    register(office)
    strangers = Office(other_tenant)
    for act in (
        lambda actor: add_samples(actor=actor, name=NAME, version=1, samples=samples()),
        lambda actor: sign_samples(actor=actor, name=NAME, version=1, reason="x"),
        lambda actor: check_samples(actor=actor, name=NAME, version=1),
    ):
        with pytest.raises(PermissionDenied):
            act(office.integrator)
        with pytest.raises(NotFound):
            act(strangers.admin)
    assert read_samples(actor=office.admin, name=NAME, version=1)["samples"] == []


def test_bad_samples_are_refused_whole(office):
    register(office)
    good = samples()
    for given, where in (([], "/samples"), ({}, "/samples"), ([*good, {"name": "x"}], "/samples/6")):
        with pytest.raises(BadInput) as refused:
            keep(office, given)
        assert (refused.value.where or "").startswith(where)
    with pytest.raises(BadInput):
        sign_samples(actor=office.admin, name=NAME, version=1, reason=" ")
    assert read_samples(actor=office.admin, name=NAME, version=1)["samples"] == []


def test_what_a_check_plays_is_bounded_when_it_is_kept(office):
    register(office)
    large = next(one for one in samples() if one["kind"] == "oversize")
    most = max(MOST_PLAYED_EACH, check_contract(reading()).max_result_bytes + 1)
    each = [{**large, "name": f"large {at}", "recording": {"answer": {"bytes": most}}} for at in range(50)]
    with pytest.raises(BadInput) as refused:
        keep(office, [{**each[0], "recording": {"answer": {"bytes": most + 1}}}])
    assert refused.value.where == "/samples/0/recording/answer/bytes"
    with pytest.raises(BadInput, match="in all") as refused:
        keep(office, each)
    assert refused.value.where == "/samples"
    assert keep(office, each[:10])["kept"] == 10
    with pytest.raises(BadInput, match="in all"):
        keep(office, each[10:])


def test_recordings_that_are_taken_over_count_as_those_that_are_kept(office):
    for version in (1, 2):
        register(office, version)
    one = samples()[0]
    for version, hundreds in ((1, range(3)), (2, range(3, 5))):
        for hundred in hundreds:
            keep(office, [{**one, "name": f"{hundred} {at}"} for at in range(50)], version)
    with pytest.raises(BadInput, match="at most 200") as refused:
        sign(office, 2, taken_from=1)
    assert refused.value.where == "/taken_from"
    assert len(read_samples(actor=office.admin, name=NAME, version=2)["samples"]) == 100


def test_a_tool_that_asks_for_none_goes_on_and_may_be_signed_all_the_same(office):
    register_tool(actor=office.actor, contract={**reading(), "samples": "optional"})
    assert office.statuses(called(office)) == {"a": "succeeded"}
    keep(office, samples())
    told = sign(office)
    assert told["passed"]
    assert check_samples(actor=office.admin, name=NAME, version=1)["samples_sha256"] == told["samples_sha256"]


def test_an_unsigned_query_tool_keeps_the_question_back(office):
    register(office)
    terms = {"recovery": "query", "idempotency": "none", "query": f"{NAME}@1"}
    register_tool(actor=office.actor, contract=writing("office.asks", **terms))
    pay = {"id": "pay", "kind": "tool", "tool": "office.asks@1", "input": {}}
    run_id = office.submit(workflow(pay, name="asks"))
    office.lose(office.claim()[0])
    with tenant_tx(office.tenant.id) as tx:
        assert tool_of(tx, f"{NAME}@1").unsigned
        [(operation_id,)] = tx.conn.execute("SELECT id FROM qd_operation WHERE run_id = %s", [run_id]).fetchall()
    finding = query_operation(tenant_id=office.tenant.id, operation_id=operation_id)
    assert (finding.kind, finding.code) == ("held", "unsigned")
    keep(office, samples())
    sign(office)
    assert query_operation(tenant_id=office.tenant.id, operation_id=operation_id).kind != "held"
