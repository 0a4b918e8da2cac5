"""The classes of work (C7.2): from which priority on they reach, when their work is to start, and when to end.

Among steps of one class whose deadline is the class's the claim's order (priority, then creation) is that of the
deadlines as well: who came first is due first. A running step is never taken from its worker for a more urgent one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from runtime.kernel.seams import Setting

BELOW_SECONDS = 31_536_000.0


@dataclass(frozen=True, slots=True)
class WorkClass:
    """Work of at least this priority: seconds from ready to started, and from the task's start to its deadline.

    ``end_s`` 0.0: a task without a deadline or time limit of its own has none.
    """

    least: int
    start_s: float
    end_s: float = 0.0


# Most urgent first. What a tenant says instead stands in its settings (classes.NAME.start_s, classes.NAME.end_s).
CLASSES: dict[str, WorkClass] = {
    "production_alert": WorkClass(80, start_s=10),
    "interactive": WorkClass(60, start_s=30),
    "approval": WorkClass(40, start_s=60),
    "batch": WorkClass(0, start_s=900),
    "experiment": WorkClass(-50, start_s=3600),
}
# A task may say the name in place of the number.
PRIORITY_CLASSES: dict[str, int] = {name: one.least for name, one in CLASSES.items()}

_SAYS = {
    "production_alert": (
        "Seconds in which work of the class production alert is to start.",
        "Seconds in which a task of the class production alert is to end; 0: in no certain time.",
    ),
    "interactive": (
        "Seconds in which work of the class interactive is to start.",
        "Seconds in which a task of the class interactive is to end; 0: in no certain time.",
    ),
    "approval": (
        "Seconds in which work of the class approval is to start.",
        "Seconds in which a task of the class approval is to end; 0: in no certain time.",
    ),
    "batch": (
        "Seconds in which work of the class batch is to start.",
        "Seconds in which a task of the class batch is to end; 0: in no certain time.",
    ),
    "experiment": (
        "Seconds in which work of the class experiment is to start.",
        "Seconds in which a task of the class experiment is to end; 0: in no certain time.",
    ),
}
SETTINGS: dict[str, Setting] = {
    f"classes.{name}.{part}": Setting(says, default=default, below=BELOW_SECONDS)
    for name, one in CLASSES.items()
    for part, says, default in zip(("start_s", "end_s"), _SAYS[name], (one.start_s, one.end_s), strict=True)
}


def class_of(priority: int) -> str:
    """Return the class that a priority lies in: the highest one it reaches, else the lowest."""
    return next((name for name, one in CLASSES.items() if priority >= one.least), "experiment")


def due_of(classes: Mapping[str, WorkClass], priority: int, start: datetime) -> datetime | None:
    """Return when a task that says nothing of it has to have ended: as its class says, counted from its start."""
    seconds = classes[class_of(priority)].end_s
    return start + timedelta(seconds=seconds) if seconds else None
