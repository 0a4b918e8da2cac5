"""Database work off the event loop: a few threads of our own, each giving its connection back when it is done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from django.db import connections

T = TypeVar("T")
_readers = ThreadPoolExecutor(max_workers=4, thread_name_prefix="live")


async def in_thread(work: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Run ``work`` in a thread. A stream or socket holds no connection between reads, or twenty would use them up."""

    def run() -> T:
        try:
            return work(*args, **kwargs)
        finally:
            connections.close_all()

    return await asyncio.get_running_loop().run_in_executor(_readers, run)
