"""The steps of changing the voters, one member at a time (KIP-853).

Each function takes the next step of one change on the leader.  Its docstring lists the protocol's numbered
steps, and the code follows in the same order.  It returns what the change waits for (`Waiting`), or that
its record is appended (`Appended`), or that there is nothing to do (`Done`).  It raises KafkaError for a change
that can never succeed.  `pending` calls these functions until they are done.
"""

from __future__ import annotations

from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import ZERO_UUID, Endpoint, Now, Offset, ReplicaKey
from barnabas.raft import leadership
from barnabas.raft.core import Core, IllegalTransition
from barnabas.raft.effects import Send
from barnabas.raft.entries import Entry, KraftVersionEntry, Note, VotersEntry
from barnabas.raft.membership.pending_change import DONE, Appended, Done, NotYet, Probe
from barnabas.raft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    ProbeRequest,
    RemoveVoterRequest,
    Request,
    UpdateVoterRequest,
    UpgradeRequest,
)
from barnabas.raft.progress import WITHOUT_ROLE
from barnabas.raft.roles import Leader
from barnabas.raft.voters import VersionRange, Voter, VoterSet

__all__ = [
    "check_endpoints",
    "check_new",
    "guards",
    "open_change",
    "set_without",
    "step_add",
    "step_remove",
    "step_update",
    "step_upgrade",
    "tombstone",
    "unheard_yet",
    "would_be_stuck",
]

TOMBSTONE = "barnabas.quorum.removed."
"""Notes with this key and a replica after it: removed, and not to come back by itself."""


MOST_TOMBSTONES = 1000
"""So many removed replicas are remembered, the newest."""
NO_SUPPORT = VersionRange(0, 0)
"""What a node supports that does not know the feature kraft.version."""


# ------------------------------------------------------------------ guards that all changes share


def open_change(core: Core) -> NotYet | None:
    """The voter set in the log that is not committed yet, if there is one."""
    offset = core.log_view.voter_sets.latest_offset
    if offset is not None and offset >= max(0, leadership.published_high_watermark(core)):
        return NotYet(f"the voter set {core.voters} at offset {offset} is not committed yet")
    return None


def guards(core: Core) -> NotYet | None:
    """Steps 1 and 2 of every change."""
    if not leadership.committed_in_this_epoch(core):
        return NotYet("this leader has not committed anything in its epoch yet")
    return open_change(core)


def _needs_version_1(core: Core) -> None:
    if core.log_view.kraft_version < 1:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "voters cannot change at kraft.version 0; upgrade the feature kraft.version to 1 first",
        )


def check_endpoints(core: Core, voter: ReplicaKey, endpoints: tuple[Endpoint, ...]) -> None:
    """A voter must be named in full and be reachable through the controllers' own listener."""
    if voter.id < 0 or voter.directory_id == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{voter} is not a node id with a directory id")
    if not any(endpoint.listener == core.config.listener for endpoint in endpoints):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"replica {voter} offers no endpoint for listener {core.config.listener}",
        )


def unheard_yet(core: Core, role: Leader, what: str, now: Now) -> NotYet | None:
    """Whether it is too early to call a replica dead that this leader has not heard of.

    A live replica fetches within the fetch timeout; right after an election none has yet.
    """
    settled = role.since + core.config.fetch_timeout
    if now.mono >= settled:
        return None
    return NotYet(f"{what} not fetched from this leader yet, which has just been elected", settled)


def would_be_stuck(core: Core, role: Leader, voters: VoterSet, now: Now) -> NotYet | None:
    """A set whose majority is not alive could never commit its own record."""
    living = leadership.alive(core, role, voters, now)
    if len(living) >= voters.majority:
        return None
    return NotYet(f"of the voters {voters} only {len(living)} would be alive, {voters.majority} are needed")


def _append_voters(core: Core, role: Leader, voters: VoterSet, *more: Entry) -> Offset:
    """Append the new set.  The assertion is the safety argument itself: majorities must overlap."""
    changed = core.voters.keys_changed(voters)
    if core.log_view.kraft_version >= 1:
        if len(changed) > 1:
            raise IllegalTransition(f"{core.voters} -> {voters} changes more than one voter: {changed}")
        if guards(core) is not None:
            raise IllegalTransition(f"{core.voters} -> {voters}: {guards(core)}")
    elif core.voters.ids != voters.ids:
        raise IllegalTransition(f"{core.voters} -> {voters} changes ids at kraft.version 0")
    offset = leadership.append(core, role, (*more, VotersEntry(voters)))
    return offset + len(more)


# ------------------------------------------------------------------ add


def step_add(core: Core, role: Leader, request: AddVoterRequest, probe: Probe, now: Now) -> NotYet | Appended:
    """Take the next step of adding a voter (KIP-853, AddRaftVoter).

    1. This leader has committed in its own epoch (else an older leader's change might still come true).
    2. No other change of the set is uncommitted.
    3. kraft.version is 1; the id is in the set in no form.
    4. The operator did not remove this very replica, or is asking himself.
    5. Its endpoint answers, supports the kraft.version and the other levels in force, and is that id with that
       directory id.
    6. It keeps up: several rounds of replication in good time, the lag small, the last fetch fresh.
    7. The set with it would have a living majority.
    8. Append the new set.  It counts from now on; the caller waits for its commit and answers.
    """
    if waiting := guards(core):  # 1, 2
        return waiting
    check_new(core, request.voter)  # 3
    buried = core.log_view.note(tombstone(request.voter)) is not None  # 4
    if buried and not request.ack_when_committed:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"{request.voter} was removed by an operator; it comes back only when an operator adds it",
        )
    if waiting := _probe(core, request, probe, now):  # 5
        return waiting
    if waiting := caught_up(core, role, request.voter, now):  # 6
        return waiting
    assert probe.versions is not None
    voters = core.voters.with_voter(Voter(request.voter, request.endpoints, probe.versions))
    if waiting := would_be_stuck(core, role, voters, now):  # 7
        return waiting
    if buried:
        leadership.append(core, role, (Note(tombstone(request.voter), None),))
    return Appended(_append_voters(core, role, voters))  # 8


def check_new(core: Core, replica: ReplicaKey) -> None:
    """Step 3 of adding a voter.  Raises KafkaError."""
    _needs_version_1(core)
    present = core.voters.get(replica.id)
    if present is not None:
        disk = "" if present.key == replica else f": another disk of node {replica.id}"
        raise KafkaError(ErrorCode.DUPLICATE_VOTER, f"{present.key} is a voter already{disk}")


def _probe(core: Core, request: AddVoterRequest, probe: Probe, now: Now) -> NotYet | None:
    """Ask the offered endpoint what it supports (ApiVersions), then who it is (BeginQuorumEpoch)."""
    if probe.versions is not None and not probe.versions.covers(core.log_view.kraft_version):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{request.voter} supports kraft.version {probe.versions.min} to {probe.versions.max}, "
            f"{core.log_view.kraft_version} is in force",
        )
    if why := core.config.unfit(probe.features):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{request.voter} {why}, at which the cluster is")
    if probe.is_who_it_says:
        return None
    node_id = request.voter.id
    endpoint = Voter(request.voter, request.endpoints).endpoint(core.config.listener)
    if core.peers.ready(node_id, now.mono):
        question: Request = ProbeRequest()
        if probe.versions is not None:
            question = BeginQuorumEpochRequest(
                core.epoch, core.key.id, core.endpoints, request.voter, core.config.cluster_id
            )
        core.send(Send(core.peers.begin(node_id, question, now.mono), node_id, endpoint, question))
    if probe.failure:
        return NotYet(f"{endpoint} does not answer ({probe.failure})")
    return NotYet(f"asking {endpoint} who it is")


def caught_up(core: Core, role: Leader, replica: ReplicaKey, now: Now) -> NotYet | None:
    """Why this observer does not keep up; None when it does."""
    config = core.config
    progress = role.observers.get(replica)
    if progress is None or progress.end_offset is None or progress.last_fetch is None:
        return NotYet(f"{replica} has not fetched from this leader")
    if not progress.can_vote:
        return NotYet(f"{replica} {WITHOUT_ROLE}")
    silent = now.mono - progress.last_fetch
    if silent > config.fetch_timeout:
        return NotYet(f"{replica} has not fetched for {silent:.0f} s")
    lag = core.log_view.end_offset - progress.end_offset
    if lag > config.catch_up_lag:
        return NotYet(f"{replica} lags {lag} records behind")
    if progress.rounds < config.catch_up_rounds:
        return NotYet(f"{replica} has kept up for {progress.rounds} of {config.catch_up_rounds} rounds")
    return None


# ------------------------------------------------------------------ remove


def check_removal(core: Core, voter: ReplicaKey) -> None:
    """Refuse a removal at kraft.version 0, where no directory id is known, and of a replica not named in full."""
    _needs_version_1(core)
    if voter.id < 0 or voter.directory_id == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{voter} is not a node id with a directory id")


def step_remove(core: Core, role: Leader, request: RemoveVoterRequest, now: Now) -> NotYet | Appended:
    """Take the next step of removing a voter (KIP-853, RemoveRaftVoter).

    1. This leader has committed in its own epoch.
    2. No other change of the set is uncommitted.
    3. kraft.version is 1; exactly this replica is in the set, and not the last one.
    4. The set without it has a living majority.
    5. Note that it is not to come back by itself; append the new set, in force from now on.

    A leader that removes itself goes on serving until the record is committed by the others, counts
    itself no more, and then resigns.
    """
    if isinstance(voters := set_without(core, role, request.voter, now), NotYet):  # 1 to 4
        return voters
    note = Note(tombstone(request.voter), str(now.wall_ms))
    leadership.append(core, role, (*_forgotten(core), note))  # 5
    return Appended(_append_voters(core, role, voters))


def set_without(core: Core, role: Leader, replica: ReplicaKey, now: Now) -> VoterSet | NotYet:
    """Steps 1 to 4 of removing a voter: the set without it, or what the removal waits for.  Raises KafkaError."""
    if waiting := guards(core):  # 1, 2
        return waiting
    _needs_version_1(core)  # 3
    if replica not in core.voters.keys:
        raise KafkaError(ErrorCode.VOTER_NOT_FOUND, f"{replica} is no voter")
    if len(core.voters) == 1:
        raise KafkaError(ErrorCode.VOTER_NOT_FOUND, f"{replica} is the last voter, and a quorum needs one")
    voters = core.voters.without(replica)
    return would_be_stuck(core, role, voters, now) or voters  # 4


def _forgotten(core: Core) -> tuple[Note, ...]:
    """Erase the oldest tombstones, when there are more than MOST_TOMBSTONES."""
    kept = [(value, key) for key, value in core.log_view.notes.items() if key.startswith(TOMBSTONE)]
    kept.sort(key=lambda one: (len(one[0]), one))
    return tuple(Note(key, None) for _, key in kept[: max(0, len(kept) - MOST_TOMBSTONES + 1)])


def tombstone(replica: ReplicaKey) -> str:
    return f"{TOMBSTONE}{replica.id}-{replica.directory_id}"


# ------------------------------------------------------------------ update


def step_update(core: Core, role: Leader, request: UpdateVoterRequest) -> NotYet | Done:
    """A voter reports its endpoints and versions (KIP-853, UpdateRaftVoter).

    1. It is named in full, reachable, and supports the kraft.version in force.
    2. At kraft.version 0 the leader only remembers it, for the upgrade.
    3. This leader has committed in its own epoch, and no change of the set is uncommitted.
    4. Exactly this replica is in the set.
    5. Append the set with the new entry, unless it says the same.
    """
    check_endpoints(core, request.voter, request.endpoints)  # 1
    version = core.log_view.kraft_version
    if not request.versions.covers(version) or request.versions.min > request.versions.max:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{request.voter} does not support kraft.version {version}"
        )
    voter = Voter(request.voter, request.endpoints, request.versions)
    if version == 0:  # 2
        if core.voters.get(request.voter.id) is None:
            raise KafkaError(ErrorCode.VOTER_NOT_FOUND, f"{request.voter} is no voter")
        role.volatile[request.voter.id] = voter
        return DONE
    if waiting := guards(core):  # 3
        return waiting
    present = core.voters.get(request.voter.id)
    if present is None or present.key != request.voter:  # 4
        raise KafkaError(ErrorCode.VOTER_NOT_FOUND, f"{request.voter} is no voter")
    if present != voter:  # 5
        _append_voters(core, role, core.voters.replacing(voter))
    return DONE


# ------------------------------------------------------------------ kraft.version 0 -> 1


def step_upgrade(core: Core, role: Leader, request: UpgradeRequest) -> NotYet | Appended | Done:
    """Raise kraft.version (KIP-853): the static voters become voters that change.

    1. Not lower than what is in force; the same is done already, once it is committed.
    2. Every voter has told this leader its directory id and that it supports the new level.
    3. This leader has committed in its own epoch.
    4. Append the version and the whole set, directory ids included, in one batch.
    """
    current = core.log_view.kraft_version
    if request.version == current:  # 1
        offset = core.log_view.kraft_versions.latest_offset
        if offset is not None and offset >= leadership.published_high_watermark(core):
            return NotYet(f"kraft.version {current} is not committed yet")
        return DONE
    if request.version != 1:
        why = f"kraft.version is {current}; it can only be raised, to 1"
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, why)
    known = {**role.volatile, core.key.id: core.own_voter}
    for node_id in core.voters.ids:  # 2
        voter = known.get(node_id)
        if voter is None or voter.key.directory_id == ZERO_UUID:
            why = f"voter {node_id} has not reported its directory id to this leader yet"
            raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, why)
        if not voter.versions.covers(1):
            why = f"voter {node_id} does not support kraft.version 1"
            raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, why)
    if request.validate_only:
        return DONE
    if not leadership.committed_in_this_epoch(core):  # 3
        return NotYet("this leader has not committed anything in its epoch yet")
    voters = VoterSet.of(known[node_id] for node_id in core.voters.ids)
    return Appended(_append_voters(core, role, voters, KraftVersionEntry(1)))  # 4
