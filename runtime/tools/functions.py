"""Finding the Python function behind a tool, and what such a function is told about its call.

Customers ship tools as entry points of the group ``quarterdeck.tools`` in an installed package. The product's own
functions are named "module:function", but only where they carry the mark of ``tool_function``: a contract is data that
a tenant sends, so it must not be able to name any function of the process.
"""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module, metadata
from typing import Any, NamedTuple, TypeVar

from runtime.tools.showing import NOBODY, Showing

_F = TypeVar("_F", bound=Callable[..., Any])
GROUP = "quarterdeck.tools"
_NAMESPACES = ("runtime.", "approvals.", "repair.", "dashboard.")
_MARK = "__quarterdeck_tool__"


class ToolNotInstalled(LookupError):
    """This process has no function of that name."""


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a tool may know about its call, when its function takes an argument named ``context``.

    ``operation_id`` is the key to deduplicate by, ``epoch`` the fencing token; ``cancel`` is set when the caller no
    longer wants the answer; ``deadline`` is on the clock of ``time.monotonic()``.
    """

    operation_id: str | None
    business_key: str | None
    epoch: int
    tenant_id: str
    run_id: str
    step_id: str
    attempt: int
    deadline: float
    cancel: threading.Event = field(default_factory=threading.Event)
    showing: Showing = field(default=NOBODY, repr=False, compare=False)

    def progress(self, done: float, total: float | None = None, stage: str | None = None) -> bool:
        """Tell how far the call is: units done, of how many, and a code of the stage it is in (``reading_pages``).

        It is seen with the worker's next heartbeat. Numbers and a code of letters only, so that nothing of a payload
        gets there; False, and nothing else, when it is something else. Costs microseconds; one that follows another
        within a twentieth of a second may be passed over.
        """
        return self.showing.progress(done, total, stage)

    def remaining(self) -> float:
        """Seconds left until the deadline, never negative."""
        return max(0.0, self.deadline - time.monotonic())

    def sleep(self, seconds: float) -> bool:
        """Wait, but no longer than until cancel or deadline; True when the whole time passed."""
        return not self.cancel.wait(min(seconds, self.remaining())) and self.remaining() > 0


class Function(NamedTuple):
    """A loaded function and whether it takes ``context``."""

    call: Callable[..., Any]
    wants_context: bool

    def invoke(self, arguments: dict[str, Any], context: Callable[[], CallContext]) -> Any:
        """Call the function with its arguments as one object; ``context`` is only made when it is wanted."""
        if self.wants_context:
            return self.call(arguments, context=context())
        return self.call(arguments)


def tool_function(function: _F) -> _F:
    """Mark a function of the product as one that a contract may name."""
    setattr(function, _MARK, True)
    return function


def load(config: dict[str, Any]) -> Function:
    """Return the function that a contract's config names; ToolNotInstalled says why it cannot be used."""
    if "entry_point" in config:
        return _from_entry_point(config["entry_point"])
    return _from_product(config["callable"])


@lru_cache(maxsize=1024)
def _from_entry_point(name: str) -> Function:
    found = [entry for entry in metadata.entry_points(group=GROUP) if entry.name == name]
    if not found:
        raise ToolNotInstalled(f"No installed package offers the tool {name!r} in the group {GROUP}.")
    if len({entry.value for entry in found}) > 1:
        raise ToolNotInstalled(
            f"Several installed packages offer the tool {name!r}; it is not clear which one is meant."
        )
    try:
        return _function(found[0].load(), name)
    except ToolNotInstalled:
        raise
    except Exception as error:
        raise ToolNotInstalled(f"The tool {name!r} cannot be imported: {type(error).__name__}.") from error


@lru_cache(maxsize=1024)
def _from_product(reference: str) -> Function:
    module, _, name = reference.partition(":")
    if not module.startswith(_NAMESPACES):
        raise ToolNotInstalled("Only the product's own functions are named by module; ship yours as an entry point.")
    try:
        function = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ToolNotInstalled(f"The product has no function {reference!r}.") from error
    if not getattr(function, _MARK, False):
        raise ToolNotInstalled(f"The function {reference!r} is not offered as a tool.")
    return _function(function, reference)


def _function(function: Any, name: str) -> Function:
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise ToolNotInstalled(f"The tool {name!r} is no plain function.")
    return Function(function, "context" in inspect.signature(function).parameters)
