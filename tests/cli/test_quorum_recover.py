"""`barnabas quorum recover`: a lost majority, from the survivors' directories to a quorum that goes on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.main import main
from barnabas.log.files.disk import OsDisk
from barnabas.log.files.meta_properties import read_meta_properties
from barnabas.model import Now, Uuid
from barnabas.raft.effects import SaveElection
from barnabas.raft.entries import Batch, ElectionState, Opaque
from barnabas.raft.membership.generation import EPOCH_GAP, GENERATION_NOTE, QuorumGeneration
from barnabas.raft.voters import VoterSet
from barnabas.server.kraft.election_state import QUORUM_STATE, read_election
from barnabas.server.kraft.recovery import metadata_log_config, open_store
from barnabas.server.kraft.storage import MetadataStore
from barnabas.wire.metadata import ConfigRecord

METADATA = "__cluster_metadata-0"
CLUSTER = "5L6g3nShT-eMCtK--X86sw"
DIRECTORIES = [str(Uuid.of(7, number)) for number in range(1, 6)]


class Clock:
    def now(self) -> Now:
        return Now(1.0, 1_700_000_000_000)


def opened(data: Path) -> MetadataStore:
    return open_store(
        OsDisk(),
        Clock(),
        str(data),
        metadata_log_config(1 << 30, 1 << 40),
        cluster_id=CLUSTER,
        static_voters=VoterSet.EMPTY,
    )


def properties(folder: Path, id_: int, extra: str = "") -> Path:
    file = folder / f"{id_}.properties"
    file.write_text(
        f"process.roles=controller\nnode.id={id_}\nlisteners=CONTROLLER://127.0.0.1:{9090 + id_}\n"
        "controller.listener.names=CONTROLLER\n"
        f"controller.quorum.bootstrap.servers=127.0.0.1:9091\nlog.dirs={folder / str(id_)}\n{extra}"
    )
    return file


def formed(folder: Path, ends: dict[int, tuple[int, int]], count: int = 3) -> dict[int, Path]:
    """Controllers 1 to `count`, formatted together; of each its log: (end offset, epoch)."""
    files = {}
    initial = ",".join(f"{i}@127.0.0.1:{9090 + i}:{DIRECTORIES[i - 1]}" for i in range(1, count + 1))
    for id_, (end, epoch) in ends.items():
        files[id_] = properties(folder, id_)
        arguments = ["storage", "format", "-t", CLUSTER, "-c", str(files[id_]), "-I", initial]
        assert main(arguments) == 0
        store = opened(folder / str(id_))
        for offset in range(end):
            record = ConfigRecord(resource_type=4, resource_name="", name=f"n{offset}", value="v")
            batch = Batch(offset, 1 if offset < 3 else epoch, (Opaque((record,), 1),))
            store.log_view.append(batch)
            store.append(batch)
        store.log.sync()
        store.log.close(Now(1.0, 1))
        state = SaveElection(1, ElectionState(epoch), 1)
        store.attach(_Now(), lambda message: None, lambda error: None)
        store.save_election(state)
    return files


class _Now:
    def run(self, job: Any, done: Any) -> None:
        job()
        done(None)


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != ".lock"}


def test_the_plan_is_shown_and_nothing_is_written(tmp_path: Path, capsys: Any) -> None:
    files = formed(tmp_path, {1: (8, 2)})
    before = tree(tmp_path)
    capsys.readouterr()
    assert main(["quorum", "recover", "--config", str(files[1])]) == 0
    said = capsys.readouterr().out
    assert "Controller 1 has the most" in said and "What may be lost:" in said
    assert "from offset 8 on" in said and "Nothing is written yet" in said
    assert tree(tmp_path) == before


def test_the_plan_is_written_durably_and_the_log_says_what_happened(tmp_path: Path, capsys: Any) -> None:
    files = formed(tmp_path, {1: (6, 2), 2: (8, 2)}, count=5)
    capsys.readouterr()
    command = ["quorum", "recover", "--config", str(files[1]), "--config", str(files[2])]
    assert main([*command, "--execute", "--yes"]) == 0
    assert "Written. Start controller 2, then 1." in capsys.readouterr().out
    store = opened(tmp_path / "2")
    assert store.log_view.voters.ids == (1, 2) and store.log_view.end_offset == 11
    epoch = 2 + EPOCH_GAP
    assert QuorumGeneration.of(store.log_view.note(GENERATION_NOTE)) == (1, epoch, 8)
    assert store.saved == ElectionState(epoch, generation=1)
    assert store.point == (11, epoch), "what was decided by force is not to be lost again"
    store.log.close(Now(1.0, 1))
    assert read_election(OsDisk(), str(tmp_path / "1" / "__cluster_metadata-0")) == ElectionState(2)
    assert main([*command, "--execute", "--yes"]) == 1, "now both voters are there"
    assert "no recovery by force is needed" in capsys.readouterr().err


def test_survivors_on_several_machines_are_described_and_the_plan_is_written_where_the_log_is(
    tmp_path: Path, capsys: Any
) -> None:
    files = formed(tmp_path, {1: (6, 2), 2: (8, 2)}, count=5)
    capsys.readouterr()
    described = {}
    for id_ in (1, 2):
        assert main(["quorum", "recover", "--config", str(files[id_]), "--json"]) == 0
        described[id_] = tmp_path / f"{id_}.json"
        described[id_].write_text(capsys.readouterr().out)
    here = ["quorum", "recover", "--config", str(files[1]), "--from", str(described[2])]
    assert main([*here, "--execute", "--yes"]) == 2
    assert "on the machine of controller 2" in capsys.readouterr().err
    there = ["quorum", "recover", "--config", str(files[2]), "--from", str(described[1]), "--json"]
    assert main([*there, "--voters", "2", "--execute", "--yes"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["executed"] and document["plan"]["chosen"]["id"] == 2
    assert [voter["id"] for voter in document["plan"]["voters"]] == [2]
    assert [row["end_offset"] for row in document["survivors"]] == [8, 6]


def test_where_a_majority_survives_nothing_is_forced(tmp_path: Path, capsys: Any) -> None:
    files = formed(tmp_path, {1: (6, 2), 2: (8, 2)})
    before = tree(tmp_path)
    command = [
        "quorum",
        "recover",
        "--config",
        str(files[1]),
        "--config",
        str(files[2]),
        "--execute",
        "--yes",
    ]
    assert main(command) == 1
    assert "a majority: no recovery by force" in capsys.readouterr().err
    assert tree(tmp_path) == before


def test_without_a_word_of_consent_nothing_is_written(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = formed(tmp_path, {1: (6, 2)})
    before = tree(tmp_path)

    class Terminal:
        def __init__(self, said: str) -> None:
            self.said = said

        def isatty(self) -> bool:
            return bool(self.said)

        def readline(self) -> str:
            return self.said

    command = ["quorum", "recover", "--config", str(files[1]), "--execute"]
    monkeypatch.setattr("sys.stdin", Terminal(""))
    assert main(command) == 2 and "--yes" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", Terminal("no\n"))
    assert main(command) == 130
    assert tree(tmp_path) == before
    monkeypatch.setattr("sys.stdin", Terminal("yes\n"))
    assert main(command) == 0
    assert tree(tmp_path) != before


def test_a_running_node_a_broker_and_a_foreign_directory_are_refused(tmp_path: Path, capsys: Any) -> None:
    files = formed(tmp_path, {1: (6, 2)})
    lock = OsDisk().lock(str(tmp_path / "1" / ".lock"))
    assert main(["quorum", "recover", "--config", str(files[1])]) == 1
    assert "a node is running on this directory" in capsys.readouterr().err
    lock.release()
    broker = broker_with_the_log_of(tmp_path, 1)
    assert main(["quorum", "recover", "--config", str(broker)]) == 1
    assert "only brokers survive" in capsys.readouterr().err
    assert main(["quorum", "recover", "--directory", str(tmp_path)]) == 1
    assert "not formatted" in capsys.readouterr().err
    assert main(["quorum", "recover"]) == 2


def broker_with_the_log_of(folder: Path, controller: int) -> Path:
    """The properties of broker 9, formatted, with a copy of that controller's metadata log."""
    file = folder / "broker.properties"
    file.write_text(
        "process.roles=broker\nnode.id=9\nlisteners=PLAINTEXT://127.0.0.1:9099\n"
        "controller.listener.names=CONTROLLER\ncontroller.quorum.bootstrap.servers=127.0.0.1:9091\n"
        f"log.dirs={folder / 'b'}\n"
    )
    assert main(["storage", "format", "-t", CLUSTER, "-c", str(file)]) == 0
    shutil.copytree(folder / str(controller) / METADATA, folder / "b" / METADATA, dirs_exist_ok=True)
    return file


def hash_of(capsys: Any, *words: str) -> str:
    capsys.readouterr()
    assert main(["quorum", "recover", "plan", *words, "--json"]) == 0
    return str(json.loads(capsys.readouterr().out)["hash"])


def test_only_the_plan_that_was_shown_is_applied(tmp_path: Path, capsys: Any) -> None:
    files = formed(tmp_path, {1: (6, 2), 2: (8, 2)}, count=5)
    both = ["--config", str(files[1]), "--config", str(files[2])]
    shown = hash_of(capsys, *both)
    assert shown == hash_of(capsys, *both[2:], *both[:2]), "the order of the words is none of it"
    assert shown != hash_of(capsys, *both, "--voters", "2") != hash_of(capsys, *both[2:])
    before = tree(tmp_path)
    assert main(["quorum", "recover", "apply", *both, "--yes"]) == 2
    assert "needs the hash" in capsys.readouterr().err
    assert main(["quorum", "recover", "apply", *both, "--voters", "2", "--plan", shown, "--yes"]) == 2
    assert "the plan is another one now" in capsys.readouterr().err
    assert tree(tmp_path) == before
    assert main(["quorum", "recover", "apply", *both, "--plan", shown, "--yes"]) == 0
    assert "Written. Start controller 2, then 1." in capsys.readouterr().out


def test_the_log_of_a_broker_goes_on_where_it_has_the_most(tmp_path: Path, capsys: Any) -> None:
    files = formed(tmp_path, {1: (6, 2), 2: (9, 2)}, count=3)
    broker = broker_with_the_log_of(tmp_path, 2)
    both = ["--config", str(files[1]), "--config", str(broker)]  # controller 2 is lost
    shown = hash_of(capsys, *both)
    assert main(["quorum", "recover", *both]) == 0
    said = capsys.readouterr().out
    assert "Broker 9 has the most: its log would be copied to controller 1" in said
    assert "no (a broker)" in said and "from offset 9 on" in said
    assert main(["quorum", "recover", "apply", *both, "--plan", shown, "--yes"]) == 0
    assert "Written. Start controller 1." in capsys.readouterr().out
    store = opened(tmp_path / "1")
    assert store.log_view.voters.ids == (1,) and store.log_view.end_offset == 12
    store.log.close(Now(1.0, 1))
    kept = tmp_path / f"1.{METADATA}.before-recovery"
    assert (kept / "00000000000000000000.log").exists(), "what it had is not thrown away"
    assert main(["quorum", "recover", "verify", *both]) == 1
    said = capsys.readouterr().out
    assert "has the recovered log and votes" in said and "of the old quorum" in said


def test_after_a_recovery_each_directory_is_told_what_becomes_of_it(tmp_path: Path, capsys: Any) -> None:
    files = formed(tmp_path, {1: (6, 2), 2: (8, 2), 3: (20, 3)}, count=5)
    both = ["--config", str(files[1]), "--config", str(files[2])]
    assert main(["quorum", "recover", "verify", *both]) == 1, "nothing was recovered"
    assert main(["quorum", "recover", "apply", *both, "--plan", hash_of(capsys, *both), "--yes"]) == 0
    capsys.readouterr()
    assert main(["quorum", "recover", "verify", *both]) == 0
    store = opened(tmp_path / "3")
    store.committed(20)
    store.close()
    assert main(["quorum", "recover", "verify", *both, "--config", str(files[3]), "--json"]) == 1
    rows = json.loads(capsys.readouterr().out.splitlines()[-1])["directories"]
    assert {row["id"]: row["ok"] for row in rows} == {1: "yes", 2: "yes", 3: "no"}
    assert "will be refused: everything below 20 was committed here" in rows[2]["says"]


def test_a_damaged_directory_is_no_survivor(tmp_path: Path, capsys: Any) -> None:
    files = formed(tmp_path, {1: (6, 2)})
    store = opened(tmp_path / "1")
    store.committed(6)
    store.close()
    log = tmp_path / "1" / "__cluster_metadata-0" / "00000000000000000000.log"
    log.write_bytes(log.read_bytes()[:-9])
    assert main(["quorum", "recover", "--config", str(files[1])]) == 1
    assert "is damaged" in capsys.readouterr().err
    assert (tmp_path / "1" / "__cluster_metadata-0" / QUORUM_STATE).exists()


def test_fixed_voters_become_voters_that_change(tmp_path: Path, capsys: Any) -> None:
    fixed = "controller.quorum.voters=1@127.0.0.1:9091,2@127.0.0.1:9092,3@127.0.0.1:9093\n"
    file = properties(tmp_path, 1, fixed)
    file.write_text(file.read_text().replace("controller.quorum.bootstrap.servers=127.0.0.1:9091\n", ""))
    assert main(["storage", "format", "-t", CLUSTER, "-c", str(file)]) == 0
    opened(tmp_path / "1").log.close(Now(1.0, 1))
    command = ["quorum", "recover", "--config", str(file), "--execute", "--yes"]
    assert main(command) == 0
    assert "must not have controller.quorum.voters" in capsys.readouterr().out
    store = opened(tmp_path / "1")
    meta = read_meta_properties(OsDisk(), str(tmp_path / "1"))
    assert meta is not None and meta.directory_id is not None
    assert store.log_view.kraft_version == 1 and store.log_view.voters.ids == (1,)
    assert store.log_view.voters.voters[0].key.directory_id == meta.directory_id


def test_a_voter_named_twice_votes_once_and_a_senseless_description_is_refused(
    tmp_path: Path, capsys: Any
) -> None:
    files = formed(tmp_path, {1: (6, 2)})
    capsys.readouterr()
    command = ["quorum", "recover", "--config", str(files[1]), "--json"]
    assert main([*command, "--voters", "1,1"]) == 0
    assert [voter["id"] for voter in json.loads(capsys.readouterr().out)["plan"]["voters"]] == [1]
    odd = tmp_path / "odd.json"
    odd.write_text('{"survivors": 5}')
    assert main([*command, "--from", str(odd)]) == 2
    assert "no description of a survivor" in capsys.readouterr().err
