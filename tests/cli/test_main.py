"""The entrance: nouns, help, errors in two lines, exit codes, and how little is loaded for them."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

from barnabas import __version__
from barnabas.cli.exits import MEANINGS, Exit, exit_code
from barnabas.cli.main import NOUNS, find_noun, main, overview
from barnabas.client.connection import ConnectionFailed, RequestTimedOut
from barnabas.errors import (
    BarnabasError,
    ConfigError,
    CorruptRecordError,
    ErrorCode,
    KafkaError,
    StorageError,
)


def test_help_shows_every_noun_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for noun, (_, about, example) in NOUNS.items():
        assert f"  {noun:<12} {about}" in out
        assert example.startswith(f"barnabas {noun}")
        assert example in out
    assert max(len(line) for line in overview().splitlines()) <= 110


def test_without_a_noun_the_help_is_shown_and_the_code_says_wrong_usage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([]) == 2
    assert "nouns:" in capsys.readouterr().out


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    from importlib.metadata import version

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"barnabas {__version__}\n"
    assert version("barnabas") == __version__


def test_nouns_and_flags_may_be_shortened_while_unique() -> None:
    assert find_noun("prod") == "produce"
    assert find_noun("con") is None  # consume or configs
    assert find_noun("consume") == "consume"
    assert find_noun("x") is None


def test_an_unknown_noun_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topcis"]) == 2
    assert capsys.readouterr().err == (
        "error: there is no command `barnabas topcis`\n  next: did you mean `barnabas topics`?\n"
    )


def test_nobody_there_is_two_lines_and_code_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "list", "--bootstrap-server", "127.0.0.1:1"]) == 3
    assert capsys.readouterr().err == (
        "error: cannot connect to 127.0.0.1:1: Connection refused\n"
        "  next: start a node with `barnabas start`, or give its address with --bootstrap-server\n"
    )


def test_an_address_that_is_none_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "id", "-b", "nonsense"]) == 2
    assert "'nonsense' is no address of a broker" in capsys.readouterr().err


def test_every_exit_code_has_its_meaning() -> None:
    assert set(MEANINGS) == set(Exit)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BarnabasError("x"), Exit.FAILED),
        (KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS), Exit.FAILED),
        (KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), Exit.NOT_FOUND),
        (KafkaError(ErrorCode.GROUP_ID_NOT_FOUND), Exit.NOT_FOUND),
        (KafkaError(ErrorCode.REQUEST_TIMED_OUT), Exit.TIMED_OUT),
        (ConnectionFailed("x"), Exit.UNREACHABLE),
        (RequestTimedOut("x"), Exit.TIMED_OUT),
        (ConfigError("x"), Exit.USAGE),
        (StorageError("x"), Exit.FAILED),
        (CorruptRecordError("x"), Exit.DAMAGED),
        (FileNotFoundError("x"), Exit.NOT_FOUND),
        (KeyboardInterrupt(), Exit.INTERRUPTED),
        (OSError("x"), Exit.FAILED),
    ],
)
def test_errors_map_to_codes(error: BaseException, code: Exit) -> None:
    assert exit_code(error) == code


@pytest.mark.parametrize("noun", NOUNS)
def test_every_noun_explains_itself_with_an_example(noun: str, capsys: pytest.CaptureFixture[str]) -> None:
    if find_spec(NOUNS[noun][0]) is None:
        pytest.fail(f"barnabas {noun} is offered, and {NOUNS[noun][0]} is missing")
    assert main([noun, "--help"]) == 0
    assert f"barnabas {noun}" in capsys.readouterr().out.partition("\n")[2]


def loaded(*arguments: str) -> set[str]:
    code = "import sys; from barnabas.cli.main import main; main(sys.argv[1:]); print('|'.join(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return set(run.stdout.splitlines()[-1].split("|"))


def test_help_and_version_load_next_to_nothing() -> None:
    """What makes them answer at once: no client, no wire, no rich."""
    for flag in ("--help", "--version"):
        ours = {name for name in loaded(flag) if name.startswith("barnabas")}
        streams = {"barnabas.cli.typed", "barnabas.cli.typed.streams"}
        assert ours == {"barnabas", "barnabas.cli", "barnabas.cli.main", "barnabas.version"} | streams


def test_a_simple_command_loads_neither_records_nor_rich_nor_asyncio() -> None:
    names = loaded("cluster", "id", "-b", "127.0.0.1:1")
    heavy = {"rich", "asyncio", "crc32c", "barnabas.wire.records", "barnabas.server", "numpy", "pyspark"}
    assert not heavy & names
