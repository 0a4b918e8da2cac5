"""README is held to the code: the table of variables is complete and says the true defaults, the examples are valid."""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections.abc import Iterator
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from django.core.management import BaseCommand, get_commands, load_command_class

import runtime.queries.settings  # noqa: F401  (declares the runtime's own settings of tenants)
from runtime.graph.validate import check_workflow
from runtime.kernel import seams
from runtime.kernel.conf import Conf
from runtime.management.cli import Act
from runtime.tools.builtin import BUILTIN_CONTRACTS
from runtime.tools.contract import ToolContract, check_contract
from runtime.tools.recordings import check_sample, read_recording, why_unfit

ROOT = Path(__file__).resolve().parents[2]
MANUALS = ("README.md", "runtime/README.md", "CHANGELOG.md")
ROW = re.compile(r"^\| `([A-Z][A-Z0-9_]+…?)` \| ([^|]*) \|", re.MULTILINE)
# A family of names that contracts choose; no code reads one of them by name.
FAMILIES = {"QUARTERDECK_TOOL_…"}
READERS = {"str", "bool", "int", "float", "list"}


def readme() -> str:
    return (ROOT / "README.md").read_text()


@cache
def table() -> dict[str, str]:
    """Return variable → default as the table says it, without backticks."""
    rows = ROW.findall(readme().partition("## Configuration")[2].partition("\n## ")[0])
    assert len(rows) == len(dict(rows)), "a variable is listed twice"
    return {name: default.strip().strip("`") for name, default in rows}


def variables() -> Iterator[tuple[str, ast.expr | None]]:
    """Yield (name, default's expression) of every variable that the product's code reads by a literal name."""
    for folder in ("dashboard", "runtime", "approvals", "repair"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
                    yield from of_call(node, ast.unparse(node.func.value))
                elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
                    yield from of_subscript(node, node.slice.value)


def of_subscript(node: ast.Subscript, name: Any) -> Iterator[tuple[str, ast.expr | None]]:
    if isinstance(node.ctx, ast.Load) and ast.unparse(node.value).endswith("environ"):
        yield name, None


def of_call(node: ast.Call, receiver: str) -> Iterator[tuple[str, ast.expr | None]]:
    assert isinstance(node.func, ast.Attribute)
    name = node.args[0]
    if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
        return
    if receiver == "env" and node.func.attr in READERS:
        yield name.value, next((word.value for word in node.keywords if word.arg == "default"), None)
    elif receiver == "os.environ" and node.func.attr == "get" and name.value.isupper() and name.value != "PATH":
        yield name.value, None


def said(value: Any) -> str:
    """Return how the table writes a default."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, (list, tuple)):
        return ",".join(value) or "none"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if value != "" else "none"


def test_every_variable_is_in_the_table_and_no_other():
    read = {name for name, _default in variables()} | {f"QUARTERDECK_{f.name.upper()}" for f in fields(Conf)}
    assert {"DATABASE_URL", "QUARTERDECK_HOST", "QUARTERDECK_SLOTS"} <= read
    assert set(table()) - FAMILIES == read


@pytest.mark.parametrize("field", fields(Conf), ids=lambda field: field.name)
def test_the_limits_have_the_defaults_of_the_table(field):
    assert field.default is not MISSING
    assert table()[f"QUARTERDECK_{field.name.upper()}"] == said(field.default)


def test_the_settings_have_the_defaults_of_the_table():
    # SECRET_KEY's empty default means that one is made.
    told = {
        name: said(ast.literal_eval(default))
        for name, default in variables()
        if name != "SECRET_KEY" and isinstance(default, ast.Constant | ast.List)
    }
    assert len(told) > 10
    assert {name: table()[name] for name in told} == told


def test_the_settings_of_a_tenant_are_told_with_their_defaults_and_words():
    part = readme().partition("### Settings of a tenant")[2].partition("\n## ")[0]
    found = re.findall(r"^\| `(.+?)` \| `(.+?)` \| (.*) \|$", part, re.MULTILINE)
    rows = {key: (default, text) for key, default, text in found}
    known = seams.known_settings()
    assert set(rows) == set(known)
    for key, setting in known.items():
        default, text = rows[key]
        assert default == said(setting.default)
        assert [word for word in setting.words if f"`{word}`" not in text] == []


def examples() -> list[dict[str, Any]]:
    return [json.loads(text) for text in re.findall(r"^```json\n(.*?)^```$", readme(), re.MULTILINE | re.DOTALL)]


def contracts() -> dict[str, ToolContract]:
    known = [check_contract(value) for value in examples() if "adapter" in value]
    assert {contract.adapter for contract in known} == {"python", "http", "mcp"}
    return {contract.reference: contract for contract in (*known, *BUILTIN_CONTRACTS)}


def test_the_examples_can_be_registered():
    known = contracts()
    plans = [check_workflow(value, known_tools=known.get) for value in examples() if "format" in value]
    assert {node.kind for plan in plans for node in plan.nodes.values()} == {
        *("tool", "switch", "approval", "wait", "verifier"),
    }


@pytest.mark.req("C8.8")
def test_the_samples_are_read_as_they_say():
    tool = contracts()["shop.pay_back@1"]
    [samples] = [value["samples"] for value in examples() if "samples" in value]
    for at, one in enumerate(samples):
        check_sample(tool, one, f"/samples/{at}")
        assert why_unfit(tool, one["kind"], one["expect"], read_recording(tool, one["recording"])) is None


def test_every_command_is_named():
    commands = {path.stem for path in (ROOT / "runtime/management/commands").glob("*.py")} - {"__init__"}
    part = readme().partition("## Command line")[2].partition("\n## ")[0]
    assert not [name for name in commands if not re.search(rf"`{name}\b", part)]


def test_every_command_prints_json_but_those_that_the_manual_names():
    ours = {"runtime", "approvals", "repair", "dashboard"}
    names = [name for name, app in get_commands().items() if app in ours]
    text = {name for name in names if not isinstance(load_command_class(get_commands()[name], name), Act)}
    assert text == {"up", "migrate", "worker", "heartbeat", "scheduler"}
    part = readme().partition("## Command line")[2].partition("\n| command")[0]
    assert [name for name in (*text, "token", "database url", "database roles") if f"`{name}`" not in part] == []


def lines() -> list[str]:
    """Return what the table of commands says can be typed: ``stop list [--standing]``."""
    part = readme().partition("## Command line")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?`) \|", part, re.MULTILINE)
    return [span.replace("\\|", "|") for row in rows for span in re.findall(r"`([^`]+)`", row)]


def parsers(line: str) -> list[argparse.ArgumentParser]:
    """Return the parser of the command in ``line`` and those of the verbs in it, which have to exist."""
    name, *words = line.split()
    parser = load_command_class(get_commands()[name], name).create_parser("manage.py", name)
    found = [parser]
    first = next((action for action in parser._actions if not action.option_strings), None)
    if words and first is not None and first.choices is not None:
        assert set(words[0].split("|")) <= set(first.choices), line
    if isinstance(first, argparse._SubParsersAction):
        said = set(re.findall(r"[a-z]+", line))
        found += [one for verb, one in first.choices.items() if verb in said]
    return found


@pytest.mark.parametrize("line", lines())
def test_every_flag_in_the_table_of_commands_exists(line):
    """Django gives every command some flags of its own, such as --version: none of those is meant."""
    django = set(BaseCommand().create_parser("manage.py", "any")._option_string_actions)
    known = {flag for parser in parsers(line) for flag in parser._option_string_actions} - django
    assert set(re.findall(r"(?<![\w-])--[a-z-]+", line)) <= known


def test_the_table_of_commands_is_read_as_it_is_written():
    assert {"law [--out FILE]", "stop list [--standing]", "invariants [--cases]"} <= set(lines())
    assert len(parsers("quarantine list [--state S]|replay ID|discard ID --reason R")) == 4


@pytest.mark.parametrize("manual", MANUALS)
def test_links_lead_somewhere(manual):
    text = (ROOT / manual).read_text()
    places = {re.sub(r"[^\w\- ]", "", line.lstrip("# ").lower()).replace(" ", "-") for line in text.splitlines()}
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("#"):
            broken += [target] if target[1:] not in places else []
        elif not target.startswith("https://") and not (ROOT / manual).parent.joinpath(target).exists():
            broken.append(target)
    assert not broken


def test_the_manual_of_the_runtime_names_files_that_exist():
    text = (ROOT / "runtime/README.md").read_text()
    named = set(re.findall(r"`((?:runtime|tests|dashboard)/[\w/.]+\.(?:py|sql)|tests/[\w/]+/)`", text))
    assert named
    assert not [name for name in sorted(named) if not (ROOT / name).exists()]
