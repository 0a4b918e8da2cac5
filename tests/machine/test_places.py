"""A place shows one call and is free again after it, whatever threads still tell (C2.8)."""

from __future__ import annotations

import sys
import threading
import uuid
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from runtime.tools.showing import Told
from runtime.worker.execute import Prepared
from runtime.worker.lease import Lease
from runtime.worker.places import Place, read_places, room
from runtime.worker.underway import UnderWay
from runtime.worker.work import Claimed

pytestmark = pytest.mark.req("C2.8")


@pytest.fixture
def lease():
    session = uuid.uuid4()
    made = Lease(session, 60, room())
    yield session, made
    made.path.unlink(missing_ok=True)


def call(step: uuid.UUID, epoch: int) -> Prepared:
    """Return a call of a step as an owner of this epoch begins it."""
    node: Any = SimpleNamespace(tool=None)
    nothing: Any = None
    claimed = Claimed(
        uuid.uuid4(), uuid.uuid4(), step, node, nothing, 1, epoch, epoch, None, datetime.now(UTC)
    )  # fmt: skip
    return Prepared(claimed, nothing, {}, b"", b"", {})


def test_a_thread_that_tells_while_its_call_ends_raises_nothing(lease):
    places = UnderWay(lease[1]).places
    step, broken, before = uuid.uuid4(), [], sys.getswitchinterval()

    def tell(place: Place) -> None:
        try:
            for done in range(40):
                place.put(Told(float(done), None, None))
        except Exception as error:
            broken.append(error)

    sys.setswitchinterval(1e-6)
    try:
        for epoch in range(1, 101):
            place = places.take_inline(call(step, epoch).claimed)
            thread = threading.Thread(target=tell, args=(place,))
            thread.start()
            places.leave_inline(place)
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert broken == []


def test_the_end_of_a_lost_call_leaves_the_newer_one_of_its_step(lease):
    session, made = lease
    running, step = UnderWay(made), uuid.uuid4()
    older, newer = call(step, 1), call(step, 2)
    running.begin(older)
    running.begin(newer)
    running.end(older)
    assert running[step] is newer
    assert [seen.attempt for seen in read_places(session)] == [2]
    running.end(newer)
    assert not running
    assert read_places(session) == []
