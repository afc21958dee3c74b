"""Binding a listening socket, with the next step for each way in which that fails; and what a connection within
one machine does otherwise."""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import Any, TypeAlias

from barnabas.errors import ConfigError, PortTakenError
from barnabas.model import Endpoint

__all__ = ["bind", "unpace"]

_Address: TypeAlias = tuple[int, tuple[Any, ...]]
"""A family, and an address in it."""

_NOT_HERE = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
"""This machine has no such address, or no such family at all."""

_FREE_PORT_TRIES = 20


def bind(endpoint: Endpoint) -> list[socket.socket]:
    """Return sockets bound to every address of `endpoint` on one port (not listening yet).

    An empty host means all addresses: one socket for IPv6 and IPv4, or for IPv4 where there is no IPv6.  A name
    may have several, as `localhost` has ::1 and 127.0.0.1; those that are not this machine's are left out.
    Raises ConfigError with the next step.
    """
    if not endpoint.host:
        return _bind_first(
            [(socket.AF_INET6, ("::", endpoint.port)), (socket.AF_INET, ("0.0.0.0", endpoint.port))], endpoint
        )
    try:
        found = socket.getaddrinfo(
            endpoint.host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise ConfigError(
            f"{endpoint}: the host name does not resolve ({error.strerror or error})",
            next_step="check listeners in the configuration",
        ) from error
    addresses = list(dict.fromkeys((family, address) for family, _, _, _, address in found))
    for _ in range(_FREE_PORT_TRIES):
        try:
            return _bind_each(addresses)
        except OSError as error:
            if endpoint.port or error.errno != errno.EADDRINUSE:
                raise _cannot_bind(endpoint, error) from error
            failed = error  # (the free port of the first address is another's at the next)
    raise _cannot_bind(endpoint, failed)


def _bind_first(addresses: Sequence[_Address], endpoint: Endpoint) -> list[socket.socket]:
    """Return one socket at the first address of a family that this machine has.  Raises ConfigError."""
    for place, (family, address) in enumerate(addresses):
        try:
            return [_bind_one(family, address)]
        except OSError as error:
            if error.errno not in _NOT_HERE or place + 1 == len(addresses):
                raise _cannot_bind(endpoint, error) from error
    raise AssertionError("there is no address")


def _bind_each(addresses: Sequence[_Address]) -> list[socket.socket]:
    """Return a socket for each address of this machine; where the port is 0, all get the port of the first.

    Raises OSError where an address is taken, or this machine has none of them.
    """
    bound: list[socket.socket] = []
    missing: OSError | None = None
    for family, address in addresses:
        port = address[1] or (bound[0].getsockname()[1] if bound else 0)
        try:
            bound.append(_bind_one(family, (address[0], port, *address[2:])))
        except OSError as error:
            if error.errno in _NOT_HERE:
                missing = missing or error
                continue
            for one in bound:
                one.close()
            raise
    if not bound:
        assert missing is not None
        raise missing
    return bound


def _bind_one(family: int, address: tuple[Any, ...]) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # accepted sockets inherit it
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, address[0] != "::")
        bound.setblocking(False)
        bound.bind(address)
        if ip_address(str(address[0]).partition("%")[0]).is_loopback:
            unpace(bound)  # (inherited, which is better than later)
    except OSError:
        bound.close()
        raise
    return bound


def unpace(accepted: socket.socket) -> None:
    """Have a connection within this machine send without pacing, whatever the system's congestion control is.

    BBR spreads what is sent over time, by timers, and keeps little in flight: to a client of the same machine, a
    megabyte costs twice the CPU.  Reno is built in, allowed to everybody, and loses nothing where nothing is lost.
    """
    if hasattr(socket, "TCP_CONGESTION"):  # (Linux)
        with suppress(OSError):  # it costs more without
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")


def _cannot_bind(endpoint: Endpoint, error: OSError) -> ConfigError:
    if error.errno == errno.EADDRINUSE:
        return PortTakenError(str(endpoint), endpoint.port)
    if error.errno == errno.EACCES:
        return ConfigError(
            f"{endpoint}: port {endpoint.port} needs privileges this process does not have",
            next_step="choose a port from 1024 on",
        )
    if error.errno in _NOT_HERE:
        return ConfigError(
            f"{endpoint}: {endpoint.host} is no address of this machine",
            next_step="listen on an address of this machine or on all (an empty host), "
            "and name the other in advertised.listeners",
        )
    return ConfigError(f"{endpoint}: cannot listen: {error.strerror}")
