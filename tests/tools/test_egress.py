"""Private addresses are closed to tools, but for those that the installation lists (C3.2, C7.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from runtime.kernel.conf import conf
from runtime.tools.addresses import is_closed_address, is_private
from runtime.tools.egress import refused
from tests.support.http_tool import HttpTool
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
