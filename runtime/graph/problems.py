"""Collects what is wrong with a document, so that its author learns of everything at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, NoReturn

from runtime.kernel.errors import InvalidWorkflow

MAX_PROBLEMS = 25


@dataclass(slots=True)
class Problems:
    """What was found so far, at most ``MAX_PROBLEMS`` places kept; ``total`` counts all of them."""

    found: list[dict[str, str]] = field(default_factory=list)
    total: int = 0
    cycles: list[list[str]] = field(default_factory=list)

    def add(self, where: str, detail: str, mend: str) -> None:
        self.total += 1
        if len(self.found) < MAX_PROBLEMS:
            self.found.append({"where": where, "detail": detail, "remediation": mend})

    def raise_if_any(self) -> None:
        """Raise InvalidWorkflow for the first problem, with all of them under ``problems``."""
        if self.found:
            self._raise()

    def _raise(self) -> NoReturn:
        first = self.found[0]
        extra: dict[str, Any] = {"problems": self.found}
        if self.total > len(self.found):
            extra["problems_left_out"] = self.total - len(self.found)
        if self.cycles:
            extra["cycles"] = self.cycles
        more = f" (and {self.total - 1} more)" if self.total > 1 else ""
        raise InvalidWorkflow(first["detail"] + more, where=first["where"], remediation=first["remediation"], **extra)


def warned(found: Sequence[dict[str, str]]) -> dict[str, Any]:
    """Return the members by which an answer warns: ``warnings``, at most as many as mistakes, and how many more.

    Each is {where, detail, remediation}, as a mistake is; nothing is refused for one.
    """
    more = len(found) - MAX_PROBLEMS
    return {"warnings": list(found[:MAX_PROBLEMS]), **({"warnings_left_out": more} if more > 0 else {})}


def nearest(name: str, known: Iterable[str]) -> str:
    """Return " Did you mean `x`?" when something in ``known`` looks like ``name``, else ""."""
    close = get_close_matches(name, list(known)[:2000], n=1, cutoff=0.75)
    return f" Did you mean `{close[0]}`?" if close else ""
