"""To whom the cases of a tool go: the owner that its contract names, beside whoever is on call (C3.1)."""

from __future__ import annotations

from runtime.kernel.errors import QuarterdeckError
from runtime.store.tx import Tx
from runtime.tools.registry import tool_of


def tool_owner(tx: Tx, tool: str) -> str | None:
    """Return the owner named by the contract of ``tool`` (name@version), None for none; in the tenant's transaction."""
    try:
        return (tool_of(tx, tool).contract.owner or None) if tool else None
    except QuarterdeckError:
        return None


def addresses_of(tx: Tx, tool: str) -> list[str]:
    """Return the mail addresses of the tool's owner: of the members of that role or name; a team's name has none."""
    owner = tool_owner(tx, tool)
    return [address for (address,) in tx.rows("addresses_of_owner", {"owner": owner})] if owner else []
