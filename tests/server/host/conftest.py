"""`host`: `barnabas start --nodes` in a directory of the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.host.hosts import Host

from barnabas.testing.cluster import free_ports


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    one = Host(tmp_path, free_ports(10))
    yield one
    if one.process is not None and one.process.poll() is None:
        one.process.kill()
