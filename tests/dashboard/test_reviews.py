"""A second person finds what waits for their review where they look for decisions: inbox, sidebar, Now (C8.4)."""

from __future__ import annotations

import re
import uuid

import pytest

from repair.actions.resolve import review_proposal
from runtime.access.identity import actor_for_user
from tests.support.desk import Desk
from tests.support.pages import Reader

pytestmark = [pytest.mark.req("C8.4", "A10.1"), pytest.mark.django_db(transaction=True)]
HEADING = "Repairs that wait for your review"


def badge(page: str) -> str:
    """Return the number beside Inbox in the sidebar, empty without one."""
    entry = re.search(r'<a href="/inbox/" title="Inbox".*?</a>', page, re.DOTALL)
    assert entry is not None
    number = re.search(r'class="n hot[^"]*">(\d+)', entry[0])
    return number[1] if number else ""


def test_a_review_stands_in_the_inbox_and_on_now_until_it_is_decided(tenant, other_tenant):
    desk = Desk(tenant)
    case = desk.saw(desk.taken(desk.lost("human")), "absent")
    reader, proposer = Reader(tenant, "oncall"), Reader(tenant, "viewer")
    assert (HEADING in reader.get("/inbox/"), badge(reader.get("/now/"))) == (False, "")
    said = desk.propose(case, "resume_step")
    path = f"/repairs/{case['id']}/#review"
    inbox, now = reader.get("/inbox/"), reader.get("/now/")
    for page in (inbox, now):
        assert HEADING in page
        assert f'href="{path}"' in page
        assert badge(page) == "1"
    assert "1 decision waits for you" in inbox
    assert "No decision waits for you" not in inbox + now
    assert "decision waits for you." in now.partition('lead">')[2].partition("</h1>")[0]
    assert 'id="review"' in reader.get(f"/repairs/{case['id']}/")
    assert f"/repairs/{case['id']}/" in reader.get("/repairs/?view=review")
    for other in (proposer, Reader(other_tenant, "oncall")):
        assert (HEADING in other.get("/inbox/"), badge(other.get("/now/"))) == (False, "")
    api = reader.client.get("/api/v1/repairs/?review=mine").json()["items"]
    assert [(one["id"], one["review"]["repair_id"]) for one in api] == [(str(case["id"]), said["repair_id"])]
    assert reader.client.get("/api/v1/repairs/?review=yours").status_code == 400
    assert reader.client.get("/api/v1/bulk-repairs/?review=mine").json()["items"] == []
    review_proposal(
        actor=actor_for_user(reader.user, tenant.slug),
        case_id=case["id"],
        repair_id=uuid.UUID(said["repair_id"]),
        decision="approve",
        expected_version=said["version"],
    )
    for page in (reader.get("/inbox/"), reader.get("/now/")):
        assert (HEADING in page, badge(page)) == (False, "")
