"""What others have named moves no cursor of whoever reads it, and hides nothing."""

from __future__ import annotations

import io
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.shell import Shell

from barnabas import Consumer, Producer
from barnabas.cli.main import main
from barnabas.cli.output import print_rows
from barnabas.cli.typed.plain import PlainStream, plain, plain_bytes

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egpj.exe\r"
HIDDEN = [chr(n) for n in (*range(9), *range(11, 32), *range(127, 160), 0x200E, 0x202E, 0x2028, 0x2066)]


def is_plain(text: str) -> bool:
    return not set(text) & set(HIDDEN)


@given(st.text())
def test_no_control_character_passes_and_all_else_does(text: str) -> None:
    assert is_plain(plain(text))
    if is_plain(text):
        assert plain(text) == text
    assert json.loads(plain(json.dumps(text, ensure_ascii=False))) == text


@given(st.binary())
def test_bytes_on_a_terminal_are_plain_too(content: bytes) -> None:
    assert is_plain(plain_bytes(content).decode())


def test_a_stream_is_the_one_behind_it_but_for_what_is_written() -> None:
    behind = io.StringIO()
    stream = PlainStream(behind)
    print(f"a\tb {EVIL}", file=stream)  # type: ignore[call-overload]
    stream.writelines(["\x1b[1m", "\n"])
    assert is_plain(behind.getvalue()) and behind.getvalue().startswith("a\tb \\u001b]0;owned\\u0007")
    assert not stream.isatty() and stream.terminal is behind


def test_names_of_others_are_spelled_out_whatever_lists_them(shell: Shell) -> None:
    topic, group = "plain-names", f"group-{EVIL}"
    with Producer(shell.kafka.bootstrap) as producer:
        producer.send(topic, b"x").result(30)
    with Consumer(
        shell.kafka.bootstrap, topic, group=group, client_id=f"client {EVIL}", start="earliest"
    ) as consumer:
        next(iter(consumer))
        for verb in (["list"], ["describe", group]):
            assert main(["groups", *verb, "-b", shell.kafka.bootstrap]) == 0
            shell.out, shell.err = shell._capsys.readouterr()
            assert "owned" in shell.out and is_plain(shell.out), shell.out
        found = shell.document("groups list")["groups"]
        assert group in [one["group"] for one in found], "a program reads the name as it is"
    for words in (["groups", "describe", f"no {EVIL}"], ["topics", "describe", EVIL]):
        assert main([*words, "-b", shell.kafka.bootstrap]) != 0
        said = shell._capsys.readouterr().err
        assert "owned" in said and is_plain(said), said


def test_a_table_on_a_terminal_is_plain(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    print_rows(["name"], [[EVIL]])
    said = capsys.readouterr().out
    assert "owned" in said and is_plain(said)
