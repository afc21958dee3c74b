"""The files that a broker of this machine may have open, against those that its partitions need.

No request of Kafka's protocol tells a process's limits.  So they are asked of the operating system, where the
broker runs on this machine and under a user whose processes we may see (Linux).
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from contextlib import suppress

from barnabas.cli.doctor.findings import Findings
from barnabas.cli.doctor.line import Address
from barnabas.log.segments.open_files import descriptors_for, enough_for
from barnabas.server.loop.system import descriptor_advice

__all__ = ["examine_descriptors"]

_LISTENS = "0A"
_LIMIT = re.compile(r"^Max open files\s+(\w+)", re.MULTILINE)


def examine_descriptors(broker: int, at: Address, partitions: int, found: Findings) -> None:
    """Check that the process that listens there may have as many files open as its partitions want."""
    limit = _limit_of(at)
    if limit is None:
        return
    check = f"open files {broker}"
    if enough_for(partitions, limit):
        found.ok(check, f"its process may have {limit:,} files open, and has {partitions:,} partitions")
        return
    found.warn(
        check,
        f"its process may have {limit:,} files open, and has {partitions:,} partitions: it opens and closes "
        "their files again and again",
        descriptor_advice(descriptors_for(partitions)),
    )


def _limit_of(at: Address) -> int | None:
    """Return how many files the process that listens there may have open; None where that cannot be seen."""
    with suppress(OSError, ValueError):
        pid = _process_of(set(_listening(at)))
        if pid is not None:
            with open(f"/proc/{pid}/limits", encoding="ascii") as file:
                limit = _LIMIT.search(file.read())
            if limit is not None:
                return int(limit[1]) if limit[1].isdecimal() else 1 << 30
    return None


def _listening(at: Address) -> Iterator[str]:
    """Return the sockets of this machine that listen at an address of it, as links of descriptors name them."""
    hosts = {str(row[4][0]) for row in socket.getaddrinfo(at.host, at.port, type=socket.SOCK_STREAM)}
    own = {_raw(host) for host in hosts if _is_here(host)}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(FileNotFoundError), open(table, encoding="ascii") as rows:
            for row in rows:
                words = row.split()
                host, _, port = words[1].partition(":")
                if len(words) > 9 and words[3] == _LISTENS and int(port, 16) == at.port:
                    if host in own or (own and not host.strip("0")):
                        yield f"socket:[{words[9]}]"


def _is_here(host: str) -> bool:
    """Return whether it is an address of this machine: nobody can take another one."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        try:
            probe.bind((host, 0))
        except OSError:
            return False
    return True


def _raw(host: str) -> str:
    """Return an address as those tables have it: words of four bytes, in this machine's order."""
    raw = socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
    words = (raw[at : at + 4] for at in range(0, len(raw), 4))
    return "".join(f"{int.from_bytes(word, 'little'):08X}" for word in words)


def _process_of(sockets: set[str]) -> int | None:
    for name in os.listdir("/proc") if sockets else ():
        if name.isdecimal():
            with suppress(OSError):  # gone, or somebody else's
                for descriptor in os.listdir(f"/proc/{name}/fd"):
                    with suppress(FileNotFoundError):
                        if os.readlink(f"/proc/{name}/fd/{descriptor}") in sockets:
                            return int(name)
    return None
