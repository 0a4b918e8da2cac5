"""The CEL library without its command line.

``import cel`` also imports the library's interactive shell, and with it prompt_toolkit and typer: a quarter of what a
process of ours takes to start, and 11 MB in each of them.
"""

from __future__ import annotations

from runtime.kernel.imports import emptied

with emptied("cel.cli"):
    import cel

__all__ = ["cel"]
