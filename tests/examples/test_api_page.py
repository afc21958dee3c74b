"""The example of each public class runs as it stands on the page, the address of the node aside."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.patience import PATIENCE_S
from tools.api_page import EXAMPLES, PUBLIC, api

from barnabas.testing import Cluster

WITHOUT = {"BarnabasError", "Delivered", "Delivery", "ErrorCode", "KafkaError", "Message", "Node"} | {
    "TopicPartition",
    "Uuid",
}
"""They come from the others: their examples show them."""


@pytest.fixture(scope="module")
def node() -> Iterator[Cluster]:
    """A node for this module alone: the topics have the names that are printed."""
    with Cluster() as cluster:
        yield cluster


def printed(name: str, node: Cluster) -> list[str]:
    """The lines that the example prints."""
    code = (EXAMPLES / f"{name}.py").read_text().replace("127.0.0.1:9092", node.bootstrap)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_records_that_the_producer_sends_are_read_by_the_consumer(node: Cluster) -> None:
    assert printed("Producer", node) == ["sensors 0 0", "0 wait for an acknowledgement"]
    assert printed("Consumer", node) == [
        "10 records from offset 90 on",
        "b'kitchen' b'21.5' (('unit', b'C'),) 1",
    ]


def test_a_transaction_is_committed_and_one_aborted(node: Cluster) -> None:
    assert printed("TransactionalProducer", node) == ["[b'7']"]


def test_the_administrator_sees_what_it_changed(node: Cluster) -> None:
    out = printed("Admin", node)
    assert out[0] == "{'max.message.bytes': '65536'}"
    assert out[1] == "{'producer_byte_rate': 1048576.0}"
    assert out[-1] == "True"


def test_the_same_with_asyncio(node: Cluster) -> None:
    assert printed("aio.Producer", node) == ["99"]
    assert printed("aio.Consumer", node) == ["100 [TopicPartition(topic='clicks', partition=0)]"]
    assert printed("aio.TransactionalProducer", node) == ["[b'one']"]
    assert printed("aio.Admin", node) == ["steps 2", "True"]


def test_a_cluster_loses_a_leader(node: Cluster) -> None:
    assert printed("testing.Cluster", node) == ["1"]


def test_every_class_that_one_makes_oneself_has_an_example() -> None:
    import importlib

    wanted = set()
    for module in PUBLIC:
        short = module.removeprefix("barnabas").lstrip(".")
        names = set(importlib.import_module(module).__all__) - WITHOUT - {"__version__"}
        wanted |= {f"{short}.{name}" if short else name for name in names}
    assert {path.stem for path in EXAMPLES.glob("*.py")} == wanted
    page = api()
    assert all(path.read_text() in page for path in EXAMPLES.glob("*.py"))
