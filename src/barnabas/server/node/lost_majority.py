"""Recovery from a lost majority, for the operator: what the survivors' directories say, and writing the plan.

This needs no running node, and none may run on the directories.  Reading changes nothing: the metadata
directory is copied, and the copy is opened as a node would open it.  `raft.recovery` makes the plan itself.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from barnabas.config import Config
from barnabas.controller.feature_levels import METADATA_VERSION
from barnabas.errors import ConfigError, StorageError
from barnabas.log.storage.meta_properties import LOCK, MetaProperties, read_meta_properties
from barnabas.model import METADATA_PARTITION, ZERO_UUID, Endpoint, NodeId, ReplicaKey, Uuid
from barnabas.ports import Clock, Disk
from barnabas.raft.entries import ElectionState
from barnabas.raft.membership.generation import GENERATION_NOTE, QuorumGeneration
from barnabas.raft.membership.recovery import RecoveryPlan, Survivor
from barnabas.raft.voters import VersionRange, Voter, VoterSet
from barnabas.server.kraft.election_state import QUORUM_STATE, election_text
from barnabas.server.kraft.recovery import metadata_log_config, open_store
from barnabas.server.kraft.recovery_point import RecoveryPoint, write_point
from barnabas.server.kraft.storage import MetadataStore

__all__ = [
    "Found",
    "document_of",
    "execute",
    "fixed_voters",
    "found_in",
    "from_document",
    "opened_copy",
    "read_survivor",
    "survivor_of",
]

_LEAST_METADATA_VERSION = 21
"""Voters that change at run time are of 3.9 (KIP-853)."""
_SEGMENT_BYTES, _SEGMENT_MS = 1 << 30, 604_800_000


class Found(NamedTuple):
    """A survivor, and where it lies.  `directory` is "" for one described on another machine.

    `fixed` are the voters of its controller.quorum.voters.
    """

    survivor: Survivor
    cluster_id: str
    directory: str = ""
    fixed: VoterSet = VoterSet.EMPTY


def found_in(config: Config) -> tuple[str, tuple[Endpoint, ...], VoterSet]:
    """What a node's properties say: its metadata directory, where it listens, the fixed voters.

    Raises ConfigError for a node that is no controller.
    """
    if "controller" not in config.roles:
        raise ConfigError(
            f"node {config.node_id} is no controller: it cannot vote",
            next_step="its copy of the metadata can still be used: give it process.roles=controller",
        )
    advertised = {endpoint.listener: endpoint for endpoint in config.advertised_listeners}
    endpoints = []
    for endpoint in config.controller_listeners:
        own = advertised.get(endpoint.listener, endpoint)
        endpoints.append(own if own.host not in ("", "0.0.0.0", "::") else own._replace(host="localhost"))
    return config.metadata_log_dir, tuple(endpoints), fixed_voters(config)


def fixed_voters(config: Config) -> VoterSet:
    """The voters of controller.quorum.voters."""
    names = config.list("controller.listener.names")
    listener = names[0].upper() if names else "CONTROLLER"
    return VoterSet.of(
        Voter(ReplicaKey(id_, ZERO_UUID), (Endpoint(listener, host, port),))
        for id_, host, port in config.voters
    )


def read_survivor(
    disk: Disk,
    clock: Clock,
    directory: str,
    endpoints: tuple[Endpoint, ...] = (),
    fixed: VoterSet = VoterSet.EMPTY,
) -> Found:
    """Read the log in `directory` as its node would at start, and change nothing there.

    Raises StorageError when a node runs on it, when it is not formatted, or is damaged.
    """
    with opened_copy(disk, clock, directory, fixed) as (meta, store):
        assert meta.directory_id is not None
        survivor = survivor_of(store, ReplicaKey(meta.node_id, meta.directory_id), endpoints)
        return Found(survivor, meta.cluster_id, os.path.abspath(directory), fixed)


@contextmanager
def opened_copy(
    disk: Disk, clock: Clock, directory: str, fixed: VoterSet
) -> Iterator[tuple[MetaProperties, MetadataStore]]:
    """A copy of the metadata in `directory`, opened as its node would; the directory is locked meanwhile.

    Raises StorageError when a node runs on it, when it is not formatted, or is damaged.
    """
    meta = read_meta_properties(disk, directory)
    if meta is None or meta.directory_id is None:
        raise StorageError(
            f"{directory} is not formatted, or so old that it has no directory.id", directory=directory
        )
    lock = disk.lock(f"{directory}/{LOCK}")
    try:
        with tempfile.TemporaryDirectory(prefix="barnabas-recover-") as scratch:
            shutil.copytree(f"{directory}/{METADATA_PARTITION}", f"{scratch}/{METADATA_PARTITION}")
            store = _open(disk, clock, scratch, meta.cluster_id, fixed)
            try:
                yield meta, store
            finally:
                store.log.abandon()
    except FileNotFoundError as error:
        raise StorageError(f"{directory} has no {METADATA_PARTITION}", directory=directory) from error
    finally:
        lock.release()


def _open(disk: Disk, clock: Clock, directory: str, cluster_id: str, fixed: VoterSet) -> MetadataStore:
    return open_store(
        disk,
        clock,
        directory,
        metadata_log_config(_SEGMENT_BYTES, _SEGMENT_MS),
        cluster_id=cluster_id,
        static_voters=fixed,
    )


def survivor_of(store: MetadataStore, key: ReplicaKey, endpoints: tuple[Endpoint, ...]) -> Survivor:
    """What an open log says of its node.  Raises ConfigError where it cannot be a voter."""
    log_view = store.log_view
    known = log_view.voters.get(key.id)
    if not endpoints and known is not None:
        endpoints = known.endpoints
    if not endpoints and key.id in store.image.controllers:
        endpoints = tuple(
            Endpoint(e.listener, e.host, e.port) for e in store.image.controllers[key.id].endpoints
        )
    if not endpoints:
        raise ConfigError(
            f"nobody knows where controller {key.id} listens",
            next_step="give its properties with --config instead of --directory",
        )
    level = store.image.feature(METADATA_VERSION)
    if log_view.kraft_version == 0 and 0 < level < _LEAST_METADATA_VERSION:
        raise ConfigError(
            f"metadata.version {level} knows no voters that change at run time (that takes 3.9-IV0)",
            next_step="no recovery by force is possible for so old a cluster",
        )
    return Survivor(
        Voter(key, endpoints),
        log_view.last_epoch,
        log_view.end_offset,
        log_view.known_committed,
        log_view.voters,
        store.saved or ElectionState(),
        QuorumGeneration.of(log_view.note(GENERATION_NOTE)).number,
    )


def execute(disk: Disk, clock: Clock, plan: RecoveryPlan, chosen: Found) -> None:
    """Write the plan at the end of the chosen log, durably, then the new election state.

    A crash in between leaves the old log, or the new one; then run it again.  Raises StorageError, also
    when the log is not the one that was planned for.
    """
    directory, survivor = chosen.directory, chosen.survivor
    lock = disk.lock(f"{directory}/{LOCK}")
    try:
        store = _open(disk, clock, directory, chosen.cluster_id, chosen.fixed)
        log_view = store.log_view
        if (log_view.end_offset, log_view.last_epoch) != (survivor.end_offset, survivor.last_epoch):
            store.log.abandon()
            raise StorageError(
                f"{directory} has changed since the plan was made",
                directory=directory,
                next_step="plan again",
            )
        for batch in plan.batches:
            log_view.append(batch)
            store.append(batch)
        store.log.sync()
        path = store.path
        disk.replace(f"{path}/{QUORUM_STATE}", election_text(plan.saved, 1, plan.voters))
        write_point(disk, path, RecoveryPoint(log_view.end_offset, plan.epoch))
        store.log.close(clock.now())
    finally:
        lock.release()


# The same as documents, for survivors on several machines.


def document_of(found: Found) -> dict[str, Any]:
    """What `--json` prints of a survivor, and `--from` reads."""
    survivor, saved = found.survivor, found.survivor.saved
    return {
        "cluster_id": found.cluster_id,
        **_voter_document(survivor.voter),
        "last_epoch": survivor.last_epoch,
        "end_offset": survivor.end_offset,
        "known_committed": survivor.high_watermark,
        "voters": [_voter_document(voter) for voter in survivor.voters],
        "epoch": saved.epoch,
        "incarnation": max(survivor.generation, saved.generation),
    }


def from_document(content: Mapping[str, Any]) -> Found:
    """The survivor that another machine described.  Raises ConfigError for anything else."""
    try:
        survivor = Survivor(
            _voter_of(content),
            int(content["last_epoch"]),
            int(content["end_offset"]),
            int(content["known_committed"]),
            VoterSet.of(map(_voter_of, _listed(content["voters"]))),
            ElectionState(int(content["epoch"])),
            int(content["incarnation"]),
        )
        return Found(survivor, str(content["cluster_id"]))
    except (KeyError, ValueError, TypeError) as error:
        raise ConfigError(
            f"that is no description of a survivor: {error}",
            next_step="make it on that machine with `barnabas quorum recover --config FILE --json`",
        ) from error


def _listed(rows: Any) -> Iterable[Mapping[str, Any]]:
    if not isinstance(rows, list):
        raise ValueError("a list was expected")
    return rows


def _voter_document(voter: Voter) -> dict[str, Any]:
    return {
        "id": voter.key.id,
        "directory_id": str(voter.key.directory_id),
        "endpoints": [[e.listener, e.host, e.port] for e in voter.endpoints],
        "kraft_versions": list(voter.versions),
    }


def _voter_of(content: Mapping[str, Any]) -> Voter:
    node_id: NodeId = int(content["id"])
    low, high = content["kraft_versions"]
    return Voter(
        ReplicaKey(node_id, Uuid.parse(content["directory_id"])),
        tuple(Endpoint(str(name), str(host), int(port)) for name, host, port in content["endpoints"]),
        VersionRange(int(low), int(high)),
    )
