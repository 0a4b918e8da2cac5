"""Several cases in a browser without scripts: frozen, shown, ordered, reviewed by another person, followed (C8.4)."""

from __future__ import annotations

import re

import pytest

from repair.bulk_duty import carry_bulks
from tests.support.desk import Desk
from tests.support.pages import Reader

pytestmark = [pytest.mark.req("C8.4"), pytest.mark.django_db(transaction=True)]


@pytest.fixture
def desk(fresh_db, tenant) -> Desk:
    return Desk(tenant)


def test_two_people_resume_several_cases(desk, tenant, clock):
    runs = [desk.lost("human") for _ in range(2)]
    for run_id in runs:
        desk.release(desk.saw(desk.taken(run_id), "absent")["id"])
    ada, bob = Reader(tenant, "oncall"), Reader(tenant, "oncall")
    assert "/repairs/several/?tool=desk.human%401" in ada.get("/repairs/?tool=desk.human%401")
    page = ada.get("/repairs/several/?tool=desk.human%401")
    assert "2 cases fit" in page
    assert re.findall(r'href="(/repairs/[0-9a-f-]{36}/)"', page), "what fits can be looked at before anything is frozen"
    words = {"tool": "desk.human@1", "resolution": "resume_step", "per_minute": "600", "reason": "the bank was away"}
    refused = ada.post("/repairs/several/", {**words, "reason": ""}, 400).content.decode()
    assert "Nothing was prepared." in refused
    path = ada.post("/repairs/several/", words)["Location"]
    page = ada.get(path)
    assert "0 of 2 answered" in page
    version = re.search(r'name="version" value="(\d+)"', page)
    assert version is not None
    ada.post(f"{path}order/", {"version": version[1]})
    page = ada.get(path)
    assert "The tool cannot tell a second send from the first." in page
    assert 'name="decision"' not in page
    page = bob.get(path)
    version = re.search(r'name="version" value="(\d+)"', page)
    assert version is not None
    bob.post(f"{path}review/", {"version": version[1], "decision": "approve", "reason": ""})
    for _ in range(4):
        carry_bulks()
        desk.work()
        clock.advance(1)
    page = ada.get(path)
    assert "2 of 2 answered" in page
    assert "data-refresh" not in page
    assert [desk.run(one).status for one in runs] == ["completed", "completed"]
    refused = ada.post(f"{path}abort/", {"reason": "too late"}, 409).content.decode()
    assert "Bulk repair is elsewhere by now" in refused
    assert path in ada.get("/repairs/several/")
