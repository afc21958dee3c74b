"""Every command of docs/ and of --help is typed at a cluster: done, or refused with a reason and a next step."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.test_refusals import ROOT, as_typed, commands, parser_of, verbs_of

from barnabas.cli.main import NOUNS, main
from barnabas.cli.typed.usage import with_flags_last
from barnabas.client.admin.admin import Admin
from barnabas.client.producer import Producer
from barnabas.testing.cluster import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

ELSEWHERE = {
    "start": "tests/cli/test_start_and_storage.py",
    "demo": "tests/pipeline/test_demo.py",
    "drill run": "tests/cli/test_drill.py",
    "simulate": "tests/cli/test_simulate.py",
    "pipeline run": "tests/pipeline/test_jobs_spark.py",
    "console": "tests/console",
}
"""What runs for long, or for ever: which test types it."""
FILES = (
    "n1",
    "n2",
    "n3",
    "n4",
    "n5",
    "n6",
    "fourth",
    "new-controller",
    "server",
    "node",
    "node1",
    "node2",
    "broker7",
)
SENTENCES = ("sets it", "status, stop", "whole clusters whose", "and what they came to")
"""How lines end that are no commands."""
LAST = (
    "delete",
    "remove",
    "drain",
    "unregister",
    "reassign",
    "replace",
    "readmit",
    "abort",
    "downgrade",
    "disable",
)
"""What changes the cluster for those that follow comes last."""
MORE = {
    "watch": ["--count", "1"],
    "consume": ["--until", "latest"],
    "add-controller": [],
}


def what(words: list[str]) -> str:
    return " ".join(words[:2]) if " ".join(words[:2]) in ELSEWHERE else words[0]


def typed() -> list[str]:
    found = set()
    for _, line in commands():
        words = with_flags_last(as_typed(line), 1)
        if not words or words[0].startswith("-") or any("|" in word or "[" in word for word in words):
            continue
        if words[0] in NOUNS and not " ".join(words).endswith(SENTENCES) and what(words) not in ELSEWHERE:
            found.add(" ".join(f"'{word}'" if " " in word or "*" in word else word for word in words))
    return sorted(found, key=lambda line: (any(word in LAST for word in line.split()), line))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("typed")
    before = Path.cwd()
    with Cluster(nodes=3) as kafka:
        with Admin(kafka.bootstrap) as admin:
            for topic in ("greetings", "orders", "copy"):
                admin.create_topic(topic, partitions=3, replication=3)
        with Producer(kafka.bootstrap) as producer:
            for number in range(100):
                producer.send("greetings", f"{number}", partition=0)
        os.chdir(folder)
        for name in FILES:
            (folder / f"{name}.properties").write_text(
                "process.roles=controller\nnode.id=9\nlisteners=CONTROLLER://127.0.0.1:1\n"
                "controller.listener.names=CONTROLLER\nlog.dirs=none\n"
                f"controller.quorum.bootstrap.servers={controller_of(kafka)}\n"
            )
        (folder / "client.properties").write_text("security.protocol=PLAINTEXT\n")
        for name, text in (
            ("records.tsv", ""),
            ("pairs.txt", "a:b\n"),
            ("orders.tsv", ""),
            ("plan.json", "{}"),
        ):
            (folder / name).write_text(text)
        try:
            yield kafka
        finally:
            os.chdir(before)


def controller_of(kafka: Cluster) -> str:
    with Admin(kafka.bootstrap) as admin:
        return ",".join(e.partition("://")[2] for v in admin.quorum().voters for e in v.endpoints)


def at_this_cluster(words: list[str], kafka: Cluster) -> list[str]:
    """The command with this cluster's addresses, bounded in time, and with a value for what is in capitals."""
    broker, controller = kafka.bootstrap.split(",")[0], controller_of(kafka).split(",")[0]
    asks_controller = "-C" in words or "--bootstrap-controller" in words
    places = {
        **dict.fromkeys(("127.0.0.1:9093", "host1:9093", "host4:9093", "host7:9093", ":9093"), controller),
        **dict.fromkeys(
            ("127.0.0.1:9092", "127.0.0.1:9094", "host1:9092", "broker1:9093", "10.0.0.1:9093"), broker
        ),
        "HOST:PORT": controller if asks_controller else broker,
        "N": "2",
        "ID": "2",
        "NAME": "alice",
        "TOPIC": "orders",
        "GROUP": "billing",
        "WHERE": "earliest",
        "127.0.0.1:9644": "127.0.0.1:1",
        "x": "5L6g3nShT-eMCtK--X86sw",
        "$CLUSTER": "5L6g3nShT-eMCtK--X86sw",
        "1000000": "1000",
        "$INITIAL": "9@127.0.0.1:1:5L6g3nShT-eMCtK--X86sw",
    }
    words = [places.get(word, word) for word in words]
    parser = parser_of(words[0])
    verb = next((word for word in words if word in verbs_of(parser)), "")
    flags = {*parser._option_string_actions, *(verbs_of(parser)[verb]._option_string_actions if verb else ())}
    words += MORE.get(verb or words[0], [])
    if "--timeout" in flags and "--timeout" not in words and "recover" not in words:
        words += ["--timeout", "4"]
    return words


@pytest.mark.parametrize("line", typed())
def test_what_docs_and_help_say_is_done_or_refused_with_a_reason_and_a_next_step(
    line: str, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BARNABAS_BOOTSTRAP", cluster.bootstrap)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    monkeypatch.setenv("HOME", str(Path.cwd()))
    words = at_this_cluster(as_typed(line), cluster)
    code = main(words)
    out, err = capsys.readouterr()
    assert code in range(6), (code, out, err)
    assert "Traceback" not in out + err
    if code:
        refused = [one for one in (out + err).splitlines() if one.startswith(("error: ", "  next: "))]
        assert refused and any(one.startswith("  next: ") for one in refused), (code, out, err)
    assert " does not know " not in err and " has no '" not in err, err


def test_what_is_not_typed_here_is_typed_elsewhere() -> None:
    for noun, path in ELSEWHERE.items():
        assert noun.split()[0] in NOUNS and (ROOT / path).exists(), noun
