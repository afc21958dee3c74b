"""A word that a command does not have is answered with the right one, never with one that destroys by accident."""

from __future__ import annotations

import argparse
import re
from importlib import import_module

import pytest

from barnabas.cli.main import NOUNS, main
from barnabas.cli.typed import nearest
from barnabas.cli.typed.usage import Parser


def verbs(noun: str) -> list[str]:
    parser = Parser(prog=noun)
    import_module(NOUNS[noun][0]).add_arguments(parser)
    found = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return [verb for choices in found for verb in choices]


@pytest.mark.parametrize(
    ("line", "right"),
    [
        ("topics delte x", "did you mean `barnabas topics delete`?"),
        ("quorum move", "did you mean `barnabas quorum reassign --target IDS`?"),
        ("quorum rec", "did you mean `barnabas quorum recover`?"),
        ("stop", "did you mean Ctrl-C at the node, or `kill PID`?"),
        ("topics alter x", "`barnabas configs set topic NAME SETTING=VALUE`"),
    ],
)
def test_a_word_of_another_tool_is_answered_with_what_does_the_same(
    line: str, right: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == 2
    assert right in capsys.readouterr().err


def test_no_word_of_the_same_length_leads_to_one_that_destroys() -> None:
    """The words that people type at other tools, at every command of ours."""
    words = (
        "add alter apply change create describe edit get info inspect list move restart set show start status"
    )
    for noun in NOUNS:
        for word in words.split():
            said = nearest.meant(f"barnabas {noun}", word, verbs(noun)) or ""
            for verb in re.findall(r"`barnabas \S+ (\S+)`", said):
                assert not nearest.destroys(verb), f"barnabas {noun} {word}: {said}"


@pytest.mark.parametrize(
    "line",
    [
        *("groups list-offsets", "groups describe-offsets", "groups offsets", "topics undelete"),
        *("brokers register", "cluster register", "cluster move-brokers", "quorum move-controller"),
    ],
)
def test_a_longer_word_or_an_opposite_does_not_lead_to_a_verb_that_destroys(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == 2
    for verb in re.findall(r"`barnabas \S+ (\S+)`", capsys.readouterr().err):
        assert not nearest.destroys(verb)


def test_what_is_named_instead_exists() -> None:
    for instead in nearest._ELSEWHERE.values():
        for commands in instead.values():
            for command in commands:
                if match := re.fullmatch(r"barnabas (\S+)(?: (\S+).*)?", command):
                    assert match[1] in NOUNS and (match[2] is None or match[2] in verbs(match[1])), command


def test_the_help_of_a_verb_has_its_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "create", "--help"]) == 0
    assert (
        "barnabas topics create orders --partitions 6 --config retention.ms=3600000"
        in capsys.readouterr().out
    )


def test_the_help_of_a_verb_has_no_example_of_one_whose_name_only_begins_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["groups", "delete", "--help"]) == 0
    said = capsys.readouterr().out
    assert "barnabas groups delete billing" in said and "delete-offsets" not in said
