"""State machines of Hypothesis on a real database."""

from __future__ import annotations

from hypothesis import settings
from hypothesis.errors import FlakyStrategyDefinition
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

_TRIES = 3


def run(machine: type[RuleBasedStateMachine], how: settings) -> None:
    """Run a state machine. Raises what its rules and invariants raise.

    A stalled machine may let the database end a wait that stood in the first run of an example and not in the second;
    then Hypothesis draws otherwise and gives the search up without having judged anything. It is begun anew.
    """
    for left in reversed(range(_TRIES)):
        try:
            run_state_machine_as_test(machine, settings=how)
            return
        except FlakyStrategyDefinition:
            if not left:
                raise
