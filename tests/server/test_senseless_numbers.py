"""Small files of JSON whose numbers are none, or whose brackets have no end: senseless, and no error of their own.

Found by the fuzz target `files`.
"""

from __future__ import annotations

import pytest

from barnabas.errors import StorageError
from barnabas.log.files.meta_properties import take_clean_shutdown
from barnabas.server.kraft.discovery.address_book import read_contacts
from barnabas.server.kraft.election_state import read_election
from barnabas.server.kraft.marks import read_point
from barnabas.sim.kernel.disk import MemoryDisk

DEEP = b"[" * 200_000


def disk(name: str, content: bytes) -> MemoryDisk:
    made = MemoryDisk(1)
    made.make_directories("/data")
    made.put(f"/data/{name}", content)
    return made


@pytest.mark.parametrize("content", [b'{"version":0,"offset":1e999,"epoch":1,"checksum":1}', DEEP])
def test_a_recovery_point_that_is_none_is_refused(content: bytes) -> None:
    with pytest.raises(StorageError, match="senseless"):
        read_point(disk("recovery-point.json", content), "/data")


@pytest.mark.parametrize(
    "content",
    [
        b'{"leaderEpoch":1e999,"votedId":-1,"data_version":0}',
        b'{"leaderEpoch":2147483648,"votedId":-1,"data_version":0}',
        b'{"leaderEpoch":1,"leaderId":99999999999,"votedId":-1,"data_version":0}',
        b'{"leaderEpoch":-2,"votedId":-1,"data_version":0}',
        DEEP,
    ],
)
def test_an_election_that_can_not_have_been_is_refused(content: bytes) -> None:
    with pytest.raises(StorageError, match="senseless"):
        read_election(disk("quorum-state", content), "/data")


@pytest.mark.parametrize("content", [b'{"brokerEpoch":1e999}', b'{"brokerEpoch":99999999999999999999}', DEEP])
def test_a_clean_stop_of_no_epoch_is_one_that_says_none(content: bytes) -> None:
    assert take_clean_shutdown(disk(".kafka_cleanshutdown", content), "/data") == -1


@pytest.mark.parametrize("content", [b'{"version":0,"clusterId":"c","nodes":1e999,"checksum":1e999}', DEEP])
def test_an_address_book_that_is_none_is_not_used(content: bytes) -> None:
    contacts, why = read_contacts(disk("endpoints.json", content), "/data", "c")
    assert contacts == () and why
