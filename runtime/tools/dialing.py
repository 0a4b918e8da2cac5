"""Connections to judged addresses only: a name is looked up once, and exactly what was judged is connected to (C3.2).

Whether an address may be reached is decided before the first packet leaves. So a refusal is the same and comes as fast
whether something listens there, nothing does or no way leads there, and a name that leads elsewhere a moment later
changes nothing. TLS and the Host header keep the name: only the way there is fixed.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from typing import Any

import httpcore2
import httpx2

# Why nothing is sent to (host, port, address); None when it may be.
Judge = Callable[[str, int, str], str | None]
# So long an address may be silent before the next one of the same name is tried.
_NEXT_AFTER_S = 2.0


class AddressRefused(Exception):
    """Every address that a name leads to is closed to whoever asks; nothing was connected to."""


def _judged(host: str, port: int, found: Iterable[Any], judge: Judge) -> list[str]:
    """Return the addresses of a lookup that may be connected to. Raises AddressRefused when there is none."""
    addresses, reasons = [], []
    for address in dict.fromkeys(str(one[4][0]) for one in found):
        why = judge(host, port, address)
        if why is None:
            addresses.append(address)
        else:
            reasons.append(why)
    if not addresses:
        raise AddressRefused(reasons[0] if reasons else "The name leads to no address.")
    return addresses


class _Dialer(httpcore2.AsyncNetworkBackend):
    """Makes the connections of an asynchronous client."""

    def __init__(self, judge: Judge) -> None:
        self._judge, self._own = judge, httpcore2.AnyIOBackend()

    async def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore2.AsyncNetworkStream:  # fmt: skip
        try:
            async with asyncio.timeout(timeout):
                found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout("The name was not found in time.") from error
        except OSError as error:
            raise httpcore2.ConnectError(str(error)) from error
        *others, last = _judged(host, port, found, self._judge)
        words: dict[str, Any] = {"local_address": local_address, "socket_options": socket_options}
        for address in others:
            try:
                wait = _NEXT_AFTER_S if timeout is None else min(timeout, _NEXT_AFTER_S)
                return await self._own.connect_tcp(address, port, timeout=wait, **words)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await self._own.connect_tcp(last, port, timeout=timeout, **words)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class _BlockingDialer(httpcore2.NetworkBackend):
    """The same for a client that blocks its thread."""

    def __init__(self, judge: Judge) -> None:
        self._judge, self._own = judge, httpcore2.SyncBackend()

    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore2.NetworkStream:  # fmt: skip
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise httpcore2.ConnectError(str(error)) from error
        *others, last = _judged(host, port, found, self._judge)
        words: dict[str, Any] = {"timeout": timeout, "local_address": local_address, "socket_options": socket_options}
        for address in others:
            try:
                return self._own.connect_tcp(address, port, **words)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return self._own.connect_tcp(last, port, **words)


class JudgedTransport(httpx2.AsyncHTTPTransport):
    """A transport that asks ``judge`` first and uses no proxy of the environment. Raises AddressRefused."""

    def __init__(self, judge: Judge, **words: Any) -> None:
        super().__init__(trust_env=False, **words)
        _put(self._pool, _Dialer(judge))


class BlockingJudgedTransport(httpx2.HTTPTransport):
    """The same for a client that blocks its thread."""

    def __init__(self, judge: Judge, **words: Any) -> None:
        super().__init__(trust_env=False, **words)
        _put(self._pool, _BlockingDialer(judge))


def _put(pool: Any, dialer: Any) -> None:
    """Let a pool connect by ``dialer``; the client has no word for it, so a change there must not pass unseen."""
    if not hasattr(pool, "_network_backend"):
        raise RuntimeError("this httpx2 connects in another way: addresses would not be judged")
    pool._network_backend = dialer


__all__ = ["AddressRefused", "BlockingJudgedTransport", "Judge", "JudgedTransport"]
