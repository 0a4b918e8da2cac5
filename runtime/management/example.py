"""The built-in tools in a tenant: what every example, test and new tenant begins with."""

from __future__ import annotations

from runtime.kernel.actor import Actor
from runtime.tools.builtin import BUILTIN_CONTRACTS
from runtime.tools.registry import register_tool


def register_builtin_tools(actor: Actor) -> None:
    """Register the product's own tools in the actor's tenant; those that are there stay."""
    for contract in BUILTIN_CONTRACTS:
        register_tool(actor=actor, contract=contract.as_json(), builtin=True)
