"""The PostgreSQL below the tests is the one that was asked for: the machine's, or the embedded one."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from tests.support import db as support

pytestmark = pytest.mark.req("A5.2")
ASKED = os.environ.get("QUARTERDECK_TEST_PG", "embedded")


def test_the_server_is_the_one_that_was_asked_for_and_its_version_is_told(database):
    program = Path(psutil.Process(support.server().pid()).exe())
    assert ("pginstall" in str(program)) is (ASKED == "embedded"), program
    with database.connect() as connection:
        (version,) = connection.execute("SHOW server_version").fetchone()
    told = support.check_server()
    assert told.startswith(f"PostgreSQL {version} ({ASKED}: ")
    assert int(version.partition(".")[0]) >= 15


def test_another_server_than_the_one_that_was_asked_for_is_refused(database, monkeypatch, tmp_path):
    (tmp_path / "initdb").touch()
    monkeypatch.setattr(support, "binaries", lambda: tmp_path)
    monkeypatch.setattr(support, "system_binaries", lambda: tmp_path)
    with pytest.raises(RuntimeError, match=f"QUARTERDECK_TEST_PG is {ASKED}"):
        support.check_server()
