"""What the plans draw: steps with names in place of what a server will choose."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from tools.peer import RELEASE

__all__ = ["NEWEST_KEEP", "ODD_GROUPS", "ODD_NAMES", "PATTERNS", "TOPICS", "WHO", "Step", "lie", "some_who"]

NEWEST_KEEP = 5 if RELEASE else 6
"""The newest TxnOffsetCommit that both know."""
TOPICS = {"flights": 5, "planes": 3, "weather": 1}
"""Topics of all sequences, with the same ids at both nodes, so that assignors walk them in the same order."""

WHO = ("now", "before", "next epoch", "epoch -1", "another id", "nobody", "none")
"""A producer by what it heard last, by what it heard before that, or wrong on purpose."""

ODD_NAMES = ("", " ", "é" * 10, "a/b", "x" * 300, "x" * 20_000, "\u0000", "__consumer_offsets", "unheard-of")

ODD_GROUPS = tuple(name for name in ODD_NAMES if not name or any(letter > " " for letter in name))
"""Names of groups that members may try to join; a sequence has its own of them, but for the empty one."""

PATTERNS = (
    "fl.*",
    "flights|planes",
    "(fl|pl).*s",
    "weather",
    "nothing.like.it",
    "[pw].*",
    "(?i)FLIGHTS",
    "flights$",
    "^planes",
    "\\Qflights\\E",
    "[[:alpha:]]{7}",
    "",
    "(",
    "[a",
    "a**",
    "*",
    "(?=f)flights",
    "(f)lights\\1",
    "(?<!x)planes",
    "(?P<n>planes)",
    "(?<n>planes)",
    "x{1001}",
    "((x{100}){100}){100}",
    "(a+)+$",
    "f" * 3000,
    "(" * 500 + "f" + ")" * 500,
    "(" * 1500 + "f" + ")" * 1500,
    "\\pN",
    "\\p{Greek}+",
    "\\p{Nonsense}",
    "\\C+",
    "\\x{110000}",
    "\u0000",
    "\\",
    "a++",
    "[z-a]",
    "(?z)a",
    "\\z",
    "\\Z",
    "\\h",
    "(?#comment)planes",
    "(?:planes){2,1}",
)
"""Patterns, half of them hostile; none matches a topic that a sequence has for itself."""


class Step(NamedTuple):
    """`api` in `version`, sent over the connection `by`; `how` says the fields in symbols."""

    api: str
    version: int
    by: str
    how: dict[str, Any]

    def __str__(self) -> str:
        said = ", ".join(f"{name}={_short(value)}" for name, value in self.how.items())
        return f"{self.by}: {self.api} v{self.version} ({said})"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:100]}... ({len(text)})"


def some_who(rng: random.Random, right: float = 0.85) -> str:
    return "now" if rng.random() < right else rng.choice(WHO[1:])


def lie(rng: random.Random, step: Step) -> Step:
    """The same request with one count of an array that is not true."""
    said = rng.choice(("more", "fewer", "huge", "negative", "null"))
    return Step("lie", step.version, "liar", {"of": step, "which": rng.randrange(4), "count": said})
