"""How the shop behaves towards a call: well, unless rules told it otherwise at ``/control/rules``.

A rule says for which calls it holds and what happens then. Of all rules that match a call, later ones win member by
member, so that a lasting one ("check epochs") and one for a single call ("drop the connection") go together.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

BEFORE = ("", "hang", "drop", "swallow", "answer")
AFTER = ("", "hang", "drop", "answer", "garbage")
TO = ("*", "order", "refund", "query", "state", "undo", "finish", "mail", "pickup")
_CALLS_KEPT = 20_000


@dataclass(frozen=True, slots=True)
class Manner:
    """What happens to one call; the defaults are good manners.

    ``before`` (nothing is applied yet): hang, then go on; drop the connection; swallow: hang, then drop; answer
    ``status``. ``after`` (it is applied): hang, then answer; drop; answer ``status``; answer garbage. A hang lasts
    ``seconds`` or until it is let go at ``/control/release``. ``partial`` pays half. ``hidden_queries`` and
    ``hidden_s`` keep the effect from the first queries and for seconds. ``callbacks`` calls back that often,
    ``callback_s`` seconds after it was applied. ``deduplicate`` and ``check_epoch`` are what the shop does with
    ``Idempotency-Key`` and ``X-Quarterdeck-Epoch``.
    """

    before: str = ""
    after: str = ""
    seconds: float = 30.0
    status: int = 500
    retry_after: float | None = None
    partial: bool = False
    hidden_queries: int = 0
    hidden_s: float = 0.0
    callbacks: int = 0
    callback_s: float = 0.0
    deduplicate: bool = True
    check_epoch: bool = False


@dataclass(slots=True)
class Rule:
    """For which calls something holds: an address (``to``), an order, how many of them, and with what chance."""

    MATCH: ClassVar[tuple[str, ...]] = ("to", "order_id", "times", "skip", "chance")

    id: int
    manner: dict[str, Any]
    to: str = "*"
    order_id: str | None = None
    times: int | None = 1
    skip: int = 0
    chance: float = 1.0
    hits: int = 0
    seen: int = 0
    released: threading.Event = field(default_factory=threading.Event)

    def shown(self) -> dict[str, Any]:
        """Return the rule with how many calls it met."""
        match = {name: getattr(self, name) for name in self.MATCH}
        return {"id": self.id, **match, **self.manner, "hits": self.hits, "released": self.released.is_set()}


_KNOWN = {one.name: one for one in fields(Manner)}


class Rules:
    """The rules in force, and the calls that came in. Kept in memory: a restarted shop behaves well."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.rules: list[Rule] = []
        self.calls: deque[dict[str, Any]] = deque(maxlen=_CALLS_KEPT)
        self.callback_headers: dict[str, str] = {}
        self._random = random.Random(1)
        self._next = 0

    def add(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """Take a rule and return it. Raises ValueError, saying what is wrong."""
        unknown = set(told) - set(_KNOWN) - set(Rule.MATCH)
        if unknown:
            raise ValueError(f"A rule has no {', '.join(sorted(unknown))}.")
        manner = {name: value for name, value in told.items() if name in _KNOWN}
        for name, allowed in (("before", BEFORE), ("after", AFTER)):
            if manner.get(name, "") not in allowed:
                raise ValueError(f"`{name}` is one of: {', '.join(one for one in allowed if one)}.")
        match = {name: told[name] for name in Rule.MATCH if name in told}
        if match.get("to", "*") not in TO:
            raise ValueError(f"`to` is one of: {', '.join(TO)}.")
        with self.lock:
            self._next += 1
            rule = Rule(self._next, manner, **match)
            self.rules.append(rule)
            return rule.shown()

    def shown(self) -> list[dict[str, Any]]:
        """Return every rule."""
        with self.lock:
            return [rule.shown() for rule in self.rules]

    def clear(self) -> None:
        """Behave well from now on; who hangs is let go."""
        with self.lock:
            for rule in self.rules:
                rule.released.set()
            self.rules.clear()

    def seed(self, number: int) -> None:
        """Let the chances fall as they did before under this number."""
        with self.lock:
            self._random.seed(number)

    def release(self, rule_id: int) -> bool:
        """Let go who hangs by a rule, now and from now on; tell whether there is such a rule."""
        with self.lock:
            rules = [rule for rule in self.rules if rule.id == rule_id]
        for rule in rules:
            rule.released.set()
        return bool(rules)

    def manner(self, to: str, order_id: str, key: str, epoch: int | None) -> tuple[Manner, Callable[[], None]]:
        """Note a call and return how to behave towards it, and what waits out its hang."""
        told: dict[str, Any] = {}
        hanging: list[Rule] = []
        with self.lock:
            self.calls.append({"to": to, "order_id": order_id, "key": key, "epoch": epoch})
            for rule in self.rules:
                if not self._matches(rule, to, order_id):
                    continue
                rule.hits += 1
                told |= rule.manner
                if "before" in rule.manner or "after" in rule.manner:
                    hanging = [rule]
        manner = Manner(**told)

        def hang() -> None:
            for rule in hanging:
                rule.released.wait(manner.seconds)

        return manner, hang

    def _matches(self, rule: Rule, to: str, order_id: str) -> bool:
        if rule.to not in ("*", to) or rule.order_id not in (None, order_id):
            return False
        if rule.times is not None and rule.hits >= rule.times:
            return False
        rule.seen += 1
        if rule.seen <= rule.skip:
            return False
        return rule.chance >= 1.0 or self._random.random() < rule.chance
