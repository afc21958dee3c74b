"""What an operator types at a quorum of real processes: asked anywhere, checked without effect, explained."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.server.quorum_processes import Member, Members, eventually

from barnabas.cli.exits import Exit
from barnabas.model import ReplicaKey, Uuid
from barnabas.raft.describe import Description
from barnabas.raft.voters import Voter, VoterSet
from barnabas.server.kraft.quorum_events import missing


def typed(at: Member, *words: str) -> tuple[int, str, str]:
    """Exit code, output and errors of `barnabas quorum -C <at> ...`."""
    command = [sys.executable, "-m", "barnabas", "quorum", "-C", f"127.0.0.1:{at.controller}", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def settled_answer(at: Member, *words: str) -> tuple[int, str, str]:
    """The same, asked again while a leader that is new would have to wait."""

    def answer() -> tuple[int, str, str] | None:
        found = typed(at, *words)
        return None if found[0] == Exit.TIMED_OUT else found

    settled: tuple[int, str, str] = eventually(answer)
    return settled


def detail(at: Member) -> dict[str, object]:
    code, out, err = typed(at, "describe", "--detail", "--json")
    assert out, (code, err)
    found: dict[str, object] = json.loads(out)["quorum"]
    return found


def test_a_change_is_checked_watched_at_any_node_and_a_lost_majority_is_explained(tmp_path: Path) -> None:
    with Members.formed(tmp_path, 3) as nodes:
        nodes.start()
        nodes.settled([1, 2, 3])
        leader = nodes.leader()
        other, third = (m for m in nodes.all.values() if m is not leader)
        fourth = nodes.join(4)
        nodes.observed(fourth)
        eventually(lambda: detail(other)["could_be_voters"] == [4])

        code, out, _ = settled_answer(other, "remove-controller", "-i", str(third.id), "--dry-run")
        assert code == 0 and "The leader says: the voters would be" in out
        code, _, err = settled_answer(other, "remove-controller", "-i", "9")
        assert code == 1 and "the voters are 1, 2, 3" in err and "next:" in err
        code, _, err = settled_answer(other, "reassign", "--target", "1,2,9", "--dry-run")
        assert code == 1 and "nothing was changed" in err and "next:" in err
        nodes.settled([1, 2, 3])

        fourth.kill()
        target = f"{leader.id},{other.id},4"
        code, _, err = typed(leader, "-c", str(fourth.properties), "add-controller", "--timeout", "4")
        assert code == 5 and "does not answer" in err and "next:" in err
        fourth.start()
        nodes.observed(fourth)
        eventually(lambda: typed(other, "reassign", "--target", target)[0] == 0)
        for member in (leader, other, third):
            code, out, _ = typed(member, "reassign")
            assert code == 0 and ("Controllers to come" in out or "No change" in out)
        nodes.settled(sorted((leader.id, other.id, 4)))
        code, out, _ = typed(third, "remove-controller", "-i", "4")
        assert code == 0 and "Removed" in out

        leader.kill()
        fourth.kill()
        eventually(lambda: detail(other)["leader"] is None, within=40)
        code, out, _ = typed(other, "describe", "--detail")
        assert code == 1 and f"voter {leader.id} does not answer" in out and "cannot connect" in out
        eventually(lambda: "quorum.leaderless" in other.log.read_text())
        code, _, err = typed(other, "describe", "--status", "--timeout", "2")
        assert code != 0 and "describe --detail" in err


def voters(*ids: int) -> VoterSet:
    return VoterSet.of(Voter(ReplicaKey(n, Uuid.of(1, n)), ()) for n in ids)


def test_voters_that_are_silent_for_one_reason_are_named_together() -> None:
    seen = Description(False, None, 1, 0, voters(1, 2, 3, 4), errors=((2, "a"), (3, "a"), (4, "b"), (9, "a")))
    assert missing(seen) == "voters 2 and 3 do not answer (a); voter 4 does not answer (b)"
