"""A metadata store on a disk in memory, whose thread runs jobs at once."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.errors import BarnabasError
from barnabas.model import ZERO_UUID, Endpoint, Now, ReplicaKey
from barnabas.raft.voters import Voter, VoterSet
from barnabas.server.kraft.recovery import metadata_log_config, open_store
from barnabas.server.kraft.storage import MetadataStore
from barnabas.sim.kernel.disk import MemoryDisk

PATH = "data/__cluster_metadata-0"


class Clock:
    mono = 100.0

    def now(self) -> Now:
        return Now(self.mono, 1_700_000_000_000)


class Thread:
    """Runs jobs at once."""

    def run(self, job: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        try:
            job()
        except BarnabasError as error:
            done(error)
        else:
            done(None)


def opened(
    disk: MemoryDisk,
    clock: Clock,
    segment_bytes: int = 1 << 20,
    *,
    voters: int = 0,
    can_vote: bool | None = None,
) -> MetadataStore:
    """The store as a node opens it, in a quorum of so many fixed voters; an error of the disk is raised."""
    store = open_store(
        disk,
        clock,
        "data",
        metadata_log_config(segment_bytes, 1 << 40),
        cluster_id="c",
        static_voters=VoterSet.of(
            Voter(ReplicaKey(id_, ZERO_UUID), (Endpoint("C", "c", id_),)) for id_ in range(1, voters + 1)
        ),
        can_vote=can_vote,
    )

    def fail(error: BaseException) -> None:
        raise error

    store.attach(Thread(), lambda message: None, fail)
    return store
