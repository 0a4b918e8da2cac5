"""How many streams, waits and sockets a web process serves: refused before any work, seats come back, pages go on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from websockets.exceptions import ConnectionClosed

from tests.live.test_sockets import chain, token_for
from tests.support.factories import make_member
from tests.support.office import Office
from tests.support.patience import patient
from tests.support.web import Web, drive, session_of
from tests.support.workers import until

pytestmark = [pytest.mark.req("C6.2"), pytest.mark.usefixtures("db")]
MOST = 4


class Client:
    """One connection that asks and then stays; :meth:`hang_up` ends it as programs and as broken networks do."""

    def __init__(self, web: Web, path: str, token: str | None) -> None:
        self.socket = socket.create_connection(("127.0.0.1", web.port), timeout=patient(15))
        credential = f"Authorization: Bearer {token}\r\n" if token else ""
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{credential}\r\n".encode())

    def status(self) -> int:
        """Return the answer's status, once it is there."""
        with self.socket.makefile("rb") as answer:
            return int(answer.readline().split()[1])

    def hang_up(self, how: str) -> None:
        if how == "reset":
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


@pytest.fixture
def office(tenant: Any) -> Office:
    return Office(tenant)


@pytest.fixture
def full(test_database: Any) -> Iterator[Web]:
    """A web process with MOST seats."""
    with Web(test_database, QUARTERDECK_LIVE_MOST=str(MOST), QUARTERDECK_LIVE_MOST_EACH=str(MOST)) as web:
        yield web


def ask(web: Web, path: str, token: str | None) -> tuple[int, Any]:
    return web.get(path, **({"Authorization": f"Bearer {token}"} if token else {}))


def refused(web: Web, path: str, token: str | None) -> bool:
    """Say whether somebody who comes now finds no seat."""
    status, body = ask(web, f"{path}?after=x" if "stream" in path else f"{path}?seconds=0", token)
    assert status in (200, 400, 503), body
    return status == 503


def freed(web: Web, path: str, token: str) -> None:
    until(lambda: not refused(web, path, token), 20, "a free seat")


def filled(web: Web, path: str, token: str) -> list[Client]:
    """Return clients that have all seats; some of them may have come too late for one."""
    query = "?seconds=60" if path.endswith("/wait/") else ""
    clients = [Client(web, path + query, token) for _ in range(MOST)]

    def full() -> bool:
        # Who asks whether there is a seat has one meanwhile, and may have taken it from one of them.
        if taken := refused(web, path, token):
            return taken
        clients.append(Client(web, path + query, token))
        return False

    until(full, 20, "all seats taken", every=0.3)
    return clients


@pytest.mark.parametrize("how", ["closed", "reset"])
@pytest.mark.parametrize("kind", ["stream", "wait"])
def test_all_seats_taken_is_said_before_any_work_and_they_come_back_with_whoever_leaves(full, office, kind, how):
    run_id, token = office.ask(), token_for(office.tenant, "approver")
    request = office.pending(run_id)
    path = f"/api/v1/runs/{run_id}/stream/" if kind == "stream" else f"/api/v1/approvals/{request['id']}/wait/"
    for _ in range(2):
        clients = filled(full, path, token)
        # Nothing is asked of the database, not even who it is.
        status, problem = ask(full, path, None)
        assert (status, problem["code"], problem["retryable"]) == (503, "streams_full", True)
        assert problem["retry_after"] > 0
        for page in ("/healthz", "/sign-in/", f"/api/v1/runs/{run_id}/events/", f"/api/v1/approvals/{request['id']}/"):
            assert ask(full, page, token)[0] == 200, "pages work beside"
        for client in clients:
            client.hang_up(how)
        freed(full, path, token)


def test_sockets_take_seats_too_and_leave_them(full, office):
    run_id, token = office.submit(chain()), token_for(office.tenant)
    path = f"/api/v1/runs/{run_id}/stream/"

    async def scene() -> None:
        async with contextlib.AsyncExitStack() as stack:
            readers = [await stack.enter_async_context(full.socket(run_id, token=token)) for _ in range(MOST)]
            for reader in readers:
                assert (await reader.message())["type"] == "snapshot"
            async with full.socket(run_id) as late:
                code, problem = await late.closed()
                assert problem is not None
                assert (code, problem["code"], problem["retry_after"] > 0) == (4503, "streams_full", True)
            assert (await asyncio.to_thread(ask, full, path, token))[0] == 503, "one count of all kinds"
            readers[0].connection.transport.abort()
            with pytest.raises(ConnectionClosed):
                await readers[0].message()
            await asyncio.to_thread(freed, full, path, token)
            async with full.socket(run_id, token=token) as again:
                assert (await again.message())["type"] == "snapshot"
        await asyncio.to_thread(freed, full, path, token)

    drive(scene())


def test_one_person_or_token_has_so_many_and_nobody_else_is_the_poorer(test_database, office):
    run_id, tokens = office.submit(chain()), [token_for(office.tenant) for _ in range(2)]
    path = f"/api/v1/runs/{run_id}/stream/"
    ada = make_member(office.tenant, "viewer")
    with Web(test_database, QUARTERDECK_LIVE_MOST="50", QUARTERDECK_LIVE_MOST_EACH="2") as web:
        mine = [Client(web, path, tokens[0]) for _ in range(2)]
        assert [client.status() for client in mine] == [200, 200]
        status, problem = ask(web, path, tokens[0])
        assert (status, problem["code"], problem["retryable"]) == (429, "too_many_streams", True)
        assert problem["retry_after"] > 0
        other = Client(web, path, tokens[1])
        assert other.status() == 200

        async def scene() -> None:
            cookie = session_of(ada, office.tenant.slug)
            async with web.socket(run_id, cookie=cookie) as one, web.socket(run_id, cookie=cookie) as two:
                assert {(await one.message())["type"], (await two.message())["type"]} == {"snapshot"}
                async with web.socket(run_id, cookie=cookie) as three:
                    code, problem = await three.closed()
                    assert (code, problem and problem["code"]) == (4429, "too_many_streams")
            async with web.socket(run_id, token=tokens[0]) as late:
                assert (await late.closed())[0] == 4429, "a token's streams and sockets are counted together"

        drive(scene())
        mine[0].hang_up("reset")
        until(lambda: ask(web, f"{path}?after=x", tokens[0])[0] == 400, 20, "a seat of the token's")
        for client in (mine[1], other):
            client.hang_up("closed")


@pytest.mark.parametrize("how", ["closed", "reset"])
def test_who_hangs_up_before_the_answer_keeps_no_seat(full, office, how):
    run_id, token = office.submit(chain()), token_for(office.tenant)
    path = f"/api/v1/runs/{run_id}/stream/"
    for _ in range(5 * MOST):
        Client(full, path, token).hang_up(how)
    freed(full, path, token)
    clients: list[Client] = []

    def seated() -> bool:
        client = Client(full, path, token)
        if client.status() == 200:
            clients.append(client)
        else:
            client.hang_up("closed")
        return len(clients) == MOST

    until(seated, 20, "all seats for those who stay")
    assert refused(full, path, token)
    for client in clients:
        client.hang_up("closed")


def test_what_is_refused_or_answered_at_once_keeps_no_seat(full, office, other_tenant):
    run_id, token = office.ask(), token_for(office.tenant, "approver")
    request = office.pending(run_id)
    stranger = token_for(other_tenant)
    wait = f"/api/v1/approvals/{request['id']}/wait/"
    for _ in range(MOST + 1):
        assert ask(full, f"/api/v1/runs/{run_id}/stream/", None)[0] == 401
        assert ask(full, f"/api/v1/runs/{run_id}/stream/", stranger)[0] == 404
        assert ask(full, f"/api/v1/runs/{run_id}/stream/?after=999999", token)[0] == 410
        assert ask(full, f"{wait}?seconds=0", token)[0] == 200
        assert ask(full, f"{wait}?seconds=60&state=approved", token)[0] == 200
        assert ask(full, f"{wait}?seconds=x", token)[0] == 400


def test_many_streams_and_waits_hold_no_thread(test_database, office):
    run_id, token = office.ask(), token_for(office.tenant, "approver")
    request = office.pending(run_id)
    wait, stream = f"/api/v1/approvals/{request['id']}/wait/?seconds=60", f"/api/v1/runs/{run_id}/stream/"
    with Web(test_database) as web:
        assert web.process is not None
        process = psutil.Process(web.process.pid)
        ask(web, "/healthz", None)
        before = process.num_threads()
        clients = [Client(web, path, token) for path in (wait, stream) for _ in range(40)]
        assert [client.status() for client in clients[40:]] == [200] * 40
        # A few work for all of them: readers, the feed, a request's own that is about to end.
        until(lambda: process.num_threads() <= before + 12, 20, "no thread for each")
        office.decide(request)
        told = [_body(client) for client in clients[:40]]
        assert {(one["state"], one["decided_by"]) for one in told} == {("approved", office.approver.label)}
        for client in clients:
            client.hang_up("closed")


def _body(client: Client) -> dict[str, Any]:
    """Return the JSON object of a chunked answer."""
    with client.socket.makefile("rb") as answer:
        while answer.readline().strip():
            pass
        size = int(answer.readline(), 16)
        found: dict[str, Any] = json.loads(answer.read(size))
        return found
