"""A majority of the voters is gone for good: what can be saved, and what may be lost.

Nothing can be committed any more, so no protocol helps; an operator must decide.  This is the pure part of the
recovery.  From the surviving logs (of voters and observers alike) it chooses the one to continue with, names
what may have been committed without it, and returns the entries that make the survivors the voters.  Its
caller first stops all survivors, writes the entries to the chosen log, syncs, and starts the survivors again.
The others follow the chosen one, because its log is the longest.

The new set violates the rule that sets change by one member.  For this reason it carries a
*quorum generation* (`raft.membership.generation`): nodes of the lost majority that come back with their old
disks are refused.
"""

from __future__ import annotations

from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import Epoch, Offset, ReplicaKey
from barnabas.raft.entries import Batch, ElectionState, KraftVersionEntry, Note, VotersEntry
from barnabas.raft.membership.generation import EPOCH_GAP, GENERATION_NOTE, QuorumGeneration
from barnabas.raft.value import value
from barnabas.raft.voters import Voter, VoterSet

__all__ = ["RecoveryPlan", "Survivor", "plan_recovery"]


@value
class Survivor:
    """One log that is left, as its node would read it at start.  `can_vote`: False for a broker's."""

    voter: Voter
    last_epoch: Epoch
    end_offset: Offset
    high_watermark: Offset
    voters: VoterSet
    saved: ElectionState
    generation: int = 0
    can_vote: bool = True

    def __str__(self) -> str:
        return f"{self.voter.key} (epoch {self.last_epoch}, {self.end_offset} records)"


@value
class RecoveryPlan:
    """What to write where, and what it costs.

    `batches` go to the end of the log of `chosen`, `saved` is its new election state.  Where a broker's log is
    chosen, that is done with a copy of it on `host`, which votes.  `lost` are sentences for the operator; empty:
    no committed record can be missing.
    """

    chosen: ReplicaKey
    host: ReplicaKey
    voters: VoterSet
    epoch: Epoch
    generation: int
    batches: tuple[Batch, ...]
    saved: ElectionState
    lost: tuple[str, ...]


def plan_recovery(
    survivors: tuple[Survivor, ...], members: tuple[ReplicaKey, ...] | None = None
) -> RecoveryPlan:
    """Plan to go on with the survivors (or only `members` of them) as the voters.

    Raises KafkaError INVALID_REPLICA_ASSIGNMENT when a member has not survived or nobody has, and
    INVALID_REQUEST when enough voters survive that the quorum can repair itself.
    """
    if not survivors:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "there is no surviving log to continue with")
    eligible = [survivor for survivor in survivors if survivor.can_vote]
    if not eligible:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "only brokers survive, and they cannot vote: format a new controller with --no-initial-controllers "
            "and give it, too",
        )
    committed = max(survivor.high_watermark for survivor in survivors)
    chosen = max(
        [survivor for survivor in survivors if survivor.end_offset >= committed] or survivors,
        key=_completeness,
    )
    known = {survivor.voter.key: survivor.voter for survivor in eligible}
    for key in members or ():
        if key not in known:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{key} is not among the surviving logs")
    wanted = members or tuple(known)
    host = max((survivor for survivor in eligible if survivor.voter.key in wanted), key=_completeness)
    if chosen.can_vote and chosen.voter.key not in wanted:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{chosen} has the longest log and must be one of the voters",
        )
    host = chosen if chosen.can_vote else host
    alive = [survivor for survivor in eligible if chosen.voters.has(survivor.voter.key)]
    if len(alive) >= chosen.voters.majority:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{len(alive)} of the voters {chosen.voters} survive, a majority: no recovery by force is needed",
        )
    epoch = EPOCH_GAP + max(max(s.last_epoch, s.saved.epoch) for s in survivors)
    generation = 1 + max(max(s.generation, s.saved.generation) for s in survivors)
    voters = VoterSet.of(known[key] for key in wanted)
    end = chosen.end_offset
    batches = (  # the note first: half of it must not be a new set without its generation
        Batch(end, epoch, (Note(GENERATION_NOTE, str(QuorumGeneration(generation, epoch, end))),)),
        Batch(end + 1, epoch, (KraftVersionEntry(1), VotersEntry(voters))),
    )
    saved = ElectionState(epoch, generation=generation, origin=chosen.saved.origin)
    lost = _may_be_lost(chosen, alive)
    return RecoveryPlan(chosen.voter.key, host.voter.key, voters, epoch, generation, batches, saved, lost)


def _completeness(survivor: Survivor) -> tuple[Epoch, Offset, bool, bool, ReplicaKey]:
    """Of two logs the one with the newer epoch has more, then the longer one; a voter's goes first."""
    key = survivor.voter.key
    return survivor.last_epoch, survivor.end_offset, survivor.can_vote, survivor.voters.has(key), key


def _may_be_lost(chosen: Survivor, alive: list[Survivor]) -> tuple[str, ...]:
    """Sentences about what a lost majority may have committed that the chosen log lacks."""
    voters = chosen.voters
    blocking = len(voters) - voters.majority + 1
    if len(alive) >= blocking:
        return ()
    gone = [str(key) for key in voters.keys if key not in [survivor.voter.key for survivor in alive]]
    return (
        f"{len(alive)} of {len(voters)} voters survive; so few can lack what the others committed",
        f"records from offset {chosen.end_offset} on (of epoch {chosen.last_epoch} or a later one) may have been "
        f"committed on {', '.join(gone)} and are lost",
        f"changes of the voters after {voters} may be among them",
        f"what is in the log of {chosen.voter.key} and was never committed is committed now",
    )
