"""Private addresses are closed to tools, but for those that the installation lists (C3.2, C7.4)."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import httpx2
import pytest

from runtime.kernel.conf import conf
from runtime.tools.addresses import is_closed_address, is_private
from runtime.tools.dialing import AddressRefused, BlockingJudgedTransport, JudgedTransport
from runtime.tools.egress import refused
from tests.support.http_tool import HttpTool
from tests.support.web import drive
from tests.tools.conftest import run

pytestmark = pytest.mark.req("C3.2", "C7.4")


@pytest.fixture
def listed(settings: Any) -> Iterator[Callable[..., None]]:
    def put(*hosts: str) -> None:
        settings.QUARTERDECK = {**settings.QUARTERDECK, "tool_private_hosts": hosts}
        conf.cache_clear()

    yield put
    settings.QUARTERDECK = {}
    conf.cache_clear()


@pytest.mark.parametrize(
    ("address", "private"),
    [
        ("10.1.2.3", True), ("172.16.0.9", True), ("192.168.1.1", True), ("127.0.0.1", True), ("100.64.3.3", True),
        ("::1", True), ("fd12::1", True), ("::ffff:10.0.0.1", True), ("0.0.0.0", True), ("fe80::1%eth0", True),
        ("93.184.216.34", False), ("2606:2800:220:1::1", False), ("::ffff:93.184.216.34", False),
        ("64:ff9b::7f00:1", True), ("2002:7f00:1::", True), ("::7f00:1", True), ("fec0::1", True),
        ("64:ff9b::5db8:d822", False), ("2002:5db8:d822::1", False),
    ],
)  # fmt: skip
def test_what_is_private(address, private):
    assert is_private(address) is private


@pytest.mark.parametrize(
    ("address", "closed"),
    [
        ("169.254.169.254", True), ("168.63.129.16", True), ("100.100.100.200", True), ("192.0.0.192", True),
        ("fd00:ec2::254", True), ("::ffff:169.254.169.254", True), ("64:ff9b::a9fe:a9fe", True),
        ("2002:a9fe:a9fe::", True), ("::", True), ("224.0.0.1", True), ("127.0.0.1", False), ("::1", False),
        ("93.184.216.34", False), ("shop.example", False),
    ],
)  # fmt: skip
def test_what_is_closed_to_everybody(address, closed):
    assert is_closed_address(address) is closed


@pytest.mark.parametrize(
    ("hosts", "url", "address", "open_"),
    [
        ((), "http://books.corp/", "10.0.0.5", False),
        (("books.corp",), "http://books.corp/", "10.0.0.5", True),
        (("books.corp",), "http://BOOKS.corp:8080/", "10.0.0.5", True),
        (("books.corp:8080",), "http://books.corp/", "10.0.0.5", False),
        (("books.corp:8080",), "http://books.corp:8080/", "10.0.0.5", True),
        (("books.corp",), "http://other.corp/", "10.0.0.5", False),
        (("10.0.0.0/8",), "http://other.corp/", "10.0.0.5", True),
        (("10.0.0.0/8",), "http://other.corp/", "192.168.0.5", False),
        (("fd00::/8",), "http://[fd12::1]/", "fd12::1", True),
        (("10.0.0.5",), "https://other.corp/", "10.0.0.5", True),
        (("*",), "http://books.corp/", "10.0.0.5", True),
        (("*",), "http://books.corp/", "169.254.169.254", False),
        (("bücher.corp",), "http://xn--bcher-kva.corp/", "10.0.0.5", True),
        ((), "http://shop.example/", "93.184.216.34", True),
        (("not/a network",), "http://books.corp/", "10.0.0.5", False),
    ],
    ids=str,
)
def test_who_may_be_reached(listed, hosts, url, address, open_):
    listed(*hosts)
    assert (refused(url, address) is None) is open_


def test_a_call_to_a_private_address_is_cut_before_anything_is_sent(listed, shop: HttpTool):
    listed()
    result = run(shop.contract("/ok"), {}, operation_id="op-1", epoch=1)
    assert (result.kind, result.error_class, result.code) == ("not_sent", "policy", "target_refused")
    assert shop.host.partition(":")[0] not in result.message
    assert shop.effects() == []
    listed(shop.host)
    assert run(shop.contract("/ok"), {}, operation_id="op-1", epoch=1).kind == "ok"


class Door:
    """A listener that keeps the first bytes of everybody who comes, and answers in plain HTTP."""

    def __init__(self) -> None:
        self.heads: list[bytes] = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                guest, _ = self.socket.accept()
                with guest:
                    self.heads.append(guest.recv(65_536))
                    guest.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")


@pytest.fixture
def door() -> Iterator[Door]:
    door = Door()
    yield door
    door.socket.close()


@pytest.fixture
def shut_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


def aimed(adapter: str, target: str, scheme: str = "http") -> dict[str, Any]:
    config: dict[str, Any] = {"url": f"{scheme}://{target}/x"}
    config |= {"tool": "x"} if adapter == "mcp" else {"method": "GET"}
    about = {"name": "shop.read", "version": 1, "side_effect": "read", "recovery": "replayable", "timeout_s": 5}
    return {**about, "adapter": adapter, "config": config, "targets": [target], "input_schema": {"type": "object"}}


@pytest.mark.parametrize("adapter", ["http", "mcp"])
def test_a_private_address_is_refused_alike_whether_it_listens_or_not(listed, door: Door, shut_port: int, adapter: str):
    listed()
    targets = (f"127.0.0.1:{door.port}", f"127.0.0.1:{shut_port}", "10.255.255.1:9")
    results = [run(aimed(adapter, target)) for target in targets]
    assert len({(one.kind, one.error_class, one.code, one.message, one.sent) for one in results}) == 1
    assert "private address" in results[0].message
    assert door.heads == [], "nobody came to the door"


def test_name_and_way_of_a_judged_connection(listed, door: Door):
    """The way is the address that was judged; Host and the name in the TLS greeting stay those of the contract."""
    target = f"localhost:{door.port}"
    listed(target)
    assert run(aimed("http", target)).kind == "ok"
    assert f"host: {target}".encode() in door.heads[0].lower()
    assert run(aimed("http", target, "https")).kind == "error"
    assert b"localhost" in door.heads[1], "the greeting names the host"


@pytest.mark.parametrize("blocking", [True, False])
def test_what_was_judged_is_connected_to_and_is_asked_once(door: Door, blocking: bool):
    asked: list[tuple[str, int, str]] = []

    def judge(host: str, port: int, address: str) -> str | None:
        asked.append((host, port, address))
        # A name that leads elsewhere a moment later: whoever asked a second time would be told another thing.
        return None if address == "127.0.0.1" and asked.count(asked[-1]) == 1 else "closed"

    url = f"http://localhost:{door.port}/x"

    async def get() -> httpx2.Response:
        async with httpx2.AsyncClient(transport=JudgedTransport(judge), trust_env=False) as client:
            return await client.get(url)

    if blocking:
        with httpx2.Client(transport=BlockingJudgedTransport(judge), trust_env=False) as client:
            answer = client.get(url)
    else:
        answer = drive(get())
    assert answer.status_code == 200
    assert asked.count(("localhost", door.port, "127.0.0.1")) == 1


@pytest.mark.parametrize("blocking", [True, False])
def test_nobody_is_connected_to_who_was_refused(door: Door, blocking: bool):
    url = f"http://localhost:{door.port}/x"

    async def get() -> None:
        async with httpx2.AsyncClient(transport=JudgedTransport(lambda *_: "closed"), trust_env=False) as client:
            await client.get(url)

    def get_blocking() -> None:
        with httpx2.Client(transport=BlockingJudgedTransport(lambda *_: "closed"), trust_env=False) as client:
            client.get(url)

    with pytest.raises(AddressRefused, match="closed"):
        get_blocking() if blocking else drive(get())
    assert door.heads == []
