"""How far a call is, told while it runs: numbers and a short code, never text (C2.8).

What is told goes out with the worker's heartbeat, past every redaction. So nothing that a payload may hold can be said
here: a stage has letters only, no digits, and there is no room for a sentence.
"""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

MAX_STAGE = 24
_STAGE = re.compile(r"[a-z]+(?:_[a-z]+)*")
_MOST = 1e15


class Told(NamedTuple):
    """``done`` units of ``total`` (None: nobody knows how many), in ``stage`` (None: it has no name)."""

    done: float
    total: float | None
    stage: str | None


def checked(done: Any, total: Any = None, stage: Any = None) -> Told:
    """Return what was told. Raises ValueError, which says what is wrong and how it is right."""
    units, most = _number(done), None if total is None else _number(total)
    if units is None:
        raise ValueError(f"`done` is a number from 0 to {_MOST:.0e}, in units of the tool's own.")
    if total is not None and (most is None or most < units):
        raise ValueError("`total` is a number that is at least `done`; leave it out where it is not known.")
    found = _STAGE.fullmatch(stage) if isinstance(stage, str) else None
    if stage is not None and (found is None or len(found.group()) > MAX_STAGE):
        raise ValueError(f"`stage` is a code of at most {MAX_STAGE} letters a-z and _, such as `reading_pages`.")
    return Told(units, most or None, found.group() if found is not None else None)


def _number(value: Any) -> float | None:
    """Return it as a plain float, None where it is none: a number type of the tool's own may compare as it likes."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except Exception:  # too large, or whatever a type of the tool's own raises
        return None
    return number if math.isfinite(number) and 0 <= number <= _MOST else None


class Showing:
    """Where a call shows how far it is. This one shows it to nobody; it is that of calls that are no step's."""

    __slots__ = ()

    def progress(self, done: Any, total: Any = None, stage: Any = None) -> bool:
        """Take a report; False when it is none. Never raises: a call must not fail by what it says about itself."""
        try:
            told = checked(done, total, stage)
        except ValueError as problem:
            self.refuse(str(problem))
            return False
        self.put(told)
        return True

    def put(self, told: Told) -> None:
        """Show it."""

    def refuse(self, why: str) -> None:
        """Tell whoever wrote the tool that a report was none."""

    def child(self, pid: int) -> None:
        """Show which process carries the call out."""


NOBODY = Showing()
