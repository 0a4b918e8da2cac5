"""The web process and a Chromium that looks at it, for benchmarks of what a person sees. Needs the dev dependencies."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user_model
from django.contrib.sessions.backends.db import SessionStore

from runtime.kernel.errors import ConfigurationError
from runtime.management.bench.scene import Scene
from runtime.management.bench.stack import READY_SECONDS, wait_until
from runtime.models import Membership
from runtime.store.tx import tenant_tx
from runtime.worker.children import Child

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]


@contextmanager
def web(processes: int = 1, **settings_more: str) -> Iterator[tuple[str, psutil.Process]]:
    """Run daphne in role web, with more of an environment; yield its address and its (first) process.

    Several share one socket, as those of ``up --web`` do.
    """
    listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
    shared = listening.fileno()
    command = [sys.executable, "-m", "daphne", "-v", "0", "--fd", str(shared)]
    command.append(":".join(settings.ASGI_APPLICATION.rsplit(".", 1)))
    more = {"QUARTERDECK_DB_ROLE": "web", "LOG_LEVEL": "WARNING", **settings_more}
    children = [Child("web", command, Path(settings.BASE_DIR), more, fds=[shared]) for _ in range(processes)]
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"

    def answers() -> bool:
        with suppress(OSError), urllib.request.urlopen(f"{address}/healthz", timeout=2):
            return True
        return False

    for child in children:
        child.start()
    try:
        wait_until(answers, READY_SECONDS, "the web process", 0.05)
        yield address, psutil.Process(children[0].pid)
    finally:
        for child in children:
            child.stop(10.0)
        listening.close()


def sign_in(scene: Scene) -> str:
    """Create an admin of the scene's tenant and return the key of a session of theirs."""
    user = get_user_model().objects.db_manager("owner").create_user(username=f"bench-{scene.slug[-12:]}")
    with tenant_tx(scene.actor.tenant_id, using="owner"):
        Membership.objects.using("owner").create(tenant_id=scene.actor.tenant_id, user=user, role="admin")
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session["tenant"] = scene.slug
    session.create()
    return str(session.session_key)


def fetch(address: str, key: str) -> tuple[float, int]:
    """GET an address with a session; return the seconds until the last byte and how many bytes came."""
    begun = time.perf_counter()
    body = _get(address, key)
    return time.perf_counter() - begun, len(body)


def fetch_each(
    asked: dict[str, str], key: str, samples: int, process: psutil.Process
) -> tuple[dict[str, list[float]], float]:
    """GET each address in turn, ``samples`` times after once: ms by name, and the server's own ms of a core a page."""
    for where in asked.values():
        fetch(where, key)
    parts: dict[str, list[float]] = {name: [] for name in asked}
    before = sum(process.cpu_times()[:2])
    for _ in range(samples):
        for name, where in asked.items():
            parts[name].append(fetch(where, key)[0] * 1000)
    return parts, (sum(process.cpu_times()[:2]) - before) / samples / len(asked) * 1000


def read(address: str, key: str) -> str:
    """GET a page with a session."""
    return _get(address, key).decode()


def _get(address: str, key: str) -> bytes:
    request = urllib.request.Request(address, headers={"Cookie": f"{settings.SESSION_COOKIE_NAME}={key}"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            body: bytes = answer.read()
            return body
    except urllib.error.HTTPError as problem:
        raise RuntimeError(f"{address}: {problem.code} {problem.read()[:300]!r}") from None


@contextmanager
def chromium(address: str, key: str) -> Iterator[Any]:
    """Yield a signed-in page of a headless Chromium. Raises ConfigurationError when there is none."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise ConfigurationError("This benchmark needs the dev dependencies (playwright).") from None
    program = os.environ.get("QUARTERDECK_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        raise ConfigurationError("This benchmark needs Chromium.", remediation="apt-get install chromium")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=FLAGS)
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": key, "url": address}])
        try:
            yield context.new_page()
        finally:
            browser.close()


@contextmanager
def traced(page: Any) -> Iterator[list[dict[str, Any]]]:
    """Trace a page's main thread; the list is filled with its tasks when the block ends."""
    found: list[dict[str, Any]] = []
    browser = page.context.browser
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        browser.start_tracing(page=page, path=file.name, categories=["toplevel", "devtools.timeline"])
        try:
            yield found
        finally:
            browser.stop_tracing()
        events = json.loads(Path(file.name).read_bytes())["traceEvents"]
    main = {
        (e["pid"], e["tid"]) for e in events if e.get("name") == "thread_name" and e["args"]["name"] == "CrRendererMain"
    }
    found += [
        e for e in events if e.get("ph") == "X" and e["name"].endswith("RunTask") and (e["pid"], e["tid"]) in main
    ]
