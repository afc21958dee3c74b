"""The times and sizes of the quorum, in seconds and bytes (names of the settings in brackets)."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from barnabas.model import Endpoint
from barnabas.raft.membership.noted import Historian, no_history
from barnabas.raft.value import value
from barnabas.raft.voters import SUPPORTED, VersionRange

__all__ = ["RaftConfig"]


def _fit(features: tuple[tuple[str, int, int], ...]) -> None:
    """Take every node for one that can read the metadata."""


@value
class RaftConfig:
    """What a node's quorum is configured with.

    `can_vote` False is a broker: an observer for good.  `listener` is the controllers' listener, whose
    endpoint of a voter we use.  `bootstrap` are the servers asked for the leader when none is known.  `historian`
    makes the records of the history.  `unfit` says why a node with these features (name, lowest and highest level)
    could not read the metadata, None where it could.
    """

    cluster_id: str | None = None
    listener: str = "CONTROLLER"
    bootstrap: tuple[Endpoint, ...] = ()  # controller.quorum.bootstrap.servers
    can_vote: bool = True
    versions: VersionRange = SUPPORTED  # supported levels of kraft.version
    election_timeout: float = 1.0  # controller.quorum.election.timeout.ms
    fetch_timeout: float = 2.0  # controller.quorum.fetch.timeout.ms
    request_timeout: float = 2.0  # controller.quorum.request.timeout.ms
    retry_backoff: float = 0.02  # controller.quorum.retry.backoff.ms
    election_backoff_max: float = 1.0  # controller.quorum.election.backoff.max.ms
    fetch_max_wait: float = 0.5
    fetch_max_bytes: int = 1 << 20  # controller.quorum.fetch.max.bytes
    snapshot_max_bytes: int = 1 << 20  # controller.quorum.fetch.snapshot.max.bytes
    auto_join: bool = False  # controller.quorum.auto.join.enable
    observer_expiry: float = 300.0  # an observer silent for so long is forgotten
    reset_grace: float = 0.1  # a reset connection to the leader leaves it so long to come back
    exchange_interval: float = inf  # between two exchanges of addresses (a leader is known); inf: none
    catch_up_lag: int = 1000  # records: a new voter may lag by so many
    catch_up_rounds: int = 2  # rounds within the bounds, one after the other
    catch_up_round: float = 1.0  # seconds a round may take
    historian: Historian = no_history
    unfit: Callable[[tuple[tuple[str, int, int], ...]], str | None] = _fit

    @property
    def check_quorum_timeout(self) -> float:
        """A leader that hears no majority for so long resigns."""
        return 1.5 * self.fetch_timeout

    @property
    def begin_epoch_interval(self) -> float:
        """How often a leader tells a silent voter that it leads."""
        return 0.5 * self.fetch_timeout
