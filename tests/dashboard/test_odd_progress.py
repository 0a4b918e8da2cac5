"""What a beat tells of a call is shown as far as it is a report: odd numbers in it take no page down (C2.8)."""

from __future__ import annotations

import math

import pytest

from runtime.queries.in_hand import steps_in_hand
from runtime.store.tx import tenant_tx
from runtime.tools.showing import Told
from runtime.worker.claim import Claimer
from runtime.worker.places import Places
from runtime.worker.session import Session, host_name, renew_host
from tests.support.api import caller
from tests.support.desk import Desk
from tests.support.pages import Reader
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("C2.8"), pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        (Told(math.nan, 5.0, None), None),
        (Told(2.0, math.nan, "loading"), (2.0, None, None)),
        (Told(9.0, 3.0, None), (9.0, 3.0, 1.0)),
    ],
)
def test_odd_numbers_in_a_beat_take_no_page_down(fresh_db, tenant, settings, tmp_path, told, shown):
    settings.QUARTERDECK_DATA = tmp_path
    desk = Desk(tenant)
    run_id = desk.submit(workflow(tool("a")))
    session = Session()
    (claimed,) = Claimer(session.id).claim(tenant.id, "default", 5)
    Places(session.lease).take(claimed).put(told)
    session.lease.beat(1, 0)
    assert renew_host(host_name())[0] == 1
    with tenant_tx(tenant.id) as tx:
        (progress,) = [one["progress"] for one in steps_in_hand(tx)]
    assert shown == (progress and (progress["done"], progress["total"], progress["share"]))
    reader, api = Reader(tenant, "admin"), caller(tenant)
    for path in ("/workers/", "/now/", f"/runs/{run_id}/", f"/runs/{run_id}/?step=a"):
        assert reader.client.get(path).status_code == 200, path
    for path in ("workers/", f"steps/{claimed.step_id}/"):
        assert api.get(path).status_code == 200, path
