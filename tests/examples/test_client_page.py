"""Every example of docs/client.md runs as it stands there, the address of the node aside."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.patience import PATIENCE_S

from barnabas.testing import Cluster

PAGE = (Path(__file__).parents[2] / "docs" / "client.md").read_text()
BLOCKS = dict(re.findall(r"^## ([^\n]+)\n\n```python\n(.+?)^```", PAGE, re.MULTILINE | re.DOTALL))


@pytest.fixture(scope="module")
def page() -> Iterator[Cluster]:
    """A node on which the examples run one after the other: later ones read what earlier ones wrote."""
    with Cluster() as node:
        yield node


def outcome(node: Cluster, title: str) -> list[str]:
    """The lines that the example of that title prints."""
    code = BLOCKS[title].replace("127.0.0.1:9092", node.bootstrap)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_examples_do_what_the_page_says(page: Cluster) -> None:
    assert outcome(page, "Send") == ["0"]
    read = outcome(page, "Read")
    assert (len(read), read[0]) == (1001, "0 0 b'customer-7' b'two apples'")
    assert outcome(page, "Share with KIP-848") == ["reads 1", "1001", "gives up 1"]
    assert outcome(page, "All or nothing") == []
    assert outcome(page, "asyncio") == ["0", "b'hello'"]
    assert outcome(page, "asyncio, all or nothing") == ["True"]
    managed = outcome(page, "Manage")
    assert "payments 6" in managed and "billing [('orders', 0, 0)]" in managed


def test_no_example_is_left_out() -> None:
    assert sorted(BLOCKS) == sorted(
        [
            "All or nothing",
            "Manage",
            "Read",
            "Send",
            "Share with KIP-848",
            "asyncio",
            "asyncio, all or nothing",
        ]
    )
