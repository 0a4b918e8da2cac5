"""The feed and its readers when the bell is broken, and the bound of a response: nothing is lost or waits for ever."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from channels.layers import InMemoryChannelLayer, get_channel_layer
from django.db import connections
from django.test import override_settings

from dashboard.live import feed as feed_module
from dashboard.live import stream
from dashboard.live.access import Credential
from dashboard.live.feed import feed, group_of
from tests.live.test_sockets import act, chain, token_for
from tests.support.engine import Engine
from tests.support.patience import patient
from tests.support.web import drive

pytestmark = [pytest.mark.req("C6.2"), pytest.mark.usefixtures("db")]


class Breaking(InMemoryChannelLayer):
    """A layer whose server is away for the next ``away`` sends."""

    away = 0

    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        if Breaking.away > 0:
            Breaking.away -= 1
            raise ConnectionError("the server of the layer is away")
        await super().group_send(group, message)


@pytest.fixture(autouse=True)
def layer(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(feed_module, "AWAY_SECONDS", 0.01)
    Breaking.away = 0
    with override_settings(CHANNEL_LAYERS={"default": {"BACKEND": "tests.live.test_feed.Breaking"}}):
        yield


@pytest.fixture
def engine(tenant: Any) -> Engine:
    return Engine(tenant)


async def patch_of(layer: Any, channel: str) -> dict[str, Any]:
    """Return the next patch that rings on a channel."""
    async with asyncio.timeout(patient(20)):
        while (message := await layer.receive(channel))["type"] != "run.patch":
            pass
        return dict(json.loads(message["text"]))


def test_the_feed_goes_on_after_the_layer_was_away_and_leaves_no_gap(engine):
    run_id = engine.submit(chain())
    head = engine.run(run_id).seq

    async def scene() -> dict[str, Any]:
        layer = get_channel_layer()
        channel = await layer.new_channel()
        await layer.group_add(group_of(run_id), channel)
        feed().watch(engine.tenant.id, run_id, head)
        Breaking.away = 3
        await act(engine.finish, "n0")
        try:
            return await patch_of(layer, channel)
        finally:
            feed().unwatch(run_id)

    patch = drive(scene())
    assert Breaking.away == 0
    assert patch["from_seq"] == head + 1, "what could not be sent is sent again, from where it was"
    assert patch["to_seq"] > head


def test_who_comes_while_the_feed_is_closing_gets_patches_all_the_same(engine, monkeypatch):
    """A page is loaded again: the old socket goes, the connections are closed, and the new one is there meanwhile."""
    run_id = engine.submit(chain())
    head = engine.run(run_id).seq
    closing, go_on = threading.Event(), threading.Event()
    close_all = connections.close_all

    def slowly() -> None:
        if threading.current_thread().name.startswith("feed"):
            closing.set()
            assert go_on.wait(20)
        close_all()

    monkeypatch.setattr(connections, "close_all", slowly)

    async def scene() -> dict[str, Any]:
        layer = get_channel_layer()
        channel = await layer.new_channel()
        await layer.group_add(group_of(run_id), channel)
        feed().watch(engine.tenant.id, run_id, head)
        await layer.receive(channel)  # it is at work
        feed().unwatch(run_id)
        assert await act(closing.wait, 20)
        feed().watch(engine.tenant.id, run_id, head)
        go_on.set()
        await act(engine.finish, "n0")
        try:
            return await patch_of(layer, channel)
        finally:
            feed().unwatch(run_id)

    assert drive(scene())["to_seq"] > head


def test_a_run_that_cannot_be_read_silences_no_other(engine, monkeypatch):
    """What is wrong with one run is its readers' trouble; those of other runs get their patches."""
    broken, whole = engine.submit(chain()), engine.submit(chain())
    heads = {run_id: engine.run(run_id).seq for run_id in (broken, whole)}
    read = feed_module.patch_in

    def patch_in(tx: Any, run_id: Any, after: int) -> dict[str, Any]:
        if run_id == broken:
            raise AssertionError("a row that cannot be shown")
        return read(tx, run_id, after)

    monkeypatch.setattr(feed_module, "patch_in", patch_in)

    async def scene() -> dict[str, Any]:
        layer = get_channel_layer()
        channel = await layer.new_channel()
        await layer.group_add(group_of(whole), channel)
        for run_id, head in heads.items():
            feed().watch(engine.tenant.id, run_id, head)
        await act(engine.claim)
        try:
            return await patch_of(layer, channel)
        finally:
            for run_id in heads:
                feed().unwatch(run_id)

    assert drive(scene())["run_id"] == str(whole)


async def events_of(text: AsyncIterator[bytes], until: Callable[[list[int]], bool]) -> list[int]:
    """Read a response until ``until`` holds of the ids, or to its end; return the ids."""
    found: list[int] = []
    async with asyncio.timeout(patient(20)):
        async for part in text:
            found += [int(line[4:]) for line in part.split(b"\n") if line.startswith(b"id: ")]
            if until(found):
                break
    return found


def follow(engine: Engine, token: str, run_id: Any, after: int) -> AsyncIterator[bytes]:
    credential = Credential(token=token)
    actor = credential.actor()
    return stream.follow(actor, credential, run_id, after, stream.read_first(actor, run_id, after)["events"])


def test_a_stream_reads_the_ledger_also_when_no_bell_rings(engine, monkeypatch):
    monkeypatch.setattr(stream, "COMMENT_SECONDS", 0.05)
    run_id, token = engine.submit(chain()), token_for(engine.tenant)
    head = engine.run(run_id).seq
    Breaking.away = 10**6

    async def scene() -> list[int]:
        response = await act(follow, engine, token, run_id, head)
        await anext(response)
        await act(engine.finish, "n0")
        return await events_of(response, bool)

    assert drive(scene())[0] == head + 1


def test_a_response_ends_at_its_bound_and_is_continued_without_a_gap(engine, monkeypatch):
    monkeypatch.setattr(stream, "BATCH", 2)
    monkeypatch.setattr(stream, "MOST_BYTES", 600)
    run_id, token = engine.submit(chain()), token_for(engine.tenant)
    engine.finish("n0")
    head = engine.run(run_id).seq
    assert head > 5

    async def response(after: int) -> list[int]:
        text = await act(follow, engine, token, run_id, after)
        return await events_of(text, lambda found: bool(found) and found[-1] == head)

    async def scene() -> list[list[int]]:
        found = [await response(0)]
        while found[-1][-1] < head:
            found.append(await response(found[-1][-1]))
        return found

    parts = drive(scene())
    assert len(parts) > 1, "one response does not hold it all"
    assert [seq for part in parts for seq in part] == list(range(1, head + 1))
