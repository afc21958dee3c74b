"""Apache Kafka's nodes and ours in one cluster: groups, transactions and Streams, whoever plays which part.

Eight clusters, in which each two parts are played by each pair of kinds; each leader is killed once.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.compat.both_kinds.clients import CLIENTS, PROTOCOLS, Client
from tests.compat.both_kinds.cluster import CELLS, Cell, Four
from tests.suites.apps import numbers, streams
from tests.suites.apps.java import JavaUnavailableError, Program, prepare
from tests.suites.apps.stage import Stage

pytestmark = [pytest.mark.compat, pytest.mark.timeout(900)]

VALUES = [b"%d" % number for number in range(20)]
RATE = 100
APPLICATION = "copy-and-count"


def test_each_two_parts_are_played_by_each_pair_of_kinds() -> None:
    for one, other in itertools.combinations(range(len(Cell._fields)), 2):
        assert len({(cell[one], cell[other]) for cell in CELLS}) == 4


class Talk:
    """The clients' transactions and groups, each with a topic of its own."""

    def __init__(self, four: Four) -> None:
        self._four = four
        self._count = itertools.count()

    def whole(self, clients: tuple[Client, ...]) -> None:
        """Check that each client's groups of both protocols read its committed records, and nothing else."""
        for client in clients:
            topic = f"{client.name}-{next(self._count)}"
            self._four.create(topic, 1)
            client.transact(self._four.first_address, topic, VALUES)
            for protocol in PROTOCOLS:
                read = client.read(
                    self._four.first_address, topic, f"{topic}-{protocol}", protocol, len(VALUES)
                )
                assert read == VALUES, f"{client.name}, {protocol}: {read}"


@pytest.fixture(params=CELLS, ids=str)
def four(request: pytest.FixtureRequest, apache: Path, tmp_path: Path) -> Iterator[Four]:
    with Four(apache, tmp_path, request.param).running() as running:
        yield running


def test_groups_transactions_and_streams_are_whole_whoever_plays_which_part(
    four: Four, tmp_path: Path
) -> None:
    try:
        prepare()
    except JavaUnavailableError as error:
        pytest.skip(f"Kafka Streams: {error}")
    talk = Talk(four)
    talk.whole(CLIENTS)
    for topic in ("numbers", "copied", "counted"):
        four.create(topic, 4)
    stage = Stage(four.bootstrap, tmp_path, seconds=0, rate=RATE, copies=3)
    arguments = (four.first_address, str(tmp_path / "state"), str(streams.SHORT_SESSION_MS))
    application = Program(tmp_path, "streams", "CopyAndCount", *arguments, heap="256m").start()
    try:
        with numbers.to_topic(four.bootstrap, "numbers", RATE) as writing:
            ruled = [
                ("the quorum's leader", four.leader),
                ("the application's coordinator", lambda: four.coordinator(APPLICATION)),
                ("a partition's leader", lambda: four.partition_leader("numbers")),
            ]
            for part, who in ruled:
                victim = four.nodes[who()]
                killed = time.monotonic()
                victim.kill()
                talk.whole(CLIENTS[:2])
                print(f"{part} {victim} killed: clients whole after {time.monotonic() - killed:.1f} s")
                victim.start()
                four.serving()
            talk.whole(CLIENTS)
            written = writing.stop()
        numbers.settled(lambda: stage.tally("copied", written))
        numbers.settled(lambda: streams.counts(stage, written))
        application.end()
    finally:
        application.kill()
    for tally in (stage.tally("copied", written), streams.counts(stage, written)):
        assert tally.whole, f"{tally}; {application.last_words()}"
    for node in four.nodes.values():
        text = node.log.read_text(errors="replace")
        assert not re.search(r"FATAL|fatal fault|Traceback|Unknown API key|Unsupported api key", text), (
            f"{node}: {text[-2000:]}"
        )
