"""`barnabas users`, word for word, against a real node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.shell import Shell

from barnabas.testing import Cluster


@pytest.fixture(scope="module")
def kafka() -> Iterator[Cluster]:
    """A node for this module alone: its users are listed."""
    with Cluster() as cluster:
        yield cluster


def test_a_user_is_added_changed_and_removed(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("alice-secret\n")
    assert shell(f"users add alice --password-file {file} --iterations 4096") == 0
    assert shell.out == "Added user alice (SCRAM-SHA-512).\n"
    assert shell("users list") == 0
    assert shell.out.splitlines() == [
        "USER   MECHANISM      ITERATIONS",
        "alice  SCRAM-SHA-512        4096",
    ]
    assert shell(f"users add alice --password-file {file}") == 2
    assert "there is a user alice" in shell.err and "barnabas users passwd alice" in shell.err
    assert shell(f"users passwd alice --password-file {file}") == 0
    assert shell.document("users list")["users"] == [
        {"user": "alice", "mechanism": "SCRAM-SHA-512", "iterations": 16384}
    ]
    assert shell("users remove alice") == 0
    assert shell.document("users list")["users"] == []


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("users remove bob", "there is no user bob"),
        ("users passwd bob", "there is no user bob"),
        ("users add bob", "no keyboard"),
        ("users add bob --password-file /nowhere/at/all", "cannot be read"),
        ("users add bob --password-file {short}", "at least 8 characters"),
        ("users add bob --password-file {long} --iterations 3", "from 4096 to 16384"),
    ],
)
def test_what_cannot_be_done_is_said_with_the_next_step(
    shell: Shell, tmp_path: Path, line: str, says: str
) -> None:
    (tmp_path / "short").write_text("short\n")
    (tmp_path / "long").write_text("long enough\n")
    assert shell(line.format(short=tmp_path / "short", long=tmp_path / "long")) in (1, 2, 4)
    assert says in shell.err
    assert shell.document("users list")["users"] == []
