"""Connections that LISTEN: their own, outside Django's, since they wait for ever (engine.md 8)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import connections
from psycopg import sql


def connect(using: str = "default") -> psycopg.Connection[Any]:
    """Open an autocommit connection with the alias's address and role."""
    parameters = connections[using].get_connection_params()
    for name in ("cursor_factory", "context", "pool", "server_side_binding", "prepare_threshold"):
        parameters.pop(name, None)
    return psycopg.connect(**parameters, autocommit=True)


@contextmanager
def listening(*channels: str, using: str = "default") -> Iterator[psycopg.Connection[Any]]:
    """Open a connection that listens on ``channels``; closed at the end of the block."""
    with connect(using) as connection:
        for channel in channels:
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        yield connection


def any_ready(connection: psycopg.Connection[Any], pools: list[str]) -> bool:
    """Return whether a claimable step waits in one of the pools."""
    return bool(connection.execute("SELECT EXISTS (SELECT FROM qd_ready_tenants(%s))", (pools,)).fetchone()[0])  # type: ignore[index]
