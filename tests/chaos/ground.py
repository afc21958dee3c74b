"""What the nodes stand on: a network namespace for each where that is allowed, else loopback.

In namespaces every node has an address and a link of its own, on one bridge; the clients are outside, at the
bridge.  Packets of a direction are lost without a trace by giving the sender a wrong hardware address of the
receiver: no firewall is needed, nobody is told anything, and the other direction is not touched.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

__all__ = ["Ground", "Loopback", "Namespaces", "ground"]

_NOWHERE = "02:00:00:00:de:ad"


class Ground:
    """Addresses and commands of `count` nodes, numbered from 1."""

    name = ""
    has_links = False

    def host(self, number: int) -> str:
        raise NotImplementedError

    def ports(self, number: int) -> tuple[int, int]:
        """For clients and for controllers."""
        raise NotImplementedError

    def prefix(self, number: int) -> list[str]:
        """What a command begins with that is to run where node `number` is."""
        return []

    def lose(self, sender: int, receivers: Iterable[int]) -> None:
        """From now on what `sender` sends to these is lost; 0 stands for the clients."""
        raise NotImplementedError

    def heal(self) -> None:
        """Nothing is lost any more."""


class Loopback(Ground):
    """All nodes on 127.0.0.1: no link can be cut."""

    name = "on loopback (no network namespaces here: links are left alone)"

    def __init__(self, count: int) -> None:
        from tests.server.quorum_processes import free_ports

        ports = free_ports(2 * count)
        self._ports = {n: (ports[2 * n - 2], ports[2 * n - 1]) for n in range(1, count + 1)}

    def host(self, number: int) -> str:
        return "127.0.0.1"

    def ports(self, number: int) -> tuple[int, int]:
        return self._ports[number]


class Namespaces(Ground):
    """`with Namespaces.made(4) as ground: ...`; everything is gone afterwards."""

    name = "in network namespaces"
    has_links = True

    def __init__(self, count: int) -> None:
        self.count = count
        mark = os.getpid() % 10_000
        self._bridge = f"chaos{mark}"
        self._names = {n: f"chaos{mark}-{n}" for n in range(1, count + 1)}
        self._net = f"10.{20 + mark % 200}.{mark % 250}"
        self._hardware: dict[int, str] = {}
        self._lost: list[tuple[int, int]] = []

    @classmethod
    @contextlib.contextmanager
    def made(cls, count: int) -> Iterator[Namespaces]:
        made = cls(count)
        try:
            made._make()
            yield made
        finally:
            made._remove()

    def _make(self) -> None:
        bridge = self._bridge
        _ip("link", "add", bridge, "type", "bridge", "forward_delay", "0")
        _ip("addr", "add", f"{self._net}.254/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        for number, name in self._names.items():
            outer = f"{bridge}v{number}"
            _ip("netns", "add", name)
            _ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", outer, "master", bridge, "up")
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "addr", "add", f"{self.host(number)}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            self._hardware[number] = _ip("netns", "exec", name, "cat", "/sys/class/net/eth0/address").strip()
        self._hardware[0] = Path(f"/sys/class/net/{bridge}/address").read_text().strip()
        for sender in self._hardware:
            for receiver in self._hardware:
                if sender != receiver:
                    self._say(sender, receiver, self._hardware[receiver])

    def _remove(self) -> None:
        for name in self._names.values():
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", self._bridge], check=False, capture_output=True)

    def host(self, number: int) -> str:
        return f"{self._net}.{number or 254}"

    def ports(self, number: int) -> tuple[int, int]:
        return 9092, 9093

    def prefix(self, number: int) -> list[str]:
        return ["ip", "netns", "exec", self._names[number]]

    def lose(self, sender: int, receivers: Iterable[int]) -> None:
        for receiver in receivers:
            self._lost.append((sender, receiver))
            self._say(sender, receiver, _NOWHERE)

    def heal(self) -> None:
        lost, self._lost = self._lost, []
        for sender, receiver in lost:
            self._say(sender, receiver, self._hardware[receiver])

    def _say(self, sender: int, receiver: int, hardware: str) -> None:
        """Tell `sender` which hardware address `receiver` has."""
        where = ["-n", self._names[sender]] if sender else []
        device = "eth0" if sender else self._bridge
        _ip(
            *where,
            "neigh",
            "replace",
            self.host(receiver),
            "lladdr",
            hardware,
            "nud",
            "permanent",
            "dev",
            device,
        )


def _ip(*words: str) -> str:
    run = subprocess.run(["ip", *words], check=False, capture_output=True, text=True)
    if run.returncode:
        raise OSError(f"ip {' '.join(words)}: {run.stderr.strip()}")
    return run.stdout


@contextlib.contextmanager
def ground(count: int) -> Iterator[Ground]:
    """Namespaces where they can be made, else loopback."""
    if os.geteuid() == 0:
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            made = stack.enter_context(Namespaces.made(count))
            keep = stack.pop_all()
            with keep:
                yield made
            return
    yield Loopback(count)
