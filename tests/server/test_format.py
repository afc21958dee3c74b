"""Formatting: the bytes of Apache Kafka's storage tool, its refusals, and nothing half done."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.controller import kafka
from tests.controller.cluster import CLUSTER, Chance

from barnabas.config import Config
from barnabas.controller.feature_levels import bootstrap_levels
from barnabas.controller.feature_levels import bootstrap_records as levels_of
from barnabas.errors import ConfigError
from barnabas.log.files.disk import OsDisk
from barnabas.log.files.meta_properties import META_PROPERTIES, MetaProperties, read_meta_properties
from barnabas.model import Endpoint, Now, Uuid
from barnabas.raft.entries import KraftVersionEntry, VotersEntry
from barnabas.raft.voters import VoterSet
from barnabas.server.kraft.records import bootstrap_records, read_snapshot
from barnabas.server.kraft.recovery import metadata_log_config, open_store
from barnabas.server.node.format import (
    FormatPlan,
    FormatResult,
    format_directories,
    format_report,
    parse_initial_controllers,
)
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.records import batches

KAFKA_4_4 = Path(__file__).parents[1] / "fixtures" / "kafka-4.4.0" / "metadata"
FIRST = "00000000000000000000-0000000000.checkpoint"
D1 = Uuid.parse("AAAAAAAAQAAAAAAAAAABAA")
THREE = ",".join(f"{n}@127.0.0.1:19{n}93:AAAAAAAAQAAAAAAAAAA{'BCD'[n - 1]}AA" for n in (1, 2, 3))


class Times:
    """A clock that says these times, then the last one for ever."""

    def __init__(self, *times: int) -> None:
        self.times = list(times)

    def now(self) -> Now:
        return Now(0.0, self.times.pop(0) if len(self.times) > 1 else self.times[0])


def controller(tmp_path: Path, **settings: str) -> Config:
    return Config.load(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": "PLAINTEXT://127.0.0.1:19192,CONTROLLER://127.0.0.1:19193",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(tmp_path / "logs"),
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )


def run(plan: FormatPlan, *times: int) -> FormatResult:
    return format_directories(OsDisk(), Times(*(times or (1,))), Chance(), plan)


def stamps(snapshot: bytes) -> list[int]:
    return [header.base_timestamp for _, header in batches(snapshot)]


def test_the_files_have_the_bytes_that_kafka_4_3_writes_at_the_same_times(tmp_path: Path) -> None:
    """Apache Kafka 4.4 reads them, too."""
    plan = FormatPlan.of(controller(tmp_path), CLUSTER, initial_controllers=THREE, release="4.3")
    times = stamps(kafka.read("bootstrap.checkpoint"))
    times.append(read_snapshot(kafka.read(FIRST)).last_contained_ms)
    result = run(plan, *times, *stamps(kafka.read(FIRST)))
    logs = tmp_path / "logs"
    assert (logs / "bootstrap.checkpoint").read_bytes() == kafka.read("bootstrap.checkpoint")
    assert (logs / "__cluster_metadata-0" / FIRST).read_bytes() == kafka.read(FIRST)
    assert read_meta_properties(OsDisk(), str(logs)) == MetaProperties(CLUSTER, 1, D1)
    assert result.lines == [
        f"Formatting dynamic metadata voter directory {logs} with metadata.version 4.3-IV0."
    ]
    assert sorted(path.name for path in logs.iterdir()) == [
        "__cluster_metadata-0",
        "bootstrap.checkpoint",
        META_PROPERTIES,
    ]


@pytest.mark.parametrize(
    ("file", "voters"),
    [("initial-controllers", (1, 2, 3)), ("no-initial-controllers", ()), ("static-voters", ())],
)
def test_a_directory_that_kafka_4_4_formatted_has_the_levels_that_ours_has_and_its_voters(
    file: str, voters: tuple[int, ...]
) -> None:
    disk = MemoryDisk()
    disk.put("data/meta.properties", b"")
    disk.put(f"data/__cluster_metadata-0/{FIRST}", (KAFKA_4_4 / f"{file}.checkpoint").read_bytes())
    assert bootstrap_records(disk, "data") == levels_of(bootstrap_levels())
    log = metadata_log_config(1 << 20, 1 << 40)
    store = open_store(disk, Times(1), "data", log, cluster_id=CLUSTER, static_voters=VoterSet.EMPTY)
    assert store.log_view.voters.ids == voters
    assert not store.image.features, "they are not in force before the log says so"


def test_a_standalone_controller_votes_alone_under_the_id_of_its_directory(tmp_path: Path) -> None:
    result = run(FormatPlan.of(controller(tmp_path), CLUSTER, standalone=True))
    [directory_id] = result.directory_ids.values()
    content = read_snapshot((tmp_path / "logs" / "__cluster_metadata-0" / FIRST).read_bytes())
    version, voters = content.entries
    assert version == KraftVersionEntry(1)
    assert isinstance(voters, VotersEntry)
    [voter] = voters.voters
    assert voter.key == (1, directory_id)
    assert voter.endpoints == (Endpoint("CONTROLLER", "127.0.0.1", 19193),)


def test_a_wildcard_address_becomes_localhost_and_an_advertised_one_wins(tmp_path: Path) -> None:
    listeners = "PLAINTEXT://:1,CONTROLLER://0.0.0.0:19193"
    plain = FormatPlan.of(controller(tmp_path, listeners=listeners), CLUSTER, standalone=True)
    assert plain.standalone == Endpoint("CONTROLLER", "localhost", 19193)
    config = controller(
        tmp_path, listeners=listeners, advertised_listeners="CONTROLLER://c1:7,PLAINTEXT://p:1"
    )
    assert FormatPlan.of(config, CLUSTER, standalone=True).standalone == Endpoint("CONTROLLER", "c1", 7)


def test_a_node_that_is_no_initial_controller_writes_the_voters_and_has_an_id_of_its_own(
    tmp_path: Path,
) -> None:
    plan = FormatPlan.of(controller(tmp_path, node_id="4"), CLUSTER, initial_controllers=THREE)
    result = run(plan)
    [directory_id] = result.directory_ids.values()
    assert "Formatting dynamic metadata directory " in result.lines[0], (
        "Kafka's words for one that does not vote"
    )
    assert directory_id not in {voter.key.directory_id for voter in plan.voters or ()}
    assert (tmp_path / "logs" / "__cluster_metadata-0" / FIRST).exists()


def test_without_initial_controllers_there_is_no_snapshot(tmp_path: Path) -> None:
    result = run(FormatPlan.of(controller(tmp_path), CLUSTER, no_initial_controllers=True))
    assert not (tmp_path / "logs" / "__cluster_metadata-0").exists()
    assert "Formatting metadata directory " in result.lines[0], "Kafka's words"


def test_a_fixed_quorum_has_no_snapshot_and_is_not_called_dynamic(tmp_path: Path) -> None:
    config = controller(tmp_path, controller_quorum_voters="1@127.0.0.1:19193")
    result = run(FormatPlan.of(config, CLUSTER))
    assert "Formatting metadata directory " in result.lines[0]
    assert not (tmp_path / "logs" / "__cluster_metadata-0").exists()


def test_every_directory_gets_an_id_and_the_features_and_only_one_is_the_metadata_directory(
    tmp_path: Path,
) -> None:
    dirs = ",".join(str(tmp_path / name) for name in "ab")
    result = run(FormatPlan.of(controller(tmp_path, log_dirs=dirs), CLUSTER, standalone=True))
    assert len(set(result.directory_ids.values())) == 2
    assert [line.split(" /")[0] for line in result.lines] == [
        "Formatting dynamic metadata voter directory",
        "Formatting data directory",
    ]
    assert (tmp_path / "b" / "bootstrap.checkpoint").exists()
    assert not (tmp_path / "b" / "__cluster_metadata-0").exists()


def test_a_formatted_directory_is_refused_unless_told_to_pass_over_it(tmp_path: Path) -> None:
    config = controller(tmp_path)
    run(FormatPlan.of(config, CLUSTER, standalone=True))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(ConfigError, match="formatted already"):
        run(FormatPlan.of(config, CLUSTER, standalone=True))
    again = run(FormatPlan.of(config, CLUSTER, standalone=True, ignore_formatted=True))
    assert (again.done, again.lines) == (False, ["All of the log directories are already formatted."])
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_directory_of_another_cluster_is_refused_even_so(tmp_path: Path) -> None:
    config = controller(tmp_path)
    run(FormatPlan.of(config, CLUSTER, standalone=True))
    with pytest.raises(ConfigError, match="belongs to node 1 of cluster"):
        run(FormatPlan.of(config, "other", standalone=True, ignore_formatted=True))


def test_an_older_release_and_single_features_can_be_asked_for(tmp_path: Path) -> None:
    plan = FormatPlan.of(
        controller(tmp_path), CLUSTER, standalone=True, release="4.0", features={"group.version": 0}
    )
    assert plan.levels == {"metadata.version": 25, "transaction.version": 2}
    run(plan)
    content = read_snapshot((tmp_path / "logs" / "bootstrap.checkpoint").read_bytes())
    assert len(content.records) == 2


@pytest.mark.parametrize(
    ("settings", "words", "message"),
    [
        ({}, {}, "who votes first"),
        ({}, {"standalone": True, "no_initial_controllers": True}, "exclude each other"),
        ({"controller_quorum_voters": "1@h:1"}, {"standalone": True}, "fixes them"),
        ({}, {"standalone": True, "features": {"kraft.version": 0}}, "does not fit"),
        ({"controller_quorum_voters": "1@h:1"}, {"features": {"kraft.version": 1}}, "does not fit"),
        ({}, {"standalone": True, "features": {"no.such": 1}}, "unknown feature"),
        ({}, {"standalone": True, "features": {"group.version": 9}}, "out of range"),
        ({}, {"standalone": True, "release": "9.9"}, "unknown release"),
        ({}, {"standalone": True, "release": "4.3", "features": {"metadata.version": 30}}, "given twice"),
        ({}, {"initial_controllers": "1@h:1"}, "is not id@host:port"),
        ({}, {"initial_controllers": f"1@h:1:{D1},2@h:2:{D1}"}, "occurs twice"),
    ],
)
def test_what_contradicts_itself_is_refused(
    tmp_path: Path, settings: dict[str, str], words: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        FormatPlan.of(controller(tmp_path, **settings), CLUSTER, **words)  # type: ignore[arg-type]


def test_a_senseless_cluster_id_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no cluster id"):
        FormatPlan.of(controller(tmp_path), "", standalone=True)


def test_initial_controllers_may_have_ipv6_addresses() -> None:
    [voter] = parse_initial_controllers(f"5@[::1]:9093:{D1}", "CONTROLLER")
    assert voter.endpoints == (Endpoint("CONTROLLER", "::1", 9093),)


def test_the_report_names_what_is_formatted_and_what_is_not(tmp_path: Path) -> None:
    dirs = [str(tmp_path / "logs"), str(tmp_path / "none")]
    run(FormatPlan.of(controller(tmp_path), CLUSTER, standalone=True))
    found, problems, properties = format_report(OsDisk(), dirs)
    assert found == dirs[:1]
    assert problems == [f"{dirs[1]} is not a directory"]
    assert (properties["cluster.id"], properties["node.id"]) == (CLUSTER, "1")


def test_a_crash_while_formatting_leaves_the_directory_unformatted(tmp_path: Path) -> None:
    class Full(OsDisk):
        def replace(self, path: str, content: bytes) -> None:
            if path.endswith(META_PROPERTIES):
                raise OSError("no space")
            super().replace(path, content)

    plan = FormatPlan.of(controller(tmp_path), CLUSTER, standalone=True)
    with pytest.raises(OSError, match="no space"):
        format_directories(Full(), Times(1), Chance(), plan)
    assert run(plan).done
