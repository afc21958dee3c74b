"""Binding a listening socket, with the next step for each way in which that fails; and what a connection within
one machine does otherwise."""

from __future__ import annotations

import errno
import socket
from contextlib import suppress
from ipaddress import ip_address

from barnabas.errors import ConfigError
from barnabas.model import Endpoint

__all__ = ["bind", "unpace"]


def bind(endpoint: Endpoint, backlog: int) -> socket.socket:
    """A socket bound to `endpoint` (not listening yet).  Raises ConfigError with the next step."""
    host = endpoint.host or None
    try:
        found = socket.getaddrinfo(host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ConfigError(
            f"{endpoint}: the host name does not resolve ({error.strerror or error})",
            next_step="check listeners in the configuration",
        ) from error
    found.sort(key=lambda item: item[0] != (socket.AF_INET6 if host is None else item[0]))
    family, kind, protocol, _, address = found[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # accepted sockets inherit it
        if family == socket.AF_INET6 and host is None:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        bound.setblocking(False)
        bound.bind(address)
        if ip_address(str(address[0]).partition("%")[0]).is_loopback:
            unpace(bound)  # (inherited, which is better than later)
    except OSError as error:
        bound.close()
        raise _cannot_bind(endpoint, error) from error
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
        return ConfigError(
            f"{endpoint}: port {endpoint.port} is taken by another process",
            next_step=f"stop it (`ss -ltnp 'sport = :{endpoint.port}'` shows it) "
            "or choose another port in listeners",
        )
    if error.errno == errno.EACCES:
        return ConfigError(
            f"{endpoint}: port {endpoint.port} needs privileges this process does not have",
            next_step="choose a port from 1024 on",
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return ConfigError(
            f"{endpoint}: {endpoint.host} is no address of this machine",
            next_step="listen on an address of this machine or on all (an empty host), "
            "and name the other in advertised.listeners",
        )
    return ConfigError(f"{endpoint}: cannot listen: {error.strerror}")
