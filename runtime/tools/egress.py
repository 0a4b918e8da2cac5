"""Which addresses a tool may be connected to, whatever its contract says and a name resolves to (C3.2, C7.4)."""

from __future__ import annotations

import ipaddress
from contextlib import suppress
from urllib.parse import urlsplit

from runtime.kernel.conf import conf
from runtime.tools.addresses import is_closed_address, is_private


def refused(url: str, address: str) -> str | None:
    """Return why a connection to ``address``, made for ``url``, is refused; None when it may be used.

    Link-local and metadata addresses are closed to everybody. Private and loopback ones are open only where the
    installation lists the host, its address or its network in QUARTERDECK_TOOL_PRIVATE_HOSTS.
    """
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return refused_at(parts.hostname or "", port, address)


def refused_at(host: str, port: int, address: str) -> str | None:
    """Return the same for a connection by host and port."""
    if is_closed_address(address):
        return "The name leads to a link-local or metadata address."
    if not is_private(address) or _listed(host.lower(), port, address):
        return None
    return "The name leads to a private address that QUARTERDECK_TOOL_PRIVATE_HOSTS does not list."


def _listed(host: str, port: int, address: str) -> bool:
    ip = ipaddress.ip_address(address.split("%", 1)[0])
    hosts = {host}
    with suppress(UnicodeError):  # a client knows a name by its ASCII form, who lists it by the one that is read
        hosts.add(host.encode("ascii").decode("idna"))
    names = {address, *hosts, f"{address}:{port}", f"[{address}]:{port}", *(f"{one}:{port}" for one in hosts)}
    for entry in conf().tool_private_hosts:
        if entry == "*" or entry.lower() in names:
            return True
        try:
            if "/" in entry and ip in ipaddress.ip_network(entry, strict=False):
                return True
        except ValueError:
            continue
    return False
