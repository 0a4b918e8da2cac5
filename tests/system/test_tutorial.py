"""README's own workflow, made of the files it names and run by the commands it prints, with real workers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.db import Database
from tests.support.patience import patient
from tests.support.workers import ROOT, Stack

pytestmark = [pytest.mark.req("C4.4", "A2.4"), pytest.mark.django_db(transaction=True)]
FILES = {
    "return.json",
    "load_order.json",
    "pay_back.json",
    "payments.json",
    "shop/pyproject.toml",
    "shop/shop_tools.py",
}


def written(folder: Path) -> set[str]:
    """Write every text of README that stands under a file's name; return the names."""
    text = (ROOT / "README.md").read_text()
    found = re.findall(r"^`([\w./]+)`:\n\n```\w+\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for name, text in found:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.replace("/tmp/shop_books.jsonl", str(folder / "books.jsonl")))
    return {name for name, _text in found}


def installed(folder: Path) -> None:
    """Lay the package out as pip does, without asking an index for what builds it."""
    project = tomllib.loads((folder / "shop" / "pyproject.toml").read_text())["project"]
    info = folder / "shop" / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    rows = [f"{name} = {place}" for name, place in project["entry-points"]["quarterdeck.tools"].items()]
    (info / "entry_points.txt").write_text("\n".join(["[quarterdeck.tools]", *rows, ""]))


def commands() -> list[str]:
    part = (ROOT / "README.md").read_text().partition("\n### From the files to a run\n")[2].partition("\n### ")[0]
    blocks = re.findall(r"^```sh\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)
    assert "uv pip install" in blocks[0]
    return [line for line in blocks[1].splitlines() if line.strip()]


def typed(line: str, folder: Path, database: Database) -> str:
    """Run a line of README in the folder of its files; return what it prints."""
    line = line.replace(".venv/bin/python manage.py", f"{sys.executable} {ROOT / 'manage.py'}")
    done = subprocess.run(
        ["bash", "-ec", line], cwd=folder, env=database.environ(), capture_output=True, text=True, timeout=patient(90),
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{line}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def test_the_manuals_workflow_runs_from_its_files_to_a_verdict(fresh_db, tmp_path, monkeypatch):
    assert written(tmp_path) == FILES
    installed(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "shop"), str(ROOT)]))
    typed(".venv/bin/python manage.py tenant create acme", tmp_path, fresh_db)
    *first, submit = commands()
    with Stack(fresh_db, workers=1) as stack:
        stack.wait_ready()
        for line in first:
            typed(line, tmp_path, fresh_db)
        run = json.loads(typed(submit, tmp_path, fresh_db))
        assert run["status"] == "completed", run
        again = json.loads(typed(submit, tmp_path, fresh_db))
        assert again["status"] == "completed", again
    paid = [json.loads(line) for line in (tmp_path / "books.jsonl").read_text().splitlines()]
    assert [(one["order_id"], one["amount"]) for one in paid] == [("R-7001", "20.00")]
