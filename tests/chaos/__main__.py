"""The run from end to end: start, load, kill, heal, rest, count."""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
REST_SECONDS = 150.0
_TOLD = ("accepted", "runs", "kills", "effects", "doubts", "questions", "undone", "rest_seconds")


def main() -> int:
    """Run it; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("CHAOS_SECONDS") or 180))
    parser.add_argument(
        "--seed", type=int, default=int(os.environ.get("CHAOS_SEED") or random.SystemRandom().randrange(10**6))
    )
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "chaos.json")
    parser.add_argument("--keep", action="store_true", help="leave the data folder and print its place")
    options = parser.parse_args()
    print(f"chaos: seed {options.seed}, {options.seconds:.0f} s", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="qd-chaos-", dir="/tmp"))
    folder.chmod(0o755)
    summary: dict[str, Any] = {"seed": options.seed, "seconds": options.seconds}
    try:
        summary |= run(folder, options.seed, options.seconds)
    finally:
        if options.keep:
            print(f"chaos: left in {folder}")
        else:
            from runtime.store.embedded import Server

            place = Server(folder / "home").layout.place
            shutil.rmtree(place, ignore_errors=True)
            shutil.rmtree(folder, ignore_errors=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(summary, indent=1, default=str) + "\n")
    for breach in summary["breaches"]:
        print(f"chaos: BREACH {breach}")
    kept = {name: summary[name] for name in _TOLD}
    print(f"chaos: {json.dumps(kept, default=str)}")
    print(f"chaos: {len(summary['breaches'])} breaches, seed {options.seed}; {options.out}")
    return 1 if summary["breaches"] else 0


def run(folder: Path, seed: int, seconds: float) -> dict[str, Any]:
    """Do it in ``folder``; return what happened and every breach."""
    from tests.support.console import Console
    from tests.support.http_tool import HttpTool

    home = folder / "home"
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "dashboard.config.settings",
        "QUARTERDECK_DATA": str(home),
        "QUARTERDECK_DB_ROLE": "web",
        "QUARTERDECK_LEASE_SECONDS": "6",
        "QUARTERDECK_SLOTS": "16",
        "QUARTERDECK_TOOL_PRIVATE_HOSTS": "127.0.0.1",
        "LOG_LEVEL": "INFO",
    }
    os.environ.pop("DATABASE_URL", None)
    console = chaos_console(Console)(home)
    with HttpTool(folder) as shop:
        console.start()
        try:
            console.wait_ready(120)
            return _under_way(console, shop, seed, seconds)
        except BaseException:
            print(console.output[-6000:], file=sys.stderr)
            raise
        finally:
            if console.process is not None and console.process.poll() is None:
                try:
                    console.stop()
                except (subprocess.TimeoutExpired, ProcessLookupError):
                    pass
            console.kill_everything()


def chaos_console(base: type) -> type:
    """Return a console that keeps the settings of the run: two workers, a short lease."""

    class ChaosConsole(base):  # type: ignore[misc, valid-type]
        def command(self, *arguments: str) -> list[str]:
            command = [*super().command(*arguments)]
            command[command.index("--workers") + 1] = "2"
            return command

        def environment(self) -> dict[str, str]:
            names = ("QUARTERDECK_LEASE_SECONDS", "QUARTERDECK_SLOTS", "QUARTERDECK_TOOL_PRIVATE_HOSTS", "LOG_LEVEL")
            return {**super().environment(), **{name: os.environ[name] for name in names}}

    return ChaosConsole


def _under_way(console: Any, shop: Any, seed: int, seconds: float) -> dict[str, Any]:
    import django

    django.setup()
    from tests.chaos.load import Load, Scene
    from tests.chaos.monkey import Monkey
    from tests.chaos.verdict import judge, wait_for_rest

    scene = Scene.make(shop, seed)
    load = Load(scene, f"http://127.0.0.1:{console.port}", seed)
    monkey = Monkey(console, random.Random(seed))
    load.start()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        monkey.strike()
    load.stop()
    monkey.calm()
    shop.calm()
    begun = time.monotonic()
    unrested = wait_for_rest(console, scene, load, REST_SECONDS)
    rest_seconds = round(time.monotonic() - begun, 1)
    facts = judge(console, scene, load, shop, unrested)
    return {**facts, "kills": monkey.counts(), "strikes": monkey.log, "rest_seconds": rest_seconds}


if __name__ == "__main__":
    sys.exit(main())
