"""Lines of Kafka's kafka-features, kafka-cluster and kafka-metadata-quorum, and the flags that lead to them."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

import pytest

from barnabas.cli import cluster, features
from barnabas.cli.cluster import endpoint_lines
from barnabas.cli.controllers import bootstrap_of, security_of
from barnabas.cli.features import feature_lines
from barnabas.cli.quorum import quorum
from barnabas.client.admin.described import ClusterDescription, FeatureRange
from barnabas.client.metadata import Broker
from barnabas.errors import ConfigError
from barnabas.model import Endpoint


def test_features_have_kafkas_lines() -> None:
    """Printed by kafka-features 4.3.1."""
    ranges = [FeatureRange("kraft.version", 0, 1, 1, 308), FeatureRange("metadata.version", 7, 30, 30, 308)]
    assert feature_lines(ranges) == [
        "Feature: kraft.version                             SupportedMinVersion: 0                "
        "SupportedMaxVersion: 1                FinalizedVersionLevel: 1                Epoch: 308",
        "Feature: metadata.version                          SupportedMinVersion: 3.3-IV3          "
        "SupportedMaxVersion: 4.3-IV0          FinalizedVersionLevel: 4.3-IV0          Epoch: 308",
    ]


def test_endpoints_have_kafkas_table() -> None:
    """Printed by kafka-cluster list-endpoints 4.3.1, of brokers and of controllers."""
    nodes = (Broker(1, "127.0.0.1", 19192, None), Broker(2, "127.0.0.1", 19292, None))
    described = ClusterDescription("5L6g3nShT-eMCtK--X86sw", 1, nodes, (2,))
    assert endpoint_lines(described, controllers=False) == [
        "ID         HOST      PORT       RACK       STATE      ENDPOINT_TYPE  ",
        "1          127.0.0.1 19192      null       unfenced   broker         ",
        "2          127.0.0.1 19292      null       fenced     broker         ",
    ]
    assert endpoint_lines(described, controllers=True)[:2] == [
        "ID         HOST      PORT       RACK       ENDPOINT_TYPE  ",
        "1          127.0.0.1 19192      null       controller     ",
    ]


@pytest.mark.parametrize(
    "words", ["--bootstrap-controller h:1 describe --re --hu", "describe --re --hu -C h:1"]
)
def test_the_cluster_may_be_named_before_and_after_the_verb_and_flags_may_be_short(words: str) -> None:
    parser = ArgumentParser()
    quorum.add_arguments(parser)
    parsed = parser.parse_args(words.split())
    assert parsed.replication and parsed.human_readable and bootstrap_of(parsed) == "h:1"


def test_brokers_and_controllers_at_once_are_refused() -> None:
    parser = ArgumentParser()
    cluster.add_arguments(parser)
    parsed = parser.parse_args(["-b", "h:1", "list-endpoints", "-C", "h:2"])
    with pytest.raises(ConfigError, match="one of the two"):
        bootstrap_of(parsed)


@pytest.mark.parametrize(
    ("words", "levels"),
    [
        ("upgrade --feature kraft.version=1", {"kraft.version": 1}),
        ("upgrade -f metadata.version=4.2 -f group.version=1", {"metadata.version": 29, "group.version": 1}),
        ("disable --feature streams.version", {"streams.version": 0}),
        (
            "downgrade --release-version 4.0",
            {
                "metadata.version": 25,
                "group.version": 1,
                "transaction.version": 2,
                "eligible.leader.replicas.version": 0,
                "share.version": 0,
                "streams.version": 0,
            },
        ),
        (
            "upgrade --release-version 4.3",
            {
                "metadata.version": 30,
                "group.version": 1,
                "transaction.version": 2,
                "eligible.leader.replicas.version": 1,
                "share.version": 1,
                "streams.version": 1,
                "kraft.version": 1,
            },
        ),
    ],
)
def test_levels_are_those_that_apache_kafkas_tool_asks_for_but_no_downgrade_names_kraft_version(
    words: str, levels: dict[str, int]
) -> None:
    parser = ArgumentParser()
    features.add_arguments(parser)
    assert features._wanted(parser.parse_args(words.split())) == levels


@pytest.mark.parametrize("words", ["upgrade", "upgrade -f a=1 -r 4.3", "upgrade -f a", "upgrade -f a=b"])
def test_levels_that_say_nothing_or_too_much_are_refused(words: str) -> None:
    parser = ArgumentParser()
    features.add_arguments(parser)
    with pytest.raises(ConfigError):
        features._wanted(parser.parse_args(words.split()))


def test_add_controller_takes_id_directory_and_endpoints_from_the_new_controllers_file(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    properties = {
        "process.roles": "controller",
        "node.id": "4",
        "controller.quorum.bootstrap.servers": "127.0.0.1:1",
        "listeners": "CONTROLLER://:19493",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(data),
    }
    with pytest.raises(ConfigError, match=r"no meta\.properties"):
        quorum.new_controller(properties)
    data.mkdir()
    (data / "meta.properties").write_text(
        "version=1\ncluster.id=5L6g3nShT-eMCtK--X86sw\nnode.id=4\ndirectory.id=0KyHILh-LzosE8fGn-z0Jg\n"
    )
    id_, directory_id, endpoints, cluster_id = quorum.new_controller(properties)
    assert (id_, str(directory_id)) == (4, "0KyHILh-LzosE8fGn-z0Jg")
    assert cluster_id == "5L6g3nShT-eMCtK--X86sw", "the leader refuses it if this is not its own, naming both"
    assert endpoints == (Endpoint("CONTROLLER", "localhost", 19493),)
    advertised = {**properties, "advertised.listeners": "CONTROLLER://c4:9093"}
    assert quorum.new_controller(advertised)[2] == (Endpoint("CONTROLLER", "c4", 9093),)


def test_a_brokers_file_is_no_controllers_file(tmp_path: Path) -> None:
    properties = {"process.roles": "broker", "node.id": "4", "log.dirs": str(tmp_path)}
    with pytest.raises(ConfigError):
        quorum.new_controller({**properties, "controller.quorum.bootstrap.servers": "127.0.0.1:1"})


@pytest.mark.parametrize(
    ("verb", "level", "refusal", "dry_run", "line"),
    [
        ("upgrade", 30, None, False, "metadata.version was upgraded to 30."),
        ("upgrade", 30, None, True, "metadata.version can be upgraded to 30."),
        ("downgrade", 29, None, False, "metadata.version was downgraded to 29."),
        ("disable", 0, None, False, "metadata.version was disabled."),
        ("upgrade", 30, "why", False, "Could not upgrade metadata.version to 30. why"),
        ("disable", 0, "why", True, "Can not disable metadata.version. why"),
    ],
)
def test_results_of_feature_changes_have_kafkas_words(
    verb: str, level: int, refusal: str | None, dry_run: bool, line: str
) -> None:
    """Printed by kafka-features 4.3.1: levels as numbers here, metadata.version's too."""
    assert features._result(verb, "metadata.version", level, refusal, dry_run) == line


def test_the_file_that_the_environment_names_says_how_to_log_in_where_no_flag_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other, node = tmp_path / "mine", tmp_path / "other", tmp_path / "node"
    mine.write_text("security.protocol=SSL\n")
    other.write_text("security.protocol=PLAINTEXT\n")
    node.write_text("process.roles=controller\nnode.id=5\n")
    monkeypatch.setenv("BARNABAS_COMMAND_CONFIG", str(mine))
    assert security_of(Namespace(command_config=None)) == {"security.protocol": "SSL"}
    assert security_of(Namespace(command_config=str(other))) == {"security.protocol": "PLAINTEXT"}
    assert security_of(Namespace(command_config=str(node))) == {"security.protocol": "SSL"}, (
        "of add-controller"
    )


@pytest.mark.parametrize(
    ("lines", "known"),
    [
        ("ssl.client.auth=required\nssl.truststore.location=ca.pem\n", {}),
        (
            "ssl.client.auth=required\nssl.truststore.location=ca.pem\nsecurity.protocol=SSL\n",
            {"ssl.truststore.location": "ca.pem", "security.protocol": "SSL"},
        ),
    ],
)
def test_a_nodes_file_says_how_to_log_in_where_it_has_a_clients_protocol(
    lines: str, known: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "n5.properties"
    file.write_text(f"process.roles=controller\nnode.id=5\n{lines}")
    assert security_of(Namespace(command_config=str(file))) == known
