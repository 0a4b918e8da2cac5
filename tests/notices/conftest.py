"""What is sent, caught: mails in memory, webhooks by a receiver of our own, settings for the time of a test."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from django.core import mail

from runtime.kernel.conf import conf
from tests.support.office import Office


@pytest.fixture
def office(fresh_db, tenant) -> Office:
    """An office alone in its database, since duties look at every tenant; its people have addresses."""
    from django.contrib.auth.models import User

    office = Office(tenant)
    for role in ("approver", "oncall"):
        user = User.objects.get(pk=getattr(office, role).user_id)
        user.email = f"{user.username}@office.example"
        user.save()
    return office


@pytest.fixture
def configure(settings) -> Iterator[Callable[..., None]]:
    """Set fields of the configuration."""

    def change(**fields: Any) -> None:
        settings.QUARTERDECK = {**settings.QUARTERDECK, **fields}
        conf.cache_clear()

    yield change
    settings.QUARTERDECK = {}
    conf.cache_clear()


@pytest.fixture
def mailbox(settings) -> list[Any]:
    """Mails sent by this process."""
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    mail.outbox = []
    return mail.outbox


class Receiver(ThreadingHTTPServer):
    """Takes webhooks; answers what it is told to, once ``answering`` is set, a byte at a time if it ``drips``."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[int] = []
        self.taken: list[tuple[dict[str, str], bytes]] = []
        self.answering, self.drips, self.lock = threading.Event(), False, threading.Lock()
        self.answering.set()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        with self.server.lock:
            self.server.taken.append(({name.lower(): value for name, value in self.headers.items()}, body))
            status = self.server.answers.pop(0) if self.server.answers else 204
        self.server.answering.wait()
        if self.server.drips:
            with suppress(OSError):
                while True:
                    self.connection.sendall(b"x")
                    time.sleep(0.01)
        self.send_response(status)
        if status in (301, 302):
            self.send_header("location", f"http://{self.server.host}/elsewhere")
        self.send_header("content-length", "0")
        self.end_headers()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver of webhooks."""
    receiver = Receiver()
    yield receiver
    receiver.answering.set()
    receiver.shutdown()


@pytest.fixture
def silent() -> Iterator[Receiver]:
    """A receiver that accepts and does not answer until its ``answering`` is set."""
    silent = Receiver()
    silent.answering.clear()
    yield silent
    silent.answering.set()
    silent.shutdown()
