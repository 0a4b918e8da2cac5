"""The built-in tools in a tenant: what every example, test and new tenant begins with."""

from __future__ import annotations

from contextlib import suppress

from runtime.kernel.actor import Actor
from runtime.tools.builtin import BUILTIN_CONTRACTS
from runtime.tools.builtin_samples import builtin_samples
from runtime.tools.registry import register_tool
from runtime.tools.samples import SampleExists, add_samples


def register_builtin_tools(actor: Actor) -> None:
    """Register the product's own tools in the actor's tenant; those that are there stay."""
    for contract in BUILTIN_CONTRACTS:
        register_tool(actor=actor, contract=contract.as_json(), builtin=True)


def keep_builtin_samples(actor: Actor) -> None:
    """Keep the samples of the product's own tools in the actor's tenant; those that are there stay."""
    for contract in BUILTIN_CONTRACTS:
        with suppress(SampleExists):
            samples = builtin_samples(contract)
            add_samples(actor=actor, name=contract.name, version=contract.version, samples=samples)
