"""What the commands print, word for word, against a real node."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from tests.cli.shell import Shell, typed

from barnabas import Producer
from barnabas.cli.main import main
from barnabas.cli.topics import _describe
from barnabas.testing import Cluster


@pytest.fixture(scope="module")
def kafka() -> Iterator[Cluster]:
    """A node for this module alone: its topics have the names that are printed."""
    with Cluster() as cluster:
        yield cluster


def test_a_topic_from_its_making_to_its_end(shell: Shell) -> None:
    assert shell("topics create cli-life --partitions 2 --config retention.ms=60000") == 0
    assert shell.out == "Created topic cli-life (2 partitions, 1 copy each).\n"
    assert shell("topics create cli-life") == 1
    assert shell.err.startswith("error: topic cli-life: ")
    assert "(TOPIC_ALREADY_EXISTS)\n  next: " in shell.err
    assert shell("topics create cli-life --if-not-exists") == 0
    assert shell("topics grow cli-life --partitions 3") == 0
    assert shell.out == "Topic cli-life has 3 partitions now.\n"
    assert shell("topics describe cli-life") == 0
    head, *table = shell.out.splitlines()
    assert re.fullmatch(r"topic cli-life  id [\w-]{22}  settings retention.ms=60000", head)
    assert table == [
        "PARTITION  LEADER  EPOCH  REPLICAS  ISR  ELR  LAST-KNOWN-ELR  EARLIEST  LATEST",
        "        0       1      0         1    1    -               -         0       0",
        "        1       1      0         1    1    -               -         0       0",
        "        2       1      0         1    1    -               -         0       0",
    ]
    assert shell("topics delete cli-life not-there") == 4
    assert shell("topics describe cli-life") == 0, "all of them are there, or none is deleted"
    assert shell("topics delete cli-life cli-life") == 0, "a name that is given twice is deleted once"
    assert shell.out == "Deleted topic cli-life.\n"
    assert shell("topics describe cli-life") == 4
    assert shell.err == (
        "error: there is no topic cli-life (UNKNOWN_TOPIC_OR_PARTITION)\n"
        "  next: see what there is with `barnabas topics list`, or `barnabas topics create cli-life`\n"
    )


def test_several_topics_are_described_and_partitions_that_miss_a_replica(shell: Shell) -> None:
    assert shell("topics create cli-one cli-two") == 0
    assert shell("topics describe cli-one cli-two") == 0
    heads = [line for line in shell.out.splitlines() if line.startswith("topic ")]
    assert [head.split()[1] for head in heads] == ["cli-one", "cli-two"]
    assert [topic["name"] for topic in shell.document("topics describe cli-one cli-two")["topics"]] == [
        "cli-one",
        "cli-two",
    ]
    assert shell("topics describe --under-replicated") == 0
    assert shell.out == "Every partition has all its replicas in sync.\n"
    assert shell.document("topics describe --under-replicated")["under-replicated"] == []


def test_a_partition_that_misses_a_replica_is_named_with_the_replica(
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole = SimpleNamespace(partition=0, leader=1, replicas=[1, 2, 3], isr=[3, 1, 2])
    behind = SimpleNamespace(partition=1, leader=2, replicas=[2, 3, 1], isr=[2])
    topic = SimpleNamespace(name="orders", partitions={0: whole, 1: behind})
    admin = SimpleNamespace(topics=lambda internal: [topic])
    _describe(admin, argparse.Namespace(topics=[], under_replicated=True, json=False))
    assert capsys.readouterr().out.splitlines() == [
        "TOPIC   PARTITION  LEADER  REPLICAS  ISR  MISSING",
        "orders          1       2  2,3,1       2  1,3",
    ]


@pytest.mark.parametrize(
    ("answer", "there"), [(b"yes\n", False), (b"Y\n", False), (b"no\n", True), (b"", True)]
)
def test_a_topic_is_deleted_on_a_terminal_only_after_yes(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, answer: bytes, there: bool
) -> None:
    assert shell("topics create cli-asked --if-not-exists") == 0
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True, readline=answer.decode))
    assert shell("topics delete cli-asked") == (130 if there else 0)
    assert "Delete cli-asked with all records of 1 partition? It cannot be undone [yes/no]" in shell.err
    assert shell.err.endswith("nothing was changed\n") == there
    assert shell("topics describe cli-asked") == (0 if there else 4)
    assert shell("topics delete cli-asked --yes") == (0 if there else 4)


def test_a_dry_run_makes_nothing(shell: Shell) -> None:
    assert shell("topics create cli-dry --dry-run") == 0
    assert shell.out.startswith("Could create topic cli-dry (1 partition, ")
    assert "cli-dry" not in [t["name"] for t in shell.document("topics list")["topics"]]


def test_json_documents_carry_their_version_and_kind(shell: Shell) -> None:
    shell("topics create cli-json")
    for line, kind in [
        ("topics list", "topics"),
        ("topics describe cli-json", "topic"),
        ("configs show topic cli-json", "configs"),
        ("groups list", "groups"),
        ("cluster id", "cluster"),
        ("cluster brokers", "brokers"),
        ("quorum describe", "quorum"),
    ]:
        document = shell.document(line)
        assert (document["version"], document["kind"]) == (1, kind)


def test_lines_are_sent_and_read(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    typed(monkeypatch, b"a:1\nb:2\r\nc:\xff\n")
    assert shell("produce cli-lines --key-separator :") == 0
    assert shell.err == "Sent 3 records to cli-lines.\n"
    assert shell("consume cli-lines --from-beginning --max 2 --format key") == 0
    assert shell.out == "a\t1\nb\t2\n"
    assert shell("consume cli-lines --partition 0 --offset 2 --max 1 --format json") == 0
    document = json.loads(shell.out)
    assert document.pop("timestamp") > 0
    assert document == {
        "version": 1,
        "kind": "record",
        "topic": "cli-lines",
        "partition": 0,
        "offset": 2,
        "key": "c",
        "value": {"base64": "/w=="},
        "headers": [],
    }
    typed(monkeypatch, b"no separator\n")
    assert shell("produce cli-lines --key-separator :") == 2
    assert shell.err.startswith("error: line 1 has no ':'\n")


def test_generated_records_are_numbered_and_of_one_size(shell: Shell) -> None:
    assert shell("produce cli-load --records 50 --size 20 --compression zstd") == 0
    assert shell("consume cli-load --from-beginning --idle 0.3") == 0
    lines = shell.out.splitlines()
    assert [int(line.split()[0]) for line in lines] == list(range(50))
    assert {len(line) for line in lines} == {20}


def test_consume_from_nowhere_and_from_too_many_places(shell: Shell) -> None:
    assert shell("consume cli-nothing --from-beginning --idle 0.1") == 4
    assert shell("consume a --group g --offset 1") == 2
    assert shell("consume a --offset 1 --from-beginning") == 2
    assert shell("consume a b --partition 1") == 2


def test_a_group_is_described_reset_and_deleted(shell: Shell) -> None:
    with Producer(shell.kafka.bootstrap) as producer:
        for n in range(10):
            producer.send("cli-group", b"%d" % n)
    assert shell("consume cli-group --group cli-g --from-beginning --max 4") == 0
    assert shell("groups describe cli-g") == 0
    assert shell.out.splitlines() == [
        f"group cli-g  Empty  coordinator {shell.kafka.bootstrap}  lag 6",
        "TOPIC      PARTITION  COMMITTED  END  LAG  MEMBER  HOST",
        "cli-group          0          4   10    6       -     -",
    ]
    assert shell("groups reset cli-g --to 1 --dry-run") == 0
    assert shell("groups reset cli-g --to earliest --execute") == 0
    assert shell.out.splitlines() == [
        "TOPIC      PARTITION  COMMITTED  NEW",
        "cli-group          0          4    0",
    ]
    [row] = shell.document("groups describe cli-g")["group"]["offsets"]
    assert (row["committed"], row["lag"]) == (0, 10)
    assert shell("groups reset cli-g --to somewhere") == 2
    assert "cli-g" in [g["group"] for g in shell.document("groups list")["groups"]]
    assert shell("groups delete cli-g cli-g") == 0
    assert shell("groups describe cli-g") == 4


def test_settings_are_shown_changed_and_reset(shell: Shell) -> None:
    shell("topics create cli-conf")
    assert shell("configs set topic cli-conf retention.ms=1000 segment.bytes=1048576") == 0
    assert shell("configs show topic cli-conf") == 0
    shown = {line.split()[0]: line.split()[1:] for line in shell.out.splitlines()[1:]}
    assert shown["retention.ms"] == ["1000", "topic"]
    assert shell("configs reset topic cli-conf retention.ms") == 0
    mine = [
        c["name"] for c in shell.document("configs show topic cli-conf")["configs"] if c["source"] == "topic"
    ]
    assert mine == ["segment.bytes"]
    assert shell("configs set topic cli-conf nonsense") == 2
    assert shell("configs set topic cli-conf retention.ms=soon") == 1
    assert "next: retention.ms: give a whole number from -1 to 9223372036854775807\n" in shell.err
    assert shell("configs set topic cli-conf retenton.ms=1") == 1
    assert "next: did you mean retention.ms?\n" in shell.err
    assert shell("topics create cli-other --config cleanup.policy=none") == 1
    assert "next: cleanup.policy: give some of compact, delete, with commas\n" in shell.err
    assert shell("configs set broker-logger 1 nothing=DEBUG") == 1
    assert "next: `barnabas configs show broker-logger 1 --all` shows every setting\n" in shell.err
    assert shell("quotas set --user u producer_byte_rate=-1") == 1
    assert "for example producer_byte_rate=1048576\n" in shell.err
    assert shell("topics grow cli-conf --partitions 1") == 1
    assert "next: `barnabas topics describe`" in shell.err


def test_the_cluster_and_its_quorum(shell: Shell) -> None:
    about = shell.kafka.about
    assert shell("cluster id") == 0
    assert shell.out == f"Cluster ID: {about['cluster_id']}\n"
    assert shell("quorum describe --status") == 0
    lines = dict(line.split(":", 1) for line in shell.out.splitlines())
    assert list(lines) == [
        "ClusterId",
        "LeaderId",
        "LeaderEpoch",
        "HighWatermark",
        "MaxFollowerLag",
        "MaxFollowerLagTimeMs",
        "CurrentVoters",
        "CurrentObservers",
    ]
    assert lines["ClusterId"].strip() == about["cluster_id"]
    [voter] = json.loads(lines["CurrentVoters"])
    assert (voter["id"], voter["directoryId"]) == (1, about["directory_id"])
    assert shell("quorum describe --rep --hum") == 0
    assert re.search(rf"^1     \t{about['directory_id']}\t\d+ +\t0  \t\d+ ms ago", shell.out, re.MULTILINE)
    assert shell("quorum describe") == 2
    assert shell("quorum describe --status --replication") == 2
    assert shell("quorum describe --status --human-readable") == 2


def test_our_own_files_are_dumped_and_verified(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    with Producer(shell.kafka.bootstrap) as producer:
        producer.send("cli-dump", b"hello", key=b"k")
    data = f"{shell.kafka.directory}/data"
    assert main(["log", "verify", data]) == 0
    assert "cli-dump-0" in capsys.readouterr().out
    assert main(["log", "dump", "--print-data-log", f"{data}/cli-dump-0/00000000000000000000.log"]) == 0
    assert capsys.readouterr().out.endswith("headerKeys: [] key: k payload: hello\n")
    metadata = f"{data}/__cluster_metadata-0/00000000000000000000.log"
    assert main(["log", "dump", "--cluster-metadata-decoder", metadata]) == 0
    out = capsys.readouterr().out
    assert '"type":"REGISTER_BROKER_RECORD"' in out
    assert "LeaderChange: " in out


@pytest.mark.parametrize("name", ["abc", "-", "\u00b2"])
@pytest.mark.parametrize(
    "words", ["show broker {}", "set broker {} log.cleaner.threads=2", "show broker-logger {}"]
)
def test_a_broker_whose_number_is_none_is_refused_with_a_next_step(
    shell: Shell, words: str, name: str
) -> None:
    assert shell("configs " + words.format(name)) == 2
    assert shell.err.startswith(f"error: {name!r} is no broker's number\n  next: give a node.id")
