"""The file `quorum-state`: what a node must never forget of an election, one line of JSON.

Two versions, as in Apache Kafka: 0 while the voters are fixed (kraft.version 0), 1 once they change at run
time and a vote names the disk too (KIP-853).  Both are read.  Three fields are our own: which quorum the node
is of (`raft.identity.origin`); where it was put together by force, how often (`raft.membership.generation`); and
a checksum of all the others, as another digit would be another vote.  Kafka does not read them, and writes a file
without them: that one is believed.
"""

from __future__ import annotations

import json
from typing import Any

from crc32c import crc32c

from barnabas.errors import StorageError
from barnabas.model import NO_NODE, ZERO_UUID, ReplicaKey, Uuid
from barnabas.ports import Disk
from barnabas.raft.entries import ElectionState
from barnabas.raft.voters import VoterSet

__all__ = ["QUORUM_STATE", "election_text", "read_election"]

QUORUM_STATE = "quorum-state"
_CHECKSUM = "barnabasChecksum"


def election_text(state: ElectionState, kraft_version: int, voters: VoterSet) -> bytes:
    """The content of the file.  Version 0 has no place for the directory id of a vote."""
    content: dict[str, Any]
    voted = NO_NODE if state.voted is None else state.voted.id
    if kraft_version == 0:
        content = {
            "clusterId": "",
            "leaderId": state.leader_id,
            "leaderEpoch": state.epoch,
            "votedId": voted,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": id_} for id_ in voters.ids],
            "data_version": 0,
        }
    else:
        content = {
            "leaderId": state.leader_id,
            "leaderEpoch": state.epoch,
            "votedId": voted,
            "votedDirectoryId": str(ZERO_UUID if state.voted is None else state.voted.directory_id),
            "data_version": 1,
        }
    if state.generation:
        content["barnabasIncarnation"] = state.generation
    if state.origin != ZERO_UUID:
        content["barnabasOrigin"] = str(state.origin)
    return _text({**content, _CHECKSUM: _checksum(content)})


def _text(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def _checksum(content: dict[str, Any]) -> int:
    """Return the checksum of all fields but its own."""
    return int(crc32c(_text({name: content[name] for name in content if name != _CHECKSUM})))


def read_election(disk: Disk, directory: str) -> ElectionState | None:
    """What the file says, None when there is none.  Raises StorageError (fatal) when it is senseless."""
    path = f"{directory}/{QUORUM_STATE}"
    if not disk.exists(path):
        return None
    try:
        content = json.loads(disk.read(path))
        if _CHECKSUM in content and content[_CHECKSUM] != _checksum(content):
            raise ValueError("its checksum is wrong")
        version = content["data_version"]
        if version not in (0, 1):
            raise ValueError(f"data_version {version} is not known")
        voted_id = int(content.get("votedId", NO_NODE))
        voted = None
        if voted_id != NO_NODE:
            directory_id = Uuid.parse(content["votedDirectoryId"]) if version == 1 else ZERO_UUID
            voted = ReplicaKey(voted_id, directory_id)
        generation = int(content.get("barnabasIncarnation", 0))
        origin = Uuid.parse(content["barnabasOrigin"]) if "barnabasOrigin" in content else ZERO_UUID
        leader = int(content.get("leaderId", NO_NODE))
        epoch = int(content["leaderEpoch"])
        if not all(NO_NODE <= number < 1 << 31 for number in (epoch, leader, voted_id, generation)):
            raise ValueError("a number in it is beyond what any epoch or node id is")
        return ElectionState(epoch, leader, voted, generation, origin)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise StorageError(
            f"{path} is senseless: {error}",
            directory=directory,
            next_step="restore it from a backup; without it this node could vote twice in an epoch",
            fatal=True,
        ) from error
