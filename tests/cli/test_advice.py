"""Commands that errors and help tell one to type: each verb and each flag in them exists."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

from barnabas.cli.main import NOUNS
from barnabas.cli.typed.usage import Parser

SOURCES = Path(__file__).parents[2] / "src" / "barnabas"
_GLOBAL = re.compile(r"(?:-C|-b|--bootstrap-controller|--bootstrap-server) \S+ ")


def texts(path: Path) -> Iterator[str]:
    """The strings of a module, with X for what is put in."""
    source = path.read_text()
    if not re.search("barnabas [a-z]", source):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def verbs_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found = (one.choices for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    return next(iter(found), {})


@cache
def parser_of(noun: str) -> argparse.ArgumentParser:
    parser = Parser(prog=noun)
    import_module(NOUNS[noun][0]).add_arguments(parser)
    return parser


def wrong_in(command: str) -> str | None:
    """The first word of a command that does not exist."""
    noun, *words = _GLOBAL.sub("", command).split()
    if noun not in NOUNS:
        return None
    parser = parser_of(noun)
    while verbs_of(parser) and words and re.fullmatch("[a-z][a-z-]+", words[0]):
        verb = words.pop(0)
        if verb not in verbs_of(parser):
            return verb
        parser = verbs_of(parser)[verb]
    flags = {flag for action in parser._actions for flag in action.option_strings}
    typed = (word.split("=")[0] for word in words if re.match("--[a-z]", word))
    return None if verbs_of(parser) else next((flag for flag in typed if flag not in flags), None)


def test_every_command_that_one_is_told_to_type_exists() -> None:
    told = {
        (path.name, command)
        for path in SOURCES.rglob("*.py")
        for text in texts(path)
        for command in re.findall(r"barnabas ([a-z-]+ [^`\n;,()]*)", text)
    }
    wrong = [f"{name}: barnabas {command}: {word}" for name, command in told if (word := wrong_in(command))]
    assert len(told) > 300
    assert not wrong
