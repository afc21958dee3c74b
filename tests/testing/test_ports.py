"""Ports for nodes that are killed and started again."""

from __future__ import annotations

import random
import socket
from pathlib import Path

from barnabas.pipeline.demo import node
from barnabas.testing import cluster

DIALLING = Path("/proc/sys/net/ipv4/ip_local_port_range")


def test_no_dialling_socket_can_take_one_and_no_process_gives_one_away_twice() -> None:
    """A node that was killed would find its port taken, and end while it starts again."""
    first_dialled = int(DIALLING.read_text().split()[0]) if DIALLING.exists() else 32_768
    given: list[int] = []
    for count in (1, 2, 3) * 40:
        random.seed(7)  # as a test may have done, in two processes at the same time
        first = cluster.free_ports(count)
        given += range(first, first + count)
    given += node.free_ports(12)
    assert max(given) < first_dialled
    assert len(set(given[:240])) == 240


def test_a_port_on_which_somebody_listens_is_passed_over() -> None:
    first = cluster.free_ports(1)
    with socket.create_server(("127.0.0.1", first + 2)):
        found = cluster.free_ports(2)
        assert first + 2 not in (found, found + 1), "of a row of two the second is taken"
