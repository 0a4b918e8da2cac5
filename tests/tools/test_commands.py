"""What of the worker's own a tenant's contract may use: allowed programs, and its own secrets (C7.6, C7.7)."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.kernel.conf import Conf, conf
from runtime.kernel.errors import BadInput
from runtime.models import ToolVersion
from runtime.store.tx import tenant_tx
from runtime.tools import commands
from runtime.tools.registry import register_tool
from tests.support.actors import member

pytestmark = pytest.mark.django_db(transaction=True)


def _contract(**config: Any) -> dict[str, Any]:
    return {
        "name": "books.look",
        "version": 1,
        "adapter": "mcp" if "command" in config else "http",
        "config": config,
        "input_schema": {"type": "object"},
        "side_effect": "read",
        "recovery": "replayable",
        "targets": ["books.example.com"],
    }


def _registered(tenant: Any) -> int:
    with tenant_tx(tenant.id):
        return ToolVersion.objects.filter(name="books.look").count()


@pytest.mark.req("C7.7")
@pytest.mark.parametrize(("allowed", "held"), [((), False), (("other",), False), (("serve",), True), (("*",), True)])
def test_a_program_is_started_only_when_the_installation_names_it(tenant, monkeypatch, allowed, held):
    monkeypatch.setattr(commands, "conf", lambda: Conf(**{**_current(), "mcp_commands": allowed}))
    contract = _contract(command="serve", tool="look")
    if held:
        assert register_tool(actor=member(tenant, "admin"), contract=contract)["created"]
    else:
        with pytest.raises(BadInput) as refused:
            register_tool(actor=member(tenant, "admin"), contract=contract)
        assert refused.value.where == "/config/command"
        assert "QUARTERDECK_MCP_COMMANDS" in refused.value.remediation
    assert _registered(tenant) == held


def _current() -> dict[str, Any]:
    return {name: getattr(conf(), name) for name in Conf.__dataclass_fields__}


@pytest.mark.req("C7.6")
def test_a_tenant_names_its_own_secrets_only(tenant):
    own = f"QUARTERDECK_TOOL_{tenant.slug.upper().replace('-', '_')}_KEY"
    foreign = {"authorization": {"env": "QUARTERDECK_TOOL_ACME_KEY"}}
    config: dict[str, Any] = {"url": "https://books.example.com/look", "headers": foreign}
    with pytest.raises(BadInput) as refused:
        register_tool(actor=member(tenant, "admin"), contract=_contract(**config))
    assert own.removesuffix("KEY") in refused.value.remediation
    assert _registered(tenant) == 0
    config["headers"] = {"authorization": {"env": own}}
    assert register_tool(actor=member(tenant, "admin"), contract=_contract(**config))["created"]
