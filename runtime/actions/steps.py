"""The operator's verbs on a step; each family lives in a file of its own."""

from runtime.actions.finish import force_step, kill_step
from runtime.actions.hold import hold_step, release_step
from runtime.actions.holds import resolve_hold
from runtime.actions.rerun import rerun_step
from runtime.actions.skip import skip_step, unskip_step

__all__ = [
    "force_step",
    "hold_step",
    "kill_step",
    "release_step",
    "rerun_step",
    "resolve_hold",
    "skip_step",
    "unskip_step",
]
