"""Addresses of clients and of ACLs, compared as addresses, and ranges of addresses (CIDR).

A dual-stack socket names an IPv4 client "::ffff:10.0.0.1", and Java writes ::1 as "0:0:0:0:0:0:0:1".  Compared
as text, as Apache Kafka does it, a DENY for 10.0.0.1 would be stepped over.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache

__all__ = ["address_range", "is_address", "is_range", "matches_host", "plain_host"]

# Exactly what Apache Kafka 4.4 takes: a range that one kind of broker did not enforce would be half a door.
_IPV4_RANGE = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})/(\d{1,2})", re.ASCII)
_IPV6_RANGE = re.compile(r"\[?([0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)(?:%\d+)?\]?/\+?(\d+)", re.ASCII)


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


def is_range(text: str) -> bool:
    """Return whether the host of an ACL is meant as a range of addresses, well written or not."""
    return "/" in text


def address_range(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """Read "10.0.0.0/8" or "2001:db8::/32"; bits behind the prefix do not count.

    Raises ValueError, saying what is wrong.
    """
    if (ipv4 := _IPV4_RANGE.fullmatch(text)) is not None:
        *octets, bits = map(int, ipv4.groups())
        if max(octets) > 255:
            raise ValueError(f"{max(octets)} is not in 0 to 255")
        if bits > 32:
            raise ValueError(f"the prefix of an IPv4 range has 0 to 32 bits, not {bits}")
        return ipaddress.IPv4Network((bytes(octets), bits), strict=False)
    ipv6 = _IPV6_RANGE.fullmatch(text)
    if ipv6 is None:
        raise ValueError("it is not an address, a slash and the bits of a prefix, as in 10.0.0.0/8")
    address = ipaddress.IPv6Address(ipv6[1])
    if address.ipv4_mapped is not None:
        raise ValueError(f"{ipv6[1]} is an IPv4 address: write the range as one of IPv4")
    if (bits := int(ipv6[2])) > 128:
        raise ValueError(f"the prefix of an IPv6 range has 0 to 128 bits, not {bits}")
    return ipaddress.IPv6Network((address.packed, bits), strict=False)


@lru_cache(maxsize=4096)
def matches_host(pattern: str, host: str) -> bool:
    """Return whether the address `host` is the one that an ACL names, or lies in the range that it names."""
    if not is_range(pattern):
        return plain_host(pattern) == plain_host(host)
    try:
        return ipaddress.ip_address(plain_host(host)) in address_range(pattern)
    except ValueError:
        return False
