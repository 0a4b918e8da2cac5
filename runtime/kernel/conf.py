"""Typed access to the QUARTERDECK settings; the values and their environment names are listed in README's table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from django.conf import settings


@dataclass(frozen=True, slots=True)
class Conf:
    """Limits and intervals. Times are seconds, sizes are bytes."""

    lease_seconds: float = 15.0
    stall_seconds: float = 60.0
    slots: int = 32
    claim_batch: int = 256
    flush_batch: int = 64
    flush_seconds: float = 0.003
    poll_seconds: float = 1.0
    cancel_grace_seconds: float = 15.0
    max_payload_bytes: int = 1_000_000
    max_json_depth: int = 64
    inline_result_bytes: int = 64_000
    max_result_bytes: int = 50_000_000
    pools: tuple[str, ...] = ("default",)
    mcp_commands: tuple[str, ...] = ()
    operator_tenant: str = ""
    public_url: str = "http://127.0.0.1:8000/"
    webhook_hosts: tuple[str, ...] = ()
    alert_grace_seconds: float = 30.0
    queue_old_seconds: float = 60.0
    stuck_seconds: float = 900.0
    invariants_seconds: float = 300.0
    long_write_seconds: float = 60.0
    live_recheck_seconds: float = 60.0
    live_most: int = 500
    live_most_each: int = 200
    query_give_up_seconds: float = 3600.0
    operation_retention_days: float = 400.0
    breaker_failures: int = 10
    breaker_seconds: float = 30.0
    breaker_window_seconds: float = 60.0
    retries_per_run: int = 1000
    retries_per_tool: int = 1000
    retries_per_tenant: int = 3000
    retries_in_all: int = 10_000
    retries_per_input: int = 100
    queue_high_water: int = 200_000
    tenant_high_water: int = 100_000
    tool_private_hosts: tuple[str, ...] = ()


@cache
def conf() -> Conf:
    """Return the configuration of this process."""
    return Conf(**settings.QUARTERDECK)
