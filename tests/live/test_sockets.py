"""Sockets of runs: a patch after commit, no gap, the same for everybody, back after a loss, refusals."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable
from typing import Any

import psutil
import psycopg
import pytest
from websockets.exceptions import ConnectionClosed

from dashboard.live.sockets import WINDOW
from runtime.access.identity import insert_token
from runtime.actions.hold import hold_step
from runtime.actions.runs import cancel_run
from runtime.models import ApiToken, Membership, Tenant
from runtime.store.tx import tenant_tx
from tests.support.actors import member
from tests.support.db import admin, server
from tests.support.engine import Engine
from tests.support.factories import make_member, make_tenant, make_user
from tests.support.patience import patient
from tests.support.specs import tool, workflow
from tests.support.web import Web, drive, session_of
from tests.support.workers import until

pytestmark = [pytest.mark.req("C6.2"), pytest.mark.usefixtures("db")]


def token_for(tenant: Tenant, role: str = "viewer", verbs: list[str] | None = None) -> str:
    actor = member(tenant, role)
    assert actor.user_id is not None
    with tenant_tx(tenant.id) as tx:
        return insert_token(tx, user_id=actor.user_id, name="live", verbs=verbs, days=1, now=tx.now()).raw


@pytest.fixture
def engine(tenant: Tenant) -> Engine:
    return Engine(tenant)


async def act(work: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call the engine beside the event loop, as another process would."""
    from django.db import connections

    def run() -> Any:
        try:
            return work(*args, **kwargs)
        finally:
            connections.close_all()

    return await asyncio.to_thread(run)


def chain(n: int = 3) -> dict[str, Any]:
    return workflow(*(tool(f"n{i}", *([f"n{i - 1}"] if i else [])) for i in range(n)))


def test_a_snapshot_then_a_patch_for_every_commit(web, engine):
    run_id, token = engine.submit(chain()), token_for(engine.tenant)

    async def scene() -> None:
        async with web.socket(run_id, token=token) as reader:
            first = await reader.message()
            assert first["type"] == "snapshot"
            assert first["seq"] == engine.run(run_id).seq
            assert reader.steps == {"n0": "queued", "n1": "waiting", "n2": "waiting"}
            await act(engine.claim)
            patch = await reader.message()
            assert (patch["from_seq"], patch["to_seq"]) == (first["seq"] + 1, engine.run(run_id).seq)
            assert [step["node"] for step in patch["steps"]] == ["n0"]
            step = patch["steps"][0]
            assert (step["status"], step["attempt"], step["error"]) == ("running", 1, None)
            assert step["started_at"]
            assert step["version"] == engine.step(run_id, "n0").version
            await act(engine.finish, "n0")
            await reader.until_seq(engine.run(run_id).seq)
            assert reader.steps == {"n0": "succeeded", "n1": "queued", "n2": "waiting"}

    drive(scene())


def test_two_readers_see_the_same_and_neither_misses_anything(web, engine):
    run_id = engine.submit(workflow(*(tool(f"n{i}") for i in range(40))))
    tokens = [token_for(engine.tenant) for _ in range(2)]

    async def scene() -> None:
        async with web.socket(run_id, token=tokens[0]) as one, web.socket(run_id, 0, token=tokens[1]) as two:
            for i in range(40):
                await act(engine.finish, f"n{i}", "failed" if i % 7 == 3 else "succeeded")
            last = engine.run(run_id).seq
            await asyncio.gather(one.until_seq(last), two.until_seq(last))
            assert one.steps == two.steps == {node: s.split("(")[0] for node, s in engine.statuses(run_id).items()}
            assert one.run_status == two.run_status == engine.run(run_id).status
            assert sum(m["type"] == "patch" for m in one.seen) > 3

    drive(scene())


def test_back_with_after_only_what_moved_comes(web, engine):
    run_id, token = engine.submit(chain()), token_for(engine.tenant)

    async def scene() -> None:
        async with web.socket(run_id, token=token) as reader:
            await reader.message()
            seq = reader.seq
        assert seq is not None
        await act(engine.finish, "n0")
        async with web.socket(run_id, seq, token=token) as reader:
            patch = await reader.message()
            assert patch["type"] == "patch"
            assert (patch["from_seq"], patch["to_seq"]) == (seq + 1, engine.run(run_id).seq)
            assert {step["node"] for step in patch["steps"]} == {"n0", "n1"}
        async with web.socket(run_id, patch["to_seq"], token=token) as reader:
            nothing = await reader.message()
            assert (nothing["to_seq"], nothing["steps"]) == (patch["to_seq"], [])

    drive(scene())


def test_a_restarted_server_is_caught_up_with(own_web, engine):
    web, run_id, token = own_web, engine.submit(chain()), token_for(engine.tenant)

    async def scene() -> None:
        async with web.socket(run_id, token=token) as reader:
            await reader.message()
            web.stop()
            await act(engine.finish, "n0")
            code, problem = await reader.closed()
            assert problem is None
            assert code in (None, 1001, 1006, 1012)
            seq, steps = reader.seq, reader.steps
        web.start()
        async with web.socket(run_id, seq, token=token) as reader:
            reader.seq, reader.steps = seq, steps
            await reader.until_seq(engine.run(run_id).seq)
            assert reader.steps["n0"] == "succeeded"
            await act(engine.finish, "n1")
            await reader.until_seq(engine.run(run_id).seq)
            assert reader.steps["n1"] == "succeeded"

    drive(scene())


@pytest.mark.parametrize("after", [10_000, 99_999_999])
def test_a_cursor_beyond_the_end_is_told_to_be_gone(web, engine, after):
    run_id, token = engine.submit(chain()), token_for(engine.tenant)

    async def scene() -> None:
        async with web.socket(run_id, after, token=token) as reader:
            code, problem = await reader.closed()
        assert code == 4410
        assert problem is not None
        assert (problem["code"], problem["status"]) == ("cursor_expired", 410)
        assert problem["available"]["last"] == engine.run(run_id).seq
        assert problem["links"]["snapshot"].endswith(f"/runs/{run_id}/snapshot/")

    drive(scene())


def test_a_cursor_before_what_is_kept_is_told_to_be_gone(web, engine):
    run_id, token = engine.submit(chain()), token_for(engine.tenant)
    with psycopg.connect(server().admin_url(web.database.name), autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("DELETE FROM qd_event WHERE run_id = %s AND seq <= 2", [run_id])

    async def scene() -> None:
        async with web.socket(run_id, 1, token=token) as reader:
            code, problem = await reader.closed()
        assert (code, problem and problem["available"]["first"]) == (4410, 3)
        async with web.socket(run_id, 2, token=token) as reader:
            assert (await reader.message())["type"] == "patch"

    drive(scene())


def test_refusals(web, engine, other_tenant):
    run_id = engine.submit(chain())
    blind = token_for(engine.tenant, verbs=["task.read"])
    foreign = token_for(other_tenant, "admin")
    mine = token_for(engine.tenant)

    async def code_of(run: Any, after: int | None = None, **how: Any) -> tuple[int | None, str | None]:
        async with web.socket(run, after, **how) as reader:
            code, problem = await reader.closed()
        return code, problem["code"] if problem else None

    async def scene() -> None:
        assert await code_of(run_id) == (4401, "not_authenticated")
        assert await code_of(run_id, token="qd_wrong") == (4401, "not_authenticated")
        assert await code_of(run_id, cookie="nosuchsession") == (4401, "not_authenticated")
        assert await code_of(run_id, token=blind) == (4403, "permission_denied")
        assert await code_of(run_id, token=foreign) == (4404, "not_found")
        assert await code_of(uuid.uuid4(), token=mine) == (4404, "not_found")
        assert await code_of("no-id", token=mine) == (4404, "not_found")

    drive(scene())


def test_a_session_only_from_a_page_of_ours(web, engine):
    run_id = engine.submit(chain())
    user = make_user(password="x")
    make_member(engine.tenant, "viewer", user)
    cookie = session_of(user)

    async def scene() -> None:
        async with web.socket(run_id, cookie=cookie) as reader:
            assert (await reader.message())["type"] == "snapshot"
        for origin in ("https://evil.example", f"http://127.0.0.1:{web.port + 1}", "null", ""):
            async with web.socket(run_id, cookie=cookie, origin=origin) as reader:
                code, problem = await reader.closed()
                assert (code, problem and problem["code"]) == (4403, "permission_denied"), origin

    drive(scene())


def test_a_session_of_several_tenants_reads_the_chosen_one(web, engine, other_tenant):
    run_id = engine.submit(chain())
    user = make_user()
    for tenant in (engine.tenant, other_tenant):
        make_member(tenant, "viewer", user)

    async def scene() -> None:
        async with web.socket(run_id, cookie=await act(session_of, user, engine.tenant.slug)) as reader:
            assert (await reader.message())["type"] == "snapshot"
        async with web.socket(run_id, cookie=await act(session_of, user, other_tenant.slug)) as reader:
            assert (await reader.closed())[0] == 4404

    drive(scene())


@pytest.mark.parametrize("how", ["token", "membership"])
def test_a_right_that_is_taken_away_ends_the_socket(test_database, engine, how):
    run_id, token = engine.submit(chain()), token_for(engine.tenant)

    async def scene(web: Web) -> None:
        async with web.socket(run_id, token=token) as reader:
            await reader.message()
            await act(revoke, engine.tenant, how)
            code, problem = await reader.closed(patient(15))
            assert (code, problem and problem["code"]) == (4401, "not_authenticated")

    with Web(test_database, QUARTERDECK_LIVE_RECHECK_SECONDS="0.3") as web:
        drive(scene(web))


def revoke(tenant: Tenant, how: str) -> None:
    with tenant_tx(tenant.id, using="owner") as tx:
        if how == "token":
            ApiToken.objects.using("owner").update(revoked_at=tx.now())
        else:
            Membership.objects.using("owner").update(ended_at=tx.now())


def test_a_reader_that_falls_behind_is_told_to_read_again(web, engine):
    run_id = engine.submit(workflow(*(tool(f"n{i}") for i in range(150))))
    token = token_for(engine.tenant)

    async def scene() -> None:
        async with web.socket(run_id, token=token) as reader:
            first = await reader.message()
            await reader.send(type="ack", seq=first["seq"])
            await reader.send(type="read", after=first["seq"])
            assert (await reader.message())["type"] == "patch", "it has heard of the confirmation"
            # It confirms nothing more: after a window of patches it is sent none.
            for i in range(WINDOW):
                await act(hold, engine, run_id, f"n{i}")
                await reader.until_seq(engine.run(run_id).seq)
            for i in range(WINDOW, WINDOW + 20):
                await act(hold, engine, run_id, f"n{i}")
            await reader.until_silent(1.5)
            patches = [m for m in reader.seen if m["type"] == "patch"]
            assert len(patches) == 1 + WINDOW
            assert reader.seq < engine.run(run_id).seq
            await reader.send(type="ack", seq=reader.seq)
            assert (await reader.message())["type"] == "resync"
            await reader.send(type="read", after=reader.seq)
            await reader.until_seq(engine.run(run_id).seq)
            assert len([m for m in reader.seen if m["type"] == "patch"]) == len(patches) + 1
            await act(cancel_run, actor=engine.actor, run_id=run_id, reason="over")
            await reader.until_seq(engine.run(run_id).seq)
            assert reader.run_status == "cancelled"

    drive(scene())


def test_a_reader_that_takes_nothing_is_closed(web, engine):
    """It asks for snapshots and reads none of them: what waits for it stays bounded."""
    run_id = engine.submit(workflow(*(tool(f"step-{i:04}") for i in range(1000)), name="thousand"))
    token = token_for(engine.tenant)

    async def scene() -> None:
        async with web.socket(run_id, token=token, max_queue=1, ping_interval=None) as reader:
            port = reader.connection.local_address[1]
            for _ in range(60):
                with contextlib.suppress(ConnectionClosed):
                    await reader.send(type="read", after=None)
                await asyncio.sleep(0.02)
            await act(until, lambda: not serves(web, port), 20, "the server lets go of it")
            code, _problem = await reader.closed()
        assert code in (4429, None)
        assert len([m for m in reader.seen if m["type"] == "snapshot"]) < 60
        async with web.socket(run_id, token=token) as other:
            assert (await other.message())["type"] == "snapshot", "the others go on"

    drive(scene())


def serves(web: Web, port: int) -> bool:
    """Say whether the server still has its end of the connection that comes from ``port``."""
    assert web.process is not None
    found = psutil.Process(web.process.pid).net_connections("tcp")
    return any(one.raddr and one.raddr.port == port for one in found)


def hold(engine: Engine, run_id: uuid.UUID, node: str) -> None:
    engine.act(hold_step, run_id, node)


def test_a_sign_of_life_each_second_and_a_snapshot_when_asked(web, engine):
    run_id, token = engine.submit(chain()), token_for(engine.tenant)

    async def scene() -> None:
        async with web.socket(run_id, token=token) as reader:
            await reader.message()
            with pytest.raises(TimeoutError):
                await reader.message(2.6)
            ticks = [m for m in reader.seen if m["type"] == "tick"]
            assert 2 <= len(ticks) <= 3
            assert {m["seq"] for m in ticks} == {reader.seq}
            await reader.send(type="read", after=None)
            assert (await reader.message())["type"] == "snapshot"
            await reader.send(type="read", after=10_000)
            assert (await reader.closed())[0] == 4410
        deep, long = "[" * 990, "x" * 5000
        for nonsense in ("{", "[]", '{"type":"drop"}', '{"type":"ack"}', '{"type":"read","after":-1}', long, deep):
            async with web.socket(run_id, token=token) as reader:
                await reader.message()
                await reader.connection.send(nonsense)
                assert (await reader.closed())[0] == 4400, nonsense

    drive(scene())


def test_the_database_away_and_back(fresh_db):
    engine = Engine(make_tenant())
    run_id, token = engine.submit(chain()), token_for(engine.tenant)

    async def scene(web: Web) -> None:
        async with web.socket(run_id, token=token) as reader:
            await reader.message()
            with admin() as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = %s AND application_name LIKE '%%web'", [fresh_db.name],
                )  # fmt: skip
            await act(engine.finish, "n0")
            await reader.until_seq(engine.run(run_id).seq, 15.0)
            assert reader.steps["n0"] == "succeeded"

    with Web(fresh_db) as web:
        drive(scene(web))
