"""`manage.py up` with the example: the shop beside it, sign-ins printed, runs in every state in the background."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.console import Console, wait_for

pytestmark = pytest.mark.slow


class WithExample(Console):
    """A console that makes the example."""

    def command(self, *arguments: str) -> list[str]:
        return [word for word in super().command(*arguments) if word != "--no-example"]


@pytest.fixture
def console() -> Iterator[WithExample]:
    folder = Path(tempfile.mkdtemp(prefix="qd-up-", dir="/tmp"))
    folder.chmod(0o755)
    console = WithExample(folder / "data").start()
    yield console
    console.kill_everything()
    shutil.rmtree(console.postgres.layout.place, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def test_the_example_comes_up_and_stays(console):
    console.wait_ready(120)
    told = (
        "making a PostgreSQL below",
        "applying",
        "preparing the example tenant",
        "starting shop, web, heartbeat, workers, scheduler",
        "Quarterdeck is ready at",
    )
    wait_for(lambda: told[-1] in console.output, 10, "the address")
    places = [console.output.index(one) for one in told]
    assert places == sorted(places), "it says what it does, in the order of doing it"
    wait_for(lambda: console.output.count("  sign in as") == 5, 10, "five sign-ins")
    assert console.output.count("manage.py example passwords") == 1
    place = json.loads((console.home / "example" / "shop.json").read_text())

    def counts() -> dict:
        with urllib.request.urlopen(f"http://127.0.0.1:{place['port']}/", timeout=5) as answer:
            return json.load(answer)

    wait_for(lambda: (console.home / "example" / "seeded").exists(), 120, "the runs of the example")
    paid = counts()["refunds"]
    assert paid >= 20
    shop = console.child("shop")
    assert shop is not None
    os.kill(shop, signal.SIGKILL)
    wait_for(lambda: console.child("shop") not in (None, shop), 20, "another shop")

    def same() -> bool:
        try:
            return counts()["refunds"] >= paid
        except OSError:
            return False

    wait_for(same, 20, "its books")
    assert console.stop() == 0
    # A warm start makes nothing anew, and tells no password again: same shop, no second set of runs.
    console.start().wait_ready(60)
    wait_for(lambda: console.output.count("manage.py example passwords") == 2, 10, "how to get new passwords")
    assert console.output.count("  sign in as") == 5
    assert not (console.home / "example_sign_ins").exists()
    assert json.loads((console.home / "example" / "shop.json").read_text()) == place
    assert counts()["refunds"] >= paid
    assert console.output.count('"seeded"') == 1
    assert console.stop() == 0
