"""Addresses of clients and of ACLs, compared as addresses.

A dual-stack socket names an IPv4 client "::ffff:10.0.0.1", and Java writes ::1 as "0:0:0:0:0:0:0:1".  Compared
as text, as Apache Kafka does it, a DENY for 10.0.0.1 would be stepped over.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache

__all__ = ["is_address", "plain_host"]


@lru_cache(maxsize=4096)
def plain_host(text: str) -> str:
    """The one spelling of an address: IPv4 also where it is wrapped in IPv6, no zone; other text stays."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return text
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


def is_address(text: str) -> bool:
    """Whether an ACL with that host can ever match: names are never looked up."""
    try:
        ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True
