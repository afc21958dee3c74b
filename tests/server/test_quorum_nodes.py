"""Controllers in processes of their own: a leader, a kill, members that come and go, and all dead at once.

The long versions, and Apache Kafka beside us, are in tests/compat/test_quorum_nodes.py.
"""

from __future__ import annotations

from pathlib import Path

from tests.server.quorum_processes import Members, create_topic, eventually

from barnabas.errors import ErrorCode
from barnabas.model import METADATA_TOPIC
from barnabas.wire.schemas.quorum import (
    VoteRequest,
    VoteRequestPartitionData,
    VoteRequestTopicData,
    VoteResponse,
)


def test_three_nodes_elect_commit_lose_their_leader_change_members_and_come_back(tmp_path: Path) -> None:
    with Members.formed(tmp_path, 3) as nodes:
        nodes.start()
        nodes.settled([1, 2, 3])
        follower = next(member for member in nodes.all.values() if member is not nodes.leader())
        assert eventually(lambda: create_topic(follower, "flights") == ErrorCode.NONE)

        killed = nodes.leader()
        killed.kill()
        heir = nodes.leader()
        assert heir is not killed
        assert eventually(lambda: create_topic(heir, "after-the-kill") == ErrorCode.NONE)
        killed.start()
        nodes.settled([1, 2, 3])
        killed.serving()

        fourth = nodes.join(4)
        nodes.observed(fourth)
        nodes.add(fourth, at=heir, broker=True)
        nodes.settled([1, 2, 3, 4])
        nodes.remove(fourth, at=killed, broker=True)
        nodes.settled([1, 2, 3])

        removed = nodes.leader()
        nodes.remove(removed)
        rest = [id_ for id_ in (1, 2, 3) if id_ != removed.id]
        nodes.settled(rest)

        before = nodes.leader().describe().high_watermark
        for member in nodes.all.values():
            member.kill()
        nodes.start()
        row = nodes.settled(rest)
        assert row.high_watermark > before
        witness = nodes[rest[0]]
        witness.serving()
        for topic in ("flights", "after-the-kill"):
            assert create_topic(witness, topic) == ErrorCode.TOPIC_ALREADY_EXISTS
        assert all(len(leaders) == 1 for leaders in nodes.leaders_by_epoch().values())


def test_a_candidate_that_names_no_quorum_generation_as_apache_kafkas_nodes_gets_our_vote(
    tmp_path: Path,
) -> None:
    with Members.formed(tmp_path, 3, "controller") as nodes:
        one, other = nodes[1].start(), nodes[2]  # alone, and nobody leads

        def granted(pre_vote: bool, last_offset: int) -> bool:
            asked = VoteRequestPartitionData(
                replica_epoch=1 << 20,
                replica_id=other.id,
                replica_directory_id=other.directory_id,
                voter_directory_id=one.directory_id,
                last_offset_epoch=0,
                last_offset=last_offset,
                pre_vote=pre_vote,
            )
            topic = VoteRequestTopicData(topic_name=METADATA_TOPIC, partitions=[asked])
            answer: VoteResponse = one.ask(VoteRequest(voter_id=one.id, topics=[topic]))
            return answer.topics[0].partitions[0].vote_granted

        assert eventually(lambda: granted(pre_vote=True, last_offset=100))
        assert granted(pre_vote=False, last_offset=100)
