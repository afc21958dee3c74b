"""`barnabas metadata shell` against what Apache Kafka's MetadataShell printed of the same files."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from tests.cli.rich_metadata import rich_log, rich_records

from barnabas.cli.main import main
from barnabas.cli.metadata.shell import COMMANDS, MetadataShell
from barnabas.cli.metadata.tree import metadata_tree, read_metadata
from barnabas.wire.metadata import ClientQuotaRecord, EntityData, write_record
from barnabas.wire.records import Record, write_batch

FIXTURES = Path(__file__).parents[1] / "fixtures" / "kafka-4.3.1" / "metadata"
SNAPSHOT = FIXTURES / "00000000000000000058-0000000001.checkpoint"


@pytest.fixture
def rich(tmp_path: Path) -> Path:
    """A log with one of everything."""
    path = tmp_path / "rich.log"
    path.write_bytes(rich_log())
    return path


@pytest.fixture
def shell() -> MetadataShell:
    return MetadataShell(metadata_tree(read_metadata(io.BytesIO(rich_log()))))


def answer(capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int = 0) -> str:
    assert main(["metadata", "shell", "-s", *map(str, arguments)]) == code
    return capsys.readouterr().out


def test_the_tree_of_a_log_of_apache_kafka_is_what_its_own_shell_shows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = (FIXTURES / "metadata-shell.txt").read_text().splitlines()
    assert shown[0] == "image:"
    ours = answer(capsys, FIXTURES / "add-remove.log", "tree", "/image").splitlines()
    assert ours == [line.removeprefix("  ") for line in shown[1:]]


def test_a_session_of_every_command_answers_as_apache_kafka_did(
    rich: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO((FIXTURES / "shell-commands.txt").read_text()))
    assert answer(capsys, rich).splitlines() == (FIXTURES / "shell-answers.txt").read_text().splitlines()


@pytest.mark.parametrize(
    ("timestamp", "time"),
    [
        (1_763_647_132_920, "13:58:52.92"),
        (1_763_647_132_900, "13:58:52.9"),
        (1_763_647_132_016, "13:58:52.016"),
        (1_763_647_140_000, "13:59:00"),
    ],
)
def test_a_time_is_as_short_as_apache_kafka_writes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], timestamp: int, time: str
) -> None:
    (tmp_path / "rich.log").write_bytes(rich_log(timestamp))
    said = answer(capsys, tmp_path / "rich.log", "cat", "/image/provenance")
    assert said == f"offset 32, epoch 3, time 2025-11-20T{time}Z[UTC]\n"


def test_a_snapshot_says_how_far_it_goes_in_its_own_offsets(capsys: pytest.CaptureFixture[str]) -> None:
    said = answer(capsys, SNAPSHOT, "cat", "/image/provenance")
    assert said == "offset 16, epoch 1, time 2026-11-20T14:01:23.016Z[UTC]\n"
    assert answer(capsys, SNAPSHOT, "ls", "/") == "image\nlocal\n"
    assert answer(capsys, SNAPSHOT, "ls", "/image/topics/byName") == "t1\n"


def test_a_file_without_a_metadata_version_is_shown_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    formatted = FIXTURES / "00000000000000000000-0000000000.checkpoint"
    assert answer(capsys, formatted, "tree", "/image/features") == "metadataVersion:\n  Optional.empty\n"


def test_a_quota_of_everybody_has_a_name_and_can_be_read(shell: MetadataShell) -> None:
    everybody = [
        EntityData(entity_type="user", entity_name=None),
        EntityData(entity_type="client-id", entity_name="c"),
    ]
    quota = ClientQuotaRecord(entity=everybody, key="request_percentage", value=0.5)
    values = [write_record(record) for record in [*rich_records(), quota]]
    log = write_batch([Record(n, 0, None, value, []) for n, value in enumerate(values)])
    shell = MetadataShell(metadata_tree(read_metadata(io.BytesIO(log))))
    assert shell.run(["cat", "/image/clientQuotas/clientId(c)_user(<default>)/*"]).lines == ["0.5"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["ls", "/nowhere"], 4),
        (["cat", "/image"], 4),
        (["tree", "/image/x*"], 4),
        (["dance"], 2),
        (["cat"], 2),
    ],
)
def test_what_is_not_there_ends_with_the_exit_code_for_it(
    words: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words[0] in answer(capsys, SNAPSHOT, *words, code=code)


def test_a_batch_that_fails_its_crc_is_damage_and_a_torn_one_is_the_end(
    rich: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = rich_log()
    rich.write_bytes(whole[:-20] + bytes([whole[-20] ^ 1]) + whole[-19:])
    assert main(["metadata", "shell", "-s", str(rich), "ls", "/"]) == 6
    assert "CRC" in capsys.readouterr().err
    rich.write_bytes(whole + whole[:100])
    assert answer(capsys, rich, "cat", "/image/provenance").startswith("offset 32,")


def test_json_holds_files_and_directories_by_their_path(
    rich: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(answer(capsys, rich, "--json", "tree", "/image/producerIds", "/image/scram/*512"))
    assert document["content"]["/image/producerIds"] == {"nextProducerId": "2000"}
    assert set(document["content"]["/image/scram/SCRAM-SHA-512"]) == {"alice", "bob"}
    answer(capsys, rich, "--json", "ls", "/", code=2)
    answer(capsys, rich, "--json", "cat", "/nowhere", code=4)


def test_history_pwd_man_and_exit_do_what_they_say(
    rich: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = 'cd image/topics\n\npwd\nls "unclosed\nman tree\nhistory 2\nexit\npwd\n'
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    place, unclosed, about, blank, usage, *history = answer(capsys, rich).splitlines()
    assert place == "/image/topics" and "quotation" in unclosed and blank == ""
    assert about.startswith("tree: ") and usage == "usage: tree PATH..."
    assert history == ["    2  man tree", "    3  history 2"]


def test_help_names_every_command_and_each_has_its_page(shell: MetadataShell) -> None:
    listed = [line.split()[0] for line in shell.run(["help"]).lines]
    assert listed == sorted(COMMANDS)
    for name in COMMANDS:
        assert shell.run(["man", name]).lines[-1].startswith(f"usage: {name}")


def test_the_tab_key_finishes_paths(shell: MetadataShell) -> None:
    assert shell.completions("/im") == ["/image/"]
    assert shell.completions("/image/pro") == ["/image/producerIds/", "/image/provenance"]
    shell.run(["cd", "/image"])
    assert shell.completions("cl") == ["clientQuotas/", "cluster/"]
    assert shell.completions("provenance/") == [] == shell.completions("nowhere/x")


def test_a_terminal_gets_as_many_columns_as_fit(shell: MetadataShell) -> None:
    shell.width = 24
    assert shell.run(["ls", "/image/topics/byName/flights"]).lines == ["0  1  10  2  id  name"]
    shell.width = 12
    assert shell.run(["ls", "/image/topics/byName/flights"]).lines == ["0  10  id", "1  2   name"]
    shell.width = 1
    assert len(shell.run(["ls", "/image/topics/byName/flights"]).lines) == 6
