"""One asyncio loop in a thread of its own per process, for calls that wait on the network.

Started at the first call, forgotten after a fork: a forked worker starts its own.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from runtime.tools.outcome import Answer, CallRequest, Failed, NotSent

# The client's log lines repeat whole addresses, and those carry arguments.
logging.getLogger("httpx2").setLevel(logging.WARNING)
_SLICE_S = 0.1
_PATIENCE_S = 5.0
_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


class Progress:
    """How far a call has come; ``sent`` is set immediately before the first byte that could have an effect."""

    __slots__ = ("garbage", "sent")

    def __init__(self) -> None:
        self.sent = False
        self.garbage = False


def loop() -> asyncio.AbstractEventLoop:
    """Return this process's loop, starting its thread when there is none."""
    global _loop
    if _loop is None:
        with _lock:
            if _loop is None:
                fresh = asyncio.new_event_loop()
                threading.Thread(target=fresh.run_forever, name="tool calls", daemon=True).start()
                _loop = fresh
    return _loop


def _forget() -> None:
    global _loop, _lock
    _loop, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)


def run(request: CallRequest, work: Callable[[Progress], Awaitable[Answer]]) -> Answer:
    """Run ``work`` on the loop until it answers, the deadline passes or the call is cancelled.

    Raises Failed or NotSent. A call that had not been sent when it was stopped is known to have no effect.
    """
    progress, done = Progress(), concurrent.futures.Future[Answer]()
    deadline = request.deadline_monotonic or time.monotonic() + request.tool.timeout_s
    running = loop()

    async def body() -> None:
        try:
            async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                answer = await work(progress)
        except asyncio.CancelledError:
            done.set_exception(_stopped("cancelled", progress))
        except TimeoutError:
            done.set_exception(_stopped("timeout", progress))
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(answer)

    tasks: list[asyncio.Task[None]] = []
    running.call_soon_threadsafe(lambda: tasks.append(running.create_task(body())))
    return _await(request, done, deadline, lambda: running.call_soon_threadsafe(lambda: [t.cancel() for t in tasks]))


def _await(
    request: CallRequest, done: concurrent.futures.Future[Answer], deadline: float, stop: Callable[[], Any]
) -> Answer:
    stopped_at: float | None = None
    while True:
        try:
            return done.result(timeout=_SLICE_S)
        except concurrent.futures.TimeoutError:
            if done.done():
                raise
        now = time.monotonic()
        if stopped_at is None and request.cancel.is_set():
            stopped_at = now
            stop()
        overdue = (stopped_at or deadline) + _PATIENCE_S
        if now > overdue:  # the loop itself does not answer; the caller's slot must not wait for it
            raise Failed("timeout", "The call could not be stopped in time.", sent=True)


def _stopped(reason: str, progress: Progress) -> Exception:
    if reason == "cancelled" and not progress.sent:
        return NotSent("cancelled", "cancelled", "The call was cancelled before it was sent.")
    text = "The call was cancelled." if reason == "cancelled" else "The time limit passed."
    return Failed(reason, text, sent=progress.sent)


def spawn(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Start a task on the loop that nobody waits for; call from the loop's own thread."""
    task = asyncio.get_running_loop().create_task(work)
    _background.add(task)
    task.add_done_callback(_background.discard)
    return task


_background: set[asyncio.Task[None]] = set()  # a task without a reference may be collected while it runs


def first_leaf(error: BaseException) -> BaseException:
    """Return the first plain exception inside nested exception groups."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return error
