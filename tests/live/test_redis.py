"""Sockets over a Redis channel layer (REDIS_URL): nothing missing, several web processes, Redis away and back."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from tests.live.test_sockets import act, chain, token_for
from tests.support.console import free_port
from tests.support.db import Database
from tests.support.engine import Engine
from tests.support.patience import patient
from tests.support.specs import tool, workflow
from tests.support.web import Reader, Web, drive

pytestmark = [pytest.mark.req("C6.2"), pytest.mark.proof, pytest.mark.usefixtures("db")]


class Redis:
    """A redis-server of a test's own on this machine, keeping nothing."""

    def __init__(self) -> None:
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if b"Ready to accept connections" in line:
                return
        raise AssertionError("redis-server does not start")

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(patient(10))


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis]:
    """A running redis-server; without it or its packages these tests skip and say so."""
    missing = [name for name in ("redis", "channels_redis") if importlib.util.find_spec(name) is None]
    missing += [] if shutil.which("redis-server") else ["redis-server"]
    if missing:
        pytest.skip(
            f"NO TEST OF REDIS_URL RAN: {', '.join(missing)} missing. On Debian: apt-get install redis-server; and the"
            " packages of the extra redis."
        )
    server = Redis()
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def two(database: Database, redis: Redis) -> Iterator[tuple[Web, Web]]:
    """Two web processes that share one layer, as on two hosts."""
    with Web(database, REDIS_URL=redis.url) as one, Web(database, REDIS_URL=redis.url) as other:
        yield one, other


@pytest.fixture
def engine(tenant: Any) -> Engine:
    return Engine(tenant)


def shown(engine: Engine, run_id: uuid.UUID) -> dict[str, str]:
    return {node: status.split("(")[0] for node, status in engine.statuses(run_id).items()}


def test_readers_of_two_web_processes_see_every_commit_without_a_gap(two: tuple[Web, Web], engine: Engine):
    run_id = engine.submit(workflow(*(tool(f"n{i}") for i in range(30))))
    tokens = [token_for(engine.tenant) for _ in range(3)]

    async def scene() -> None:
        here, there = two
        async with (
            here.socket(run_id, token=tokens[0]) as one,
            there.socket(run_id, 0, token=tokens[1]) as other,
            here.socket(run_id, token=tokens[2]) as third,
        ):
            for i in range(30):
                await act(engine.finish, f"n{i}", "failed" if i % 7 == 3 else "succeeded")
            last = engine.run(run_id).seq
            await asyncio.gather(*(reader.until_seq(last) for reader in (one, other, third)))
            assert one.steps == other.steps == third.steps == shown(engine, run_id)

    drive(scene())


def test_a_layer_that_is_away_is_told_and_then_caught_up_with(two: tuple[Web, Web], redis: Redis, engine: Engine):
    """A refused handshake (403) would say "never": what is away says 4503, and the reader comes back."""
    web, run_id, token = two[0], engine.submit(chain()), token_for(engine.tenant)

    async def scene() -> None:
        async with web.socket(run_id, token=token) as reader:
            await reader.until_seq(engine.run(run_id).seq)
            redis.kill()
            await act(engine.finish, "n0")
            async with web.socket(run_id, reader.seq, token=token) as late:
                code, _problem = await late.closed()
                assert code == 4503
            redis.start()
            seen = await back(web, run_id, token, engine.run(run_id).seq)
            assert seen.steps["n0"] == "succeeded"
        async with web.socket(run_id, token=token) as reader:
            await reader.until_seq(engine.run(run_id).seq)
            await act(engine.finish, "n1")
            await reader.until_seq(engine.run(run_id).seq, patient(20))
            assert reader.steps == shown(engine, run_id)

    drive(scene())


async def back(web: Web, run_id: uuid.UUID, token: str, seq: int) -> Reader:
    """Come back as a page does, again and again, until the picture includes ``seq``."""
    end = time.monotonic() + patient(20)
    while True:
        async with web.socket(run_id, token=token) as reader:
            try:
                await reader.until_seq(seq)
                return reader
            except ConnectionClosed:
                assert time.monotonic() < end, "the layer is back, and no socket is"
