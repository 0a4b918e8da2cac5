"""What of the worker's own a contract may use: programs to start, and secrets of its environment (C7.6, C7.7).

Both belong to the installation, which serves many tenants; so neither is a tenant's choice.
"""

from __future__ import annotations

from typing import Any

from runtime.kernel.conf import conf

_PREFIX = "QUARTERDECK_TOOL_"


def command_allowed(command: str) -> bool:
    """Return whether ``command`` is in QUARTERDECK_MCP_COMMANDS, written there just so; ``*`` allows every program."""
    allowed = conf().mcp_commands
    return "*" in allowed or command in allowed


def foreign_secrets(config: dict[str, Any], slug: str) -> list[str]:
    """Return the variables ``config`` refers to that are not the tenant's: its own begin QUARTERDECK_TOOL_<SLUG>_."""
    own = f"{_PREFIX}{slug.upper().replace('-', '_')}_"
    places = [*config.get("headers", {}).values(), *config.get("env", {}).values()]
    names = [value["env"] for value in places if isinstance(value, dict) and "env" in value]
    return [name for name in names if not name.startswith(own)]
