"""Recovery from a lost majority, for the operator: what the survivors' directories say, and writing the plan.

This needs no running node, and none may run on the directories.  Reading changes nothing: the metadata
directory is copied, and the copy is opened as a node would open it.  `raft.recovery` makes the plan itself.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, NamedTuple

from barnabas.config import Config
from barnabas.controller.feature_levels import METADATA_VERSION
from barnabas.errors import ConfigError, StorageError
from barnabas.log.files.meta_properties import LOCK, MetaProperties, read_meta_properties
from barnabas.model import METADATA_PARTITION, ZERO_UUID, Endpoint, NodeId, ReplicaKey, Uuid
from barnabas.ports import Clock, Disk
from barnabas.raft.entries import ElectionState
from barnabas.raft.membership.generation import GENERATION_NOTE, QuorumGeneration
from barnabas.raft.membership.recovery import RecoveryPlan, Survivor
from barnabas.raft.voters import VersionRange, Voter, VoterSet
from barnabas.server.kraft.election_state import QUORUM_STATE, election_text
from barnabas.server.kraft.marks import RecoveryPoint, write_point
from barnabas.server.kraft.recovery import metadata_log_config, open_store
from barnabas.server.kraft.storage import MetadataStore

__all__ = [
    "Found",
    "Verdict",
    "document_of",
    "execute",
    "fixed_voters",
    "found_in",
    "from_document",
    "kept_beside",
    "opened_copy",
    "plan_hash",
    "read_survivor",
    "survivor_of",
    "verify",
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
    """What a node's properties say: its metadata directory, where it listens (if it does), the fixed voters."""
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
    *,
    can_vote: bool | None = None,
) -> Found:
    """Read the log in `directory` as its node would at start, and change nothing there.

    Raises StorageError when a node runs on it, when it is not formatted, or is damaged.
    """
    with opened_copy(disk, clock, directory, fixed) as (meta, store):
        assert meta.directory_id is not None
        key = ReplicaKey(meta.node_id, meta.directory_id)
        survivor = survivor_of(store, key, endpoints, can_vote=can_vote)
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
            if os.path.isdir(f"{directory}/{METADATA_PARTITION}"):  # a new node has none
                shutil.copytree(f"{directory}/{METADATA_PARTITION}", f"{scratch}/{METADATA_PARTITION}")
            store = _open(disk, clock, scratch, meta.cluster_id, fixed)
            try:
                yield meta, store
            finally:
                store.log.abandon()
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


def survivor_of(
    store: MetadataStore, key: ReplicaKey, endpoints: tuple[Endpoint, ...], *, can_vote: bool | None = None
) -> Survivor:
    """What an open log says of its node.  Raises ConfigError where it cannot be a voter, though it should.

    `can_vote` None: a node that the log knows as a broker, and not as a controller, cannot.
    """
    log_view = store.log_view
    known = log_view.voters.get(key.id)
    if can_vote is None:
        image = store.image
        can_vote = known is not None or key.id in image.controllers or key.id not in image.brokers
    if not can_vote:
        endpoints = ()
    if not endpoints and known is not None:
        endpoints = known.endpoints
    if not endpoints and key.id in store.image.controllers:
        endpoints = tuple(
            Endpoint(e.listener, e.host, e.port) for e in store.image.controllers[key.id].endpoints
        )
    if not endpoints and can_vote:
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
        can_vote,
    )


def execute(disk: Disk, clock: Clock, plan: RecoveryPlan, chosen: Found, host: Found | None = None) -> None:
    """Write the plan at the end of the chosen log, durably, then the new election state.

    Where that is a broker's log, it is copied to the `host` first; what the host had is kept beside its directory.
    A crash in between leaves the old log, or the new one; then run it again.  Raises StorageError, also
    when the log is not the one that was planned for.
    """
    directory, survivor = (host or chosen).directory, chosen.survivor
    lock = disk.lock(f"{directory}/{LOCK}")
    try:
        if host is not None and host is not chosen:
            _copy_log(disk, chosen.directory, directory)
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


def kept_beside(directory: str) -> str:
    """Where the metadata that a host had before are kept."""
    return f"{directory.rstrip('/')}.{METADATA_PARTITION}.before-recovery"


def _copy_log(disk: Disk, source: str, target: str) -> None:
    """Replace the host's metadata by a copy of the broker's, durably."""
    lock = disk.lock(f"{source}/{LOCK}")
    try:
        log, copy, kept = f"{target}/{METADATA_PARTITION}", f"{target}.recovering", kept_beside(target)
        if os.path.exists(kept):
            raise StorageError(
                f"{kept} is of an earlier recovery",
                directory=target,
                next_step="move it away, then plan again",
            )
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(f"{source}/{METADATA_PARTITION}", copy)
        for name in os.listdir(copy):
            with open(f"{copy}/{name}", "rb") as file:
                os.fsync(file.fileno())
        disk.sync_directory(copy)
        if os.path.exists(log):
            os.rename(log, kept)
        os.rename(copy, log)
        disk.sync_directory(target)
    except OSError as error:
        raise StorageError(f"{source} cannot be copied to {target}: {error}", directory=target) from error
    finally:
        lock.release()


def plan_hash(plan: RecoveryPlan, found: Iterable[Found]) -> str:
    """A short digest of the plan and of every log that it was made from: it changes when one of them does."""
    rows = sorted(json.dumps(document_of(one), sort_keys=True) for one in found)
    text = json.dumps([rows, str(plan.chosen), str(plan.host), plan.epoch, plan.generation, str(plan.voters)])
    return sha256(text.encode()).hexdigest()[:12]


class Verdict(NamedTuple):
    """What a directory is after a recovery; `is_good`: its node may start and takes part."""

    found: Found
    is_good: bool
    says: str


def verify(found: Iterable[Found]) -> list[Verdict]:
    """Which of these directories are of the newest generation, follow it, or will be refused."""
    rows = list(found)
    newest = max((one.survivor for one in rows), key=lambda s: s.generation, default=None)
    verdicts = []
    for one in rows:
        survivor = one.survivor
        if newest is None or newest.generation == 0:
            verdicts.append(Verdict(one, False, "of a quorum that was never put together by force"))
        elif survivor.generation == newest.generation:
            votes = "votes" if survivor.voters.has(survivor.voter.key) else "does not vote"
            verdicts.append(Verdict(one, True, f"has the recovered log and {votes}"))
        elif survivor.high_watermark > newest.end_offset:
            why = f"everything below {survivor.high_watermark} was committed here, and the recovered log lacks it"
            verdicts.append(Verdict(one, False, f"will be refused: {why}; keep a copy, format it anew"))
        else:
            verdicts.append(
                Verdict(
                    one, True, "of the old quorum: as a voter it follows, what the recovered log lacks is cut"
                )
                if newest.voters.has(survivor.voter.key)
                else Verdict(
                    one, False, "of the old quorum and no voter: refused if its log went another way"
                )
            )
    return verdicts


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
        "can_vote": survivor.can_vote,
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
            bool(content.get("can_vote", True)),
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
