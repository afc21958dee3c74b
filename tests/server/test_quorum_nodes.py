"""Controllers in processes of their own: a leader, a kill, members that come and go, and all dead at once.

The long versions, and Apache Kafka beside us, are in tests/compat/test_quorum_nodes.py.
"""

from __future__ import annotations

from pathlib import Path

from tests.server.quorum_processes import Members, create_topic, eventually

from barnabas.errors import ErrorCode


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
