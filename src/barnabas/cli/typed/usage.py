"""What is typed: flags in any place, and a line of reason and a next step for what makes no sense."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from barnabas.cli.typed.nearest import meant

__all__ = ["Parser", "any_text", "with_flags_last"]

_WITH_VALUE = (
    "--bootstrap-server",
    "--bootstrap-controller",
    "--command-config",
    "--timeout",
    "-b",
    "-c",
    "-C",
)
_ALONE = ("--json",)
"""The flags of every command that talks to a cluster: they may also stand before the noun or the verb."""


def any_text(text: str) -> str:
    """`type=any_text`: a flag or word that has a meaning when it is empty, too."""
    return text


def with_flags_last(arguments: Sequence[str], before: int) -> list[str]:
    """`with_flags_last(["--json", "topics", "list"], 2)` -> ["topics", "list", "--json"].

    Common flags among the first words move to the end, until `before` words that are no flags were found.
    """
    words: list[str] = []
    moved: list[str] = []
    rest = list(arguments)
    while rest and len(words) < before:
        word = rest.pop(0)
        name, equals, _ = word.partition("=")
        if name in _WITH_VALUE and (equals or rest):
            moved += [word] if equals else [word, rest.pop(0)]
        elif word in _ALONE:
            moved.append(word)
        elif word.startswith("-"):
            return [*words, word, *rest, *moved] if not moved else _joined(words, [word, *rest], moved)
        else:
            words.append(word)
    return _joined(words, rest, moved)


def _joined(words: list[str], rest: list[str], moved: list[str]) -> list[str]:
    if "--" in rest:
        at = rest.index("--")
        return [*words, *rest[:at], *moved, *rest[at:]]
    return [*words, *rest, *moved]


class _WithExamples:
    """The result of `add_subparsers`: it makes the parsers of verbs."""

    def __init__(self, verbs: Any, about: str) -> None:
        self._verbs = verbs
        self._about = about.splitlines()

    def add_parser(self, name: str, **given: Any) -> Any:
        """Make the parser of a verb.  Its description is its line of help, its epilog the examples."""
        examples = [
            line
            for line in self._about
            if re.match(rf"\s*barnabas \S+ (\S+ )?{re.escape(name)}(?![\w-])", line)
        ]
        given.setdefault("description", given.get("help"))
        given.setdefault("epilog", "\n".join(examples))
        return self._verbs.add_parser(name, formatter_class=argparse.RawDescriptionHelpFormatter, **given)


class Parser(argparse.ArgumentParser):
    """argparse's parser; what it refuses is said in two lines, with the nearest word or flag."""

    _left_over = False

    def add_subparsers(self, **given: Any) -> Any:
        """As argparse's; the help of a verb has its examples from this parser's description."""
        return _WithExamples(super().add_subparsers(**given), self.description or "")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse's: a parser of a verb hands words that it does not know to the one above, which refuses."""
        found, left = super().parse_known_args(args, namespace)
        self._left_over = bool(left)
        return found, left

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """Read what was typed for one flag or word as argparse does, and refuse empty text.

        A shell makes that of a variable that is not set (`-g "$GROUP"`); the command would run without the flag.
        """
        verb = isinstance(action, argparse._SubParsersAction)
        if "" in arg_strings and not verb and action.type is not any_text:
            raise argparse.ArgumentError(action, "is empty\ngive it a value, or leave it out")
        return super()._get_values(action, arg_strings)

    def error(self, message: str) -> NoReturn:
        """`error: ...` and `next: ...` on standard error, exit code 2."""
        sys.stdout.flush()
        reason, hint = self._explained(message)
        print(f"error: {reason}", file=sys.stderr)
        print(f"  next: {hint}", file=sys.stderr)
        raise SystemExit(2)

    def _explained(self, message: str) -> tuple[str, str]:
        import difflib

        help_ = f"`{self.prog} --help` shows what it takes"
        wrong = re.search(r"invalid choice: \'?([^\' ]*)\'? \(choose from (.*)\)$", message)
        if wrong is not None:
            word, choices = wrong[1], re.findall(r"[^\', ]+", wrong[2])
            return f"`{self.prog}` has no {word!r}", meant(self.prog, word, choices) or help_
        unknown = message.removeprefix("unrecognized arguments: ")
        if unknown != message:
            flag = unknown.split()[0].partition("=")[0]
            typed = self._typed()
            near = difflib.get_close_matches(flag, typed._flags(), 1, 0.6) if flag.startswith("-") else []
            hint = f"did you mean `{near[0]}`?" if near else f"`{typed.prog} --help` shows what it takes"
            return f"`{typed.prog}` does not know {flag if flag.startswith('-') else unknown}", hint
        missing = message.removeprefix("the following arguments are required: ")
        if missing != message:
            return f"`{self.prog}` needs {missing}", help_
        reason, _, advice = message.partition("\n")
        return f"{self.prog}: {reason}", advice or help_

    def _typed(self) -> Parser:
        """The parser of the noun, verb or job that was typed: the innermost that left something over."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for parser in action.choices.values():
                    if isinstance(parser, Parser) and parser._left_over:
                        return parser._typed()
        return self

    def _flags(self) -> list[str]:
        """Its flags, and those of its verbs."""
        flags = set(self._option_string_actions)
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                flags.update(*(parser._flags() for parser in action.choices.values()))
        return sorted(flags)
