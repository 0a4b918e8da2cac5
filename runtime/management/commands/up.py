"""`manage.py up`: the whole console on this machine, kept running until Ctrl-C or SIGTERM."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
import urllib.error
import urllib.request
from argparse import ArgumentTypeError
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections

from runtime.kernel.errors import ConfigurationError, QuarterdeckError
from runtime.store import embedded
from runtime.worker.children import Child
from runtime.worker.supervisor import Supervisor, only_one

MANAGE = [sys.executable, str(settings.BASE_DIR / "manage.py")]
MOST_WORKERS = 1_000
MOST_WEB = 64
BACKLOG = 1_024
STOP_ORDER = ("workers", "scheduler", "heartbeat", "web", "shop")


class Command(BaseCommand):
    help = "Run everything: PostgreSQL (unless DATABASE_URL names one), web, workers, heartbeat and scheduler."
    requires_system_checks: list[str] = []

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """Take no abbreviations: manage.py reads `--data` before this does, and knows that name alone."""
        return super().create_parser(prog_name, subcommand, allow_abbrev=False, **kwargs)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=_between(1, 65_535), default=8000, help="port of the web server (8000)")
        parser.add_argument("--bind", default="127.0.0.1", help="address of the web server (127.0.0.1)")
        workers = settings.Q_CLUSTER["workers"]
        parser.add_argument("--workers", type=_between(1, MOST_WORKERS), default=workers, help="worker processes (2)")
        parser.add_argument("--web", type=_between(1, MOST_WEB), default=1, help="web processes at that port (1)")
        parser.add_argument("--no-example", action="store_true", help="do not create the example tenant")
        # manage.py reads it before the settings are; here it is only known.
        parser.add_argument("--data", metavar="DIR", help="data folder instead of QUARTERDECK_DATA or .quarterdeck")

    def handle(self, *args: Any, **options: Any) -> None:
        data = Path(settings.QUARTERDECK_DATA)
        try:
            with only_one(data):
                self._run(data, options)
        except QuarterdeckError as error:
            raise CommandError(f"{error.detail} {error.remediation}".strip()) from None

    def _run(self, data: Path, options: dict[str, Any]) -> None:
        listening = self._listen(options["bind"], options["port"], options["web"])
        postgres = embedded.Server(data) if settings.QUARTERDECK_EMBEDDED else None
        if postgres:
            there = (postgres.data / "PG_VERSION").exists()
            self._tell("starting PostgreSQL" if there else f"making a PostgreSQL below {data}")
            postgres.start()
        try:
            migrate_when_needed(self._tell)
            if not options["no_example"]:
                self._tell("preparing the example tenant")
            shop = None if options["no_example"] else ensure_example()
        finally:
            connections.close_all()
        host = options["bind"] if options["bind"] not in ("0.0.0.0", "::") else "127.0.0.1"
        url = f"http://{f'[{host}]' if ':' in host else host}:{options['port']}/"
        os.environ.setdefault("QUARTERDECK_PUBLIC_URL", url)
        children = self._children(options, shop, listening)
        order = [child.name for name in STOP_ORDER for child in children if child.name.partition("-")[0] == name]
        supervisor = Supervisor(data, children, order, postgres=postgres, url=url)
        self._tell(f"starting {', '.join(child.name for child in children)}")
        once = Once(data / "example" / "seeded", [*MANAGE, "example", "seed"]) if shop else None
        try:
            supervisor.run(self._announce_when_ready(url, sign_ins(shop) if shop else [], once))
        finally:
            if once is not None:
                once.stop()
        self.stdout.write("stopped")

    def _tell(self, text: str) -> None:
        """Say on standard error what takes a while now: standard output has the address and the sign-ins."""
        self.stderr.write(f"{text} …", style_func=str)
        self.stderr.flush()

    def _children(
        self, options: dict[str, Any], shop: dict[str, Any] | None, listening: socket.socket | None
    ) -> list[Child]:
        worker = {"QUARTERDECK_DB_ROLE": "worker", "QUARTERDECK_WORKERS": str(options["workers"])}
        where = Path(settings.BASE_DIR)
        outside = [Child("shop", shop["command"], where)] if shop else []
        if shop:
            # The example's shop runs beside it on this machine, where no other tool may reach.
            listed = filter(None, [os.environ.get("QUARTERDECK_TOOL_PRIVATE_HOSTS"), urlsplit(shop["shop"]).netloc])
            worker["QUARTERDECK_TOOL_PRIVATE_HOSTS"] = ",".join(listed)
        return [
            *outside,
            *_web(options, where, listening),
            Child("heartbeat", [*MANAGE, "heartbeat"], where, worker),
            Child("workers", [*MANAGE, "worker"], where, worker),
            Child("scheduler", [*MANAGE, "scheduler"], where, worker),
        ]

    def _announce_when_ready(self, url: str, sign_ins: list[str], once: Once | None) -> Callable[[], None]:
        """Return a callback that asks /readyz until it answers 200, prints the address and starts what runs once."""
        waiting, begun, next_look, told = True, time.monotonic(), 0.0, False

        def on_tick() -> None:
            nonlocal waiting, next_look, told
            now = time.monotonic()
            if not waiting and once is not None:
                once.look()
            if not waiting or now < next_look:
                return
            next_look = now + (0.2 if now - begun < 15 else 2.0)
            if reasons := not_ready(url):
                if now - begun > 30 and not told:
                    told = True
                    self.stderr.write(f"not ready yet: {reasons}")
            else:
                waiting = False
                self.stdout.write(f"Quarterdeck is ready at {url}")
                for line in sign_ins:
                    self.stdout.write(f"  {line}")
                self.stdout.flush()

        return on_tick

    def _listen(self, bind: str, port: int, processes: int) -> socket.socket | None:
        """Return the socket that several web processes share; None for one alone, which opens its own.

        Raises ConfigurationError for an address that is taken, and for several at one of IPv6.
        """
        family = socket.AF_INET6 if ":" in bind else socket.AF_INET
        if processes > 1 and family == socket.AF_INET6:
            # daphne takes every socket it is handed for one of IPv4, and would call its clients by garbled addresses.
            raise ConfigurationError(
                "Several web processes share an address of IPv4 only.",
                remediation="Bind 127.0.0.1 or 0.0.0.0, or leave out --web; a proxy in front may speak IPv6.",
            )
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((bind, port))
            if processes > 1:
                listening.listen(BACKLOG)
                return listening
        except OSError as error:
            listening.close()
            raise ConfigurationError(
                f"The web server cannot listen on {bind}:{port} ({error.strerror}).", remediation="Name another --port."
            ) from None
        listening.close()
        return None


def _web(options: dict[str, Any], where: Path, listening: socket.socket | None) -> list[Child]:
    """Return the web processes: one at its own socket, or several that share ``listening`` and take turns."""
    daphne = [sys.executable, "-m", "daphne", "-v", "0", "--no-server-name"]
    application = ":".join(settings.ASGI_APPLICATION.rsplit(".", 1))
    role = {"QUARTERDECK_DB_ROLE": "web"}
    if listening is None:
        place = ["-b", options["bind"], "-p", str(options["port"])]
        return [Child("web", [*daphne, *place, application], where, role)]
    shared = listening.fileno()
    command = [*daphne, "--fd", str(shared), application]
    names = ["web", *(f"web-{number}" for number in range(2, options["web"] + 1))]
    return [Child(name, command, where, role, fds=[shared]) for name in names]


def _between(least: int, most: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        try:
            found = int(text)
        except ValueError:
            found = least - 1
        if not least <= found <= most:
            raise ArgumentTypeError(f"{text[:20]!r} is no whole number from {least} to {most}")
        return found

    return number


def not_ready(url: str) -> str:
    """Return what /readyz finds missing, or an empty string when it answers 200."""
    try:
        with urllib.request.urlopen(f"{url}readyz", timeout=2):
            return ""
    except urllib.error.HTTPError as answer:
        return answer.read().decode(errors="replace")
    except OSError as error:
        return str(error) or "no answer"


def migrate_when_needed(tell: Callable[[str], None] | None = None) -> None:
    """Apply migrations when some are missing, and ``tell`` so; a warm start only asks."""
    from django.db.migrations.executor import MigrationExecutor

    executor = MigrationExecutor(connections["owner"])
    if plan := executor.migration_plan(executor.loader.graph.leaf_nodes()):
        if tell is not None:
            tell(f"applying {len(plan)} migrations")
        call_command("migrate", verbosity=0, interactive=False)


def ensure_example() -> dict[str, Any]:
    """Make what is missing of the example; return {tenant, shop, command, sign_ins}: ``command`` starts its shop.

    The example lies above this package, so it is asked for by the name of its command.
    """
    said = StringIO()
    call_command("example", "ensure", stdout=said)
    answer: dict[str, Any] = json.loads(said.getvalue())
    return answer


def sign_ins(example: dict[str, Any]) -> list[str]:
    """Return the lines that tell who signs in: with the passwords made at this start, else how to get new ones."""
    made: dict[str, str] = example["sign_ins"]
    if not made:
        return ["the example's people have the passwords they had; new ones: `manage.py example passwords`"]
    told = [f"sign in as {name} (tenant {example['tenant']}): {password}" for name, password in made.items()]
    return [*told, "these passwords are told this once; new ones: `manage.py example passwords`"]


class Once:
    """A command that runs once in the background, and again at the next start only if it failed."""

    def __init__(self, mark: Path, command: list[str]) -> None:
        self.mark = mark
        self.child = None if mark.exists() else Child("seed", command, Path(settings.BASE_DIR))
        self.begun = False

    def look(self) -> None:
        """Start it, or see whether it has ended."""
        if self.child is None:
            return
        if not self.begun:
            self.begun = True
            self.child.start()
        elif (status := self.child.reap()) is not None:
            if status == 0:
                self.mark.touch()
            self.child = None

    def stop(self) -> None:
        """End it if it still runs."""
        if self.child is not None:
            self.child.stop(0.0)
