"""`manage.py bench`: measures the product with its own processes and prints one JSON line."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django.core.management.base import CommandParser

from runtime.kernel import seams
from runtime.management.cli import Act

# What is measured → the module under runtime.management.bench that has a function of that name; upper apps add theirs.
BENCHES = {
    "throughput": "engine",
    "wide": "engine",
    "flat": "engine",
    "blocked": "engine",
    "effects": "engine",
    "bounded": "engine",
    "latency": "times",
    "recovery": "times",
    "lost": "times",
    "submit": "intake",
    "bulk": "intake",
    "idle": "whole",
    "start": "whole",
    "live": "screens",
    "graph": "screens",
    "pages": "screens",
    "lists": "lists",
}


class Command(Act):
    help = (
        "Measure and print one JSON line: bench, work, unit, value, p50, p95, p99, n and what belongs to it. "
        "value is the median. It works in a new tenant bench-… of the settings' database and leaves its rows there: "
        "name a database of its own for figures that are to be kept."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("bench", choices=sorted({*BENCHES, *seams.benches()}))
        parser.add_argument("--workers", type=int, default=2, help="worker processes to start (2)")
        parser.add_argument("--workers-running", action="store_true", help="use the workers that run already")
        parser.add_argument("--repeat", type=int, default=3, help="repetitions of a rate or of a start (3)")
        parser.add_argument("--runs", type=int, default=2000, help="runs of a rate (2000)")
        parser.add_argument("--width", type=int, default=5000, help="wide: parallel steps (5000)")
        parser.add_argument(
            "--fill",
            type=int,
            default=1_000_000,
            help="flat, lists: finished steps to add; repairs, bulkrepair: open cases, at most 5000 and 1000 (1000000)",
        )
        parser.add_argument("--bounded", action="store_true", help="flat, latency: with limits and a policy on")
        parser.add_argument("--parked", type=int, default=50_000, help="blocked: parked steps (50000)")
        parser.add_argument("--pending", type=int, default=10_000, help="inbox: pending requests (10000)")
        parser.add_argument("--tenants", type=int, default=50, help="inbox: tenants they are in (50)")
        parser.add_argument("--per-minute", type=int, default=600, help="bulkrepair: cases a minute, at most 600 (600)")
        parser.add_argument("--by", choices=("pause", "limit"), default="pause", help="blocked: what parks (pause)")
        parser.add_argument("--samples", type=int, help="samples of a time; each bench has its own number")
        parser.add_argument("--inline", action="store_true", help="latency: run the step in the worker's own thread")
        parser.add_argument("--seconds", type=float, default=20.0, help="idle, submit, bulk: how long (20)")

    def act(self, options: dict[str, Any]) -> Any:
        from runtime.management.bench.stack import database

        name = options["bench"]
        measure = seams.benches().get(name)
        if measure is None:
            measure = getattr(import_module(f"runtime.management.bench.{BENCHES[name]}"), name)
        if BENCHES.get(name) == "whole":
            return measure(options)
        with database():
            return measure(options)

    def show(self, answer: Any) -> None:
        """Print the line, whatever standard output is."""
        import orjson

        self.stdout.write(orjson.dumps(answer).decode())
        self.stdout.flush()
