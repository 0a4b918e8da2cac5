"""The web process as it is: daphne in a process of its own on a test's database, and who talks to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.db import connections
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from runtime.worker.children import die_with_parent
from tests.support.db import Database
from tests.support.patience import patient

ROOT = Path(__file__).resolve().parents[2]
T = TypeVar("T")


def drive(scene: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a thread of its own and return its result.

    Playwright keeps a loop running in the main thread of a session that also drives browsers.
    """

    def work() -> T:
        try:
            return asyncio.run(scene)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as threads:
        return threads.submit(work).result()


class Web:
    """daphne in role web. Use it as a context; :meth:`stop` and :meth:`start` restart it on the same port."""

    def __init__(self, database: Database, **environment: str) -> None:
        self.database = database
        # Bound, not listening: nobody else is given the port, before the server has it and while it is started anew.
        self.place = socket.socket()
        self.place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.place.bind(("127.0.0.1", 0))
        self.port = int(self.place.getsockname()[1])
        self.environment = database.environ("web", ALLOWED_HOSTS="127.0.0.1,localhost", **environment)
        self.environment["SECRET_KEY"] = settings.SECRET_KEY
        self.log = Path(tempfile.mkstemp(prefix="qd-web-", suffix=".log")[1])
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Web:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.forget()

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def start(self, seconds: float = 30.0) -> Web:
        """Start it and wait until it answers."""
        command = [sys.executable, "-m", "daphne", "-v", "0", "-b", "127.0.0.1", "-p", str(self.port)]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*command, "dashboard.config.asgi:application"],
                cwd=ROOT,
                env=self.environment,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        until = time.monotonic() + patient(seconds)
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}/healthz", timeout=2):
                return self
            assert self.process.poll() is None, self.output[-3000:]
            assert time.monotonic() < until, self.output[-3000:]
            time.sleep(0.05)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End it."""
        if self.process is not None and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            self.process.wait(patient(20))

    def forget(self) -> None:
        """End it for good."""
        self.stop(signal.SIGKILL)
        self.place.close()
        self.log.unlink(missing_ok=True)

    def get(self, path: str, **headers: str) -> tuple[int, Any]:
        """Return status and body of a GET; JSON is parsed."""
        request = urllib.request.Request(
            f"{self.url}{path}", headers={k.replace("_", "-"): v for k, v in headers.items()}
        )
        try:
            with urllib.request.urlopen(request, timeout=patient(20)) as answer:
                body, status = answer.read(), answer.status
        except urllib.error.HTTPError as answer:
            body, status = answer.read(), answer.code
        with contextlib.suppress(ValueError):
            return status, json.loads(body)
        return status, body.decode(errors="replace")

    # -- sockets

    @contextlib.asynccontextmanager
    async def socket(
        self, run_id: uuid.UUID | str, after: int | None = None, *, token: str | None = None, cookie: str | None = None,
        origin: str | None = None, **more: Any,
    ) -> AsyncIterator[Reader]:  # fmt: skip
        """Open a run's socket with a token, or with a session's cookie from a page at ``origin``.

        That is ours by default; an empty text sends none. ``more`` goes to the client library.
        """
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if cookie:
            headers["Cookie"] = f"{settings.SESSION_COOKIE_NAME}={cookie}"
            if origin != "":
                headers["Origin"] = self.url if origin is None else origin
        query = "" if after is None else f"?after={after}"
        address = f"ws://127.0.0.1:{self.port}/ws/runs/{run_id}/{query}"
        async with connect(address, additional_headers=headers, max_size=2**26, proxy=None, **more) as connection:
            yield Reader(connection)


class Reader:
    """One reader of a run: keeps the picture as a browser does, and checks that nothing is missing from it."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.seq: int | None = None
        self.steps: dict[str, str] = {}
        self.run_status = ""
        self.seen: list[dict[str, Any]] = []

    async def message(self, seconds: float = patient(10)) -> dict[str, Any]:
        """Return the next message that is no tick, taken into the picture."""
        async with asyncio.timeout(seconds):
            while True:
                message = json.loads(await self.connection.recv())
                self.seen.append(message)
                self._take(message)
                if message["type"] != "tick":
                    return message

    def _take(self, message: dict[str, Any]) -> None:
        if message["type"] == "snapshot":
            self.seq, self.steps = message["seq"], {}
        elif message["type"] == "patch":
            assert self.seq is None or message["from_seq"] <= self.seq + 1, f"gap after {self.seq}: {message}"
            assert self.seq is None or message["to_seq"] >= self.seq
            self.seq = message["to_seq"]
        if message["type"] in ("snapshot", "patch"):
            self.run_status = message["run"]["status"]
            for step in message["steps"]:
                self.steps[step["node"]] = step["status"]

    async def until_seq(self, seq: int, seconds: float = patient(10)) -> None:
        """Read on until the picture includes ``seq``."""
        async with asyncio.timeout(seconds):
            while self.seq is None or self.seq < seq:
                await self.message(seconds)

    async def until_silent(self, seconds: float) -> None:
        """Read on until nothing but ticks has come for ``seconds``."""
        with contextlib.suppress(TimeoutError):
            while True:
                await self.message(seconds)

    async def send(self, **message: Any) -> None:
        await self.connection.send(json.dumps(message))

    async def closed(self, seconds: float = patient(10)) -> tuple[int | None, dict[str, Any] | None]:
        """Read until the server closes; return the close code and the problem it told before."""
        problem = None
        try:
            while True:
                message = await self.message(seconds)
                problem = message if message["type"] == "problem" else problem
        except ConnectionClosed as end:
            return (end.rcvd.code if end.rcvd else None), problem


def session_of(user: User, tenant: str | None = None) -> str:
    """Return the key of a new browser session of ``user``."""
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    if tenant is not None:
        session["tenant"] = tenant
    session.create()
    assert session.session_key is not None
    return session.session_key
