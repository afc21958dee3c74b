"""What an operator does to a quorum of real processes by one command: hand over, replace, readmit."""

from __future__ import annotations

import json
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.server.quorum_processes import Member, Members, eventually

from barnabas.cli.main import main

Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> Typed:
    """Exit code, output and errors of `barnabas quorum -C <at> ...`."""

    def type_(at: Member, *words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["quorum", "-C", f"127.0.0.1:{at.controller}", *words])
        out, err = capsys.readouterr()
        return code, out, err

    return type_


def refused(typed: Typed, at: Member, reason: str, *words: str, code: int = 1) -> None:
    """One line of reason, one next step, nothing else."""
    got, out, err = typed(at, *words)
    lines = err.splitlines()
    assert got == code and reason in lines[0] and lines[0].startswith("error: "), (got, out, err)
    assert len(lines) == 2 and lines[1].startswith("  next: ") and not out, (code, out, err)


def test_the_lead_is_handed_over_and_who_cannot_take_it_is_refused(tmp_path: Path, typed: Typed) -> None:
    with Members.formed(tmp_path, 3, "controller") as nodes:
        nodes.start()
        nodes.settled([1, 2, 3])
        leader = nodes.leader()
        other, third = (m for m in nodes.all.values() if m is not leader)
        fourth = nodes.join(4)
        nodes.observed(fourth)

        code, out, err = typed(third, "transfer-leadership", "--to", str(other.id), "--dry-run")
        assert (code, out) == (0, f"DRY RUN: node {other.id} would lead after node {leader.id}\n"), err
        assert nodes.leader() is leader
        code, out, err = typed(third, "transfer-leadership", "--to", str(other.id))
        assert code == 0 and out.startswith(f"Node {other.id} leads the quorum"), (code, out, err)
        assert nodes.leader() is other
        code, out, err = typed(third, "transfer-leadership", "--to", str(other.id))
        assert (code, out) == (0, f"Node {other.id} leads the quorum already.\n"), err
        refused(
            typed, third, "node 4 is no voter: the voters are 1, 2, 3", "transfer-leadership", "--to", "4"
        )
        refused(typed, third, "node 9 is no voter", "transfer-leadership", "--to", "9", "--dry-run")
        code, out, err = typed(other, "transfer-leadership", "--force", "--force", "--wait", "--json")
        assert code == 0 and json.loads(out)["transferred"]["before"] == other.id, (code, out, err)

        code, out, err = typed(leader, "replace", "--node", str(third.id), "--with", "4", "--wait")
        ids = sorted((leader.id, other.id, 4))
        bootstrap = (
            f"controller.quorum.bootstrap.servers={','.join(f'127.0.0.1:{nodes[i].controller}' for i in ids)}"
        )
        assert code == 0 and out.endswith(
            f"Node {third.id} is replaced: the voters are {', '.join(map(str, ids))}.\n"
        ), (code, out, err)
        assert bootstrap in out, (code, out, err)
        refused(typed, other, f"node {third.id} is no voter", "replace", "--node", str(third.id))
        refused(typed, other, "a new disk of node 4 does not follow", "replace", "--node", "4")
        refused(typed, other, "node 4 is a voter already", "readmit", "--node", "4")
        refused(typed, other, "node 9 does not follow the leader", "readmit", "--node", "9")
        code, out, err = typed(other, "readmit", "--node", str(third.id), "--wait", "--json")
        assert code == 0 and json.loads(out)["readmitted"]["target"] == [1, 2, 3, 4], (code, out, err)
        assert "4 voters stop when more than 1 die, as 3 would" in err
        nodes.settled([1, 2, 3, 4])

        def told(at: Member) -> list[str]:
            code, out, err = typed(at, "history", "--json")
            assert code == 0, (code, out, err)
            return [line["what"].partition("-")[0] for line in json.loads(out)["history"]]

        # Every controller has it: also the one that led first, and the one that came last.
        eventually(lambda: told(third)[-1] == f"add {third.id}")
        assert [what for what in told(third) if what.startswith(("add", "remove"))] == [
            "add 4",
            f"remove {third.id}",
            f"add {third.id}",
        ]
        assert f"transfer the lead from {leader.id} to {other.id}" in told(third)
        code, out, err = typed(leader, "history", "--last", "1")
        assert code == 0 and "on the way to the target" in out and len(out.splitlines()) == 2, (
            code,
            out,
            err,
        )


@contextmanager
def late(member: Member, seconds: float = 1.0) -> Iterator[None]:
    """It stands still, and goes on so long after the block has begun."""
    member.signal(signal.SIGSTOP)
    goes_on = threading.Timer(seconds, member.signal, (signal.SIGCONT,))
    goes_on.start()
    try:
        yield
    finally:
        goes_on.join()


def test_right_after_a_handover_nobody_is_refused_who_has_not_fetched_from_the_new_leader_yet(
    tmp_path: Path, typed: Typed
) -> None:
    """Neither who comes, nor who stays, nor who shall lead: a new leader knows of nobody in its first moment."""
    patience = {"controller_quorum_fetch_timeout_ms": "6000"}  # nobody who stands still for a second is dead
    with Members.formed(tmp_path, 3, "controller", **patience) as nodes:
        nodes.start()
        nodes.settled([1, 2, 3])
        fourth = nodes.join(4, **patience)
        nodes.observed(fourth)

        def done(at: Member, *words: str) -> None:
            code, out, err = typed(at, *words)
            assert code == 0, (words, code, out, err)

        def handed_over(to: Member) -> None:
            done(to, "transfer-leadership", "--to", str(to.id), "--wait")

        old = nodes.leader()
        new, third = (m for m in nodes.all.values() if m not in (old, fourth))
        with late(fourth):
            handed_over(new)
            done(new, "replace", "--node", str(third.id), "--with", "4", "--wait")
        nodes.settled(sorted([old.id, new.id, 4]))
        handed_over(old)
        with late(third):
            handed_over(new)
            done(new, "readmit", "--node", str(third.id), "--wait")
        nodes.settled([1, 2, 3, 4])
        with late(third):
            handed_over(old)
            handed_over(third)
        with late(fourth):
            handed_over(new)
            done(new, "reassign", "--target", f"{old.id},{new.id},4", "--wait")
        nodes.settled(sorted([old.id, new.id, 4]))


def test_a_new_disk_takes_the_vote_of_the_old_one_and_not_where_the_rest_is_no_live_majority(
    tmp_path: Path, typed: Typed
) -> None:
    with Members.formed(tmp_path, 3, "controller") as nodes:
        nodes.start()
        nodes.settled([1, 2, 3])
        leader = nodes.leader()
        lost, other = (m for m in nodes.all.values() if m is not leader)
        lost.kill()
        refused(typed, other, "a new disk of node", "replace", "--node", str(lost.id))
        shutil.rmtree(lost.data)
        lost.format("--no-initial-controllers")
        lost.start()
        nodes.observed(lost)
        # For a fetch timeout the old disk counts as alive: then the id stands for two replicas.
        eventually(lambda: typed(leader, "replace", "--node", str(lost.id), "--dry-run")[0] == 0)
        code, out, err = typed(leader, "replace", "--node", str(lost.id), "--dry-run")
        assert code == 0 and "1, 2, 3 -> " in out and "either one's death, also the leader's" in err
        code, out, err = typed(other, "replace", "--node", str(lost.id), "--wait", "--timeout", "20")
        assert code == 0 and f"Node {lost.id} is replaced: the voters are 1, 2, 3." in out, (code, out, err)
        nodes.settled([1, 2, 3])
        # One way through an even set: the warning says what its cost is.
        code, out, err = typed(leader, "reassign", "--target", f"{leader.id},{other.id}", "--dry-run")
        assert code == 0 and "2 voters stop when one dies" in err, (code, out, err)
        eventually(lambda: typed(leader, "describe", "--status")[0] == 0)
