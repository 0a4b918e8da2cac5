"""Static files: one version of all of them in a page, kept by browsers, found from wherever they are asked for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from dashboard.config.static import version
from tests.support.pages import Reader

ROOT = Path(__file__).resolve().parents[2] / "static"


def body(answer: Any) -> bytes:
    return b"".join(answer.streaming_content)


def test_a_page_names_one_version_and_each_of_its_files_is_there_for_good(made):
    page = Reader(made.tenant, "viewer").get("/runs/")
    files = re.findall(r'(?:src|href)="(/static/[^"]+)"', page)
    assert len(files) > 5
    for file in files:
        assert file.startswith(f"/static/v-{version()}/")
        answer = Client().get(file)
        assert answer.status_code == 200, file
        assert answer["Cache-Control"] == "public, max-age=31536000, immutable"
        assert body(answer)


@pytest.mark.parametrize("prefix", ["", "v-000000000000/"])
def test_another_version_gets_what_is_there_now_and_is_not_kept(prefix):
    answer = Client().get(f"/static/{prefix}js/app.js")
    assert body(answer) == (ROOT / "js" / "app.js").read_bytes()
    assert "immutable" not in answer["Cache-Control"]


@pytest.mark.usefixtures("db")
def test_no_version_leads_out_of_the_folder():
    for path in ("v-000000000000/../manage.py", "v-000000000000/", "v-0/js/app.js", f"v-{version()}/no.js"):
        answer = Client().get(f"/static/{path}")
        assert answer.status_code == 404, path
        assert "immutable" not in answer.headers.get("Cache-Control", "")


def test_files_name_each_other_by_relative_addresses():
    for path in [*ROOT.rglob("*.js"), *ROOT.rglob("*.css")]:
        assert not re.search(r"(?:from |import\(?)[\"']/|url\([\"']?/", path.read_text()), path.name
