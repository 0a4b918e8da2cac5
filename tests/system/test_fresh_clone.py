"""README's two commands in an empty folder do everything; after kill -9 of everything the second one goes on (C4.4).

The commands are taken out of README's text: where it says something that does not work, these tests fail.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.support.console import ROOT, Console, wait_for
from tests.support.patience import patient

pytestmark = [pytest.mark.proof, pytest.mark.req("A6.2", "C4.4")]
SET_UP_SECONDS, START_SECONDS, RUN_SECONDS = 400.0, 100.0, 60.0
# What belongs to the tests or to the make that runs them; package indexes and caches stay as the machine has them.
_NOT_OURS = re.compile(
    r"QUARTERDECK_|DJANGO_|PYTEST|MAKE|MFLAGS$|VIRTUAL_ENV$|PYTHONPATH$|DATABASE_URL$|SECRET_KEY$|UP$"
)


def commands(heading: str, number: int = 0) -> list[str]:
    """Return the lines of the ``number``-th block of shell commands below a heading of README."""
    part = (ROOT / "README.md").read_text().partition(f"\n{heading}\n")[2]
    block = re.findall(r"^```sh\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)[number]
    return [line for line in block.splitlines() if line.strip()]


class Clone(Console):
    """README's commands typed by somebody in ``folder``; what runs is the clone, with its own .venv and data."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.place = folder, folder / "quarterdeck"
        super().__init__(self.place / ".quarterdeck")
        self.log = folder / "console.log"

    def environment(self) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not _NOT_OURS.match(name)}
        return {**own, "UP": f"--port {self.port} --workers 1"}

    def type(self, *lines: str, where: Path) -> Clone:
        """Start lines of shell in the foreground of a terminal of their own."""
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                ["bash", "-ec", "\n".join(lines)], cwd=where, env=self.environment(), stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        return self

    def second_terminal(self, *lines: str) -> str:
        """Run lines in the clone's folder and return what they print."""
        done = subprocess.run(
            ["bash", "-ec", "\n".join(lines)], cwd=self.place, env=self.environment(), capture_output=True, text=True,
            timeout=patient(RUN_SECONDS * 2), check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{lines}: {done.stdout[-2000:]}{done.stderr[-2000:]}\n{self.output[-2000:]}"
        return done.stdout

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        assert self.process is not None
        os.killpg(self.pid, signal.SIGINT)
        self.process.wait(patient(60))


@pytest.fixture
def clone() -> Iterator[Clone]:
    """An empty folder with a space in its name."""
    folder = Path(tempfile.mkdtemp(prefix="qd fresh ", dir="/tmp"))
    folder.chmod(0o755)
    clone = Clone(folder)
    yield clone
    clone.kill_everything()
    if clone.home.exists():
        shutil.rmtree(clone.postgres.layout.place, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def sign_in(clone: Clone, name: str, password: str) -> str:
    """Sign in as a person does and return the page that it leads to."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    url = f"http://127.0.0.1:{clone.port}/"
    with browser.open(url, timeout=30) as answer:
        page = answer.read().decode()
        assert "/sign-in/" in answer.url
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
    assert token is not None, page[:2000]
    form = urlencode({"csrfmiddlewaretoken": token[1], "username": name, "password": password}).encode()
    with browser.open(urllib.request.Request(f"{url}sign-in/", form, {"Referer": url}), timeout=30) as answer:
        assert answer.url == f"{url}now/"
        return str(answer.read().decode())


def call(clone: Clone, token: str, path: str, body: Any = None) -> Any:
    """Call the API and return its answer."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{clone.port}/api/v1/{path}", data, headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def test_two_commands_set_everything_up_and_the_second_goes_on_after_kill_9(clone):
    get, up = commands("## Two commands")
    clone.type(get.replace("<address of this repository>", shlex.quote(str(ROOT))), up, where=clone.folder)
    clone.wait_ready(SET_UP_SECONDS)
    assert "making .venv with Python 3" in clone.output
    assert "fetching the Python packages" in clone.output
    told = f"Quarterdeck is ready at http://127.0.0.1:{clone.port}/"
    wait_for(lambda: told in clone.output and clone.output.count("sign in as") == 5, 30, "address and sign-ins")
    password = re.search(r"  sign in as approver \(tenant acme\): (\S+)", clone.output)
    assert password is not None
    assert "approver" in sign_in(clone, "approver", password[1])

    first_task = commands("### A first task, by command line")
    finished = json.loads(clone.second_terminal(*first_task))
    assert finished["status"] == "completed"
    runs, show, events, rebuild = commands("### A first task, by command line", 1)
    assert '"status"' in clone.second_terminal(runs)
    assert clone.second_terminal(events.replace("ID", finished["id"])).count("STEP_SUCCEEDED") >= 3

    waiting = json.loads(clone.second_terminal(*asks_for_an_approval()))["run_id"]

    def status() -> str:
        return str(json.loads(clone.second_terminal(show.replace("ID", waiting)))["run"]["status"])

    wait_for(lambda: status() == "waiting_approval", RUN_SECONDS, "it waits for a person")

    clone.kill_everything()
    clone.type(up, where=clone.place).wait_ready(START_SECONDS)
    wait_for(lambda: clone.output.count("manage.py example passwords") == 2, 30, "how to get new passwords")
    assert clone.output.count("  sign in as") == 5, "the passwords were told once"
    assert "approver" in sign_in(clone, "approver", password[1])
    for run_id in (finished["id"], waiting):
        assert json.loads(clone.second_terminal(rebuild.replace("ID", run_id)))["ok"] is True
    assert status() == "waiting_approval"
    approve(clone, waiting)
    wait_for(lambda: status() == "completed", RUN_SECONDS, "what waited goes on")
    clone.second_terminal(".venv/bin/python manage.py invariants")
    clone.interrupt()
    assert "stopped" in clone.output.splitlines()[-3:]
    assert clone.postgres.pid() is None


def asks_for_an_approval() -> list[str]:
    """Return README's first task for more than it lets pass unasked, and without waiting for its end."""
    lines = commands("### A first task, by command line")
    return [line.replace("20.00", "140.00").replace("A-1001", "A-1002").replace(" --wait", "") for line in lines]


def approve(clone: Clone, run_id: str) -> None:
    """Decide the run's request with a token that README's command prints."""
    (told,) = [line for line in commands("### The same by HTTP, with a token", 2) if line.startswith("APPROVER=")]
    token = clone.second_terminal(told, 'echo "$APPROVER"').strip()
    (asked,) = call(clone, token, f"approvals/?run={run_id}")["items"]
    words = {"version": asked["version"], "payload_hash": asked["payload_hash"], "comment": "order looked up"}
    call(clone, token, f"approvals/{asked['id']}/decide/", {"decision": "approve", **words})
