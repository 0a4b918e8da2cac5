"""Imports of libraries without the optional parts that they load when they find them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Let an import inside the block not find the modules ``names``; what is imported already stays.

    Afterwards whoever imports them gets them.
    """
    hidden = [name for name in names if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # the import system's own word for "not there"
    try:
        yield
    finally:
        for name in hidden:
            if sys.modules.get(name, ...) is None:
                del sys.modules[name]


@contextmanager
def emptied(name: str) -> Iterator[None]:
    """Let an import inside the block find an empty module ``name``, for a library that insists on a part of it."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = empty = ModuleType(name)
    try:
        yield
    finally:
        del sys.modules[name]
        package, _, last = name.rpartition(".")
        if getattr(sys.modules.get(package), last, None) is empty:
            delattr(sys.modules[package], last)
