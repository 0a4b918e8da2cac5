"""What kind of IP address it is that a tool or a webhook would be connected to (C3.2, C7.4)."""

from __future__ import annotations

import ipaddress

# Where clouds answer who asks from inside, beside the link-local addresses: AWS over IPv6, Azure, Alibaba, Oracle.
_METADATA_ADDRESSES = frozenset(
    map(ipaddress.ip_address, ("fd00:ec2::254", "168.63.129.16", "100.100.100.200", "192.0.0.192"))
)
_NAT64 = int(ipaddress.ip_address("64:ff9b::")) >> 32


def is_closed_address(address: str) -> bool:
    """True for link-local, multicast and metadata IP addresses; False for text that is no address."""
    try:
        ip = bare_address(address)
    except ValueError:
        return False
    return ip.is_link_local or ip.is_multicast or ip.is_unspecified or ip in _METADATA_ADDRESSES


def bare_address(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return an IP address without its zone, and out of what carries IPv4 in IPv6. Raises ValueError for other text.

    Mapped (::ffff:0:0/96), compatible (::/96), NAT64 (64:ff9b::/96, RFC 6052) and 6to4 (2002::/16, RFC 3056).
    """
    ip = ipaddress.ip_address(address.split("%", 1)[0])
    if ip.version == 4:
        return ip
    if ip.sixtofour is not None:
        return ip.sixtofour
    carried = ip.ipv4_mapped is not None or ((int(ip) >> 32) in (0, _NAT64) and int(ip) > 1)
    return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if carried else ip


_SHARED = ipaddress.ip_network("100.64.0.0/10")  # carriers' and cloud providers' inner addresses


def is_private(address: str) -> bool:
    """Say whether an IP address is one of this machine, of a private network, or of no network at all."""
    ip = bare_address(address)
    return not ip.is_global or (ip.version == 4 and ip in _SHARED) or (ip.version == 6 and ip.is_site_local)
