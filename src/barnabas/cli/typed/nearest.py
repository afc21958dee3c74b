"""Words that people meant: of ours, the nearest; of other tools, what does the same here."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["destroys", "meant"]

_NEAR, _NEARER = 0.65, 0.85
_DESTROYING = frozenset(
    ("abort", "delete", "disable", "drain", "end", "recover", "remove", "reset", "unregister")
)
_ELSEWHERE: dict[str, dict[str, tuple[str, ...]]] = {
    "barnabas": {
        "status": (
            "barnabas doctor",
            "barnabas quorum describe",
            "barnabas topics describe --under-replicated",
        ),
        "stop": ("Ctrl-C at the node, or `kill PID`",),
        "restart": ("Ctrl-C at the node, then `barnabas start`",),
        "health": ("barnabas doctor",),
        "topic": ("barnabas topics",),
    },
    "barnabas topics": {
        "alter": (
            "barnabas configs set topic NAME SETTING=VALUE",
            "barnabas topics grow NAME --partitions N",
        ),
        "set": ("barnabas configs set topic NAME SETTING=VALUE",),
        "show": ("barnabas topics describe NAME",),
        "move": ("barnabas topics reassign NAME --brokers IDS",),
    },
    "barnabas quorum": {
        "move": ("barnabas quorum reassign --target IDS",),
        "status": ("barnabas quorum describe",),
        "remove": ("barnabas quorum remove-controller",),
        "add": ("barnabas quorum add-controller",),
    },
    "barnabas groups": {"lag": ("barnabas groups describe GROUP",)},
    "barnabas brokers": {
        "status": ("barnabas brokers list",),
        "decommission": ("barnabas brokers drain ID",),
    },
}


def meant(command: str, word: str, choices: Iterable[str]) -> str | None:
    """Return what somebody may have meant by a word that `command` does not have, as a question; None: no idea."""
    known = _ELSEWHERE.get(command, {}).get(word)
    if known is None:
        every = list(choices)
        known = tuple(f"{command} {one}" for one in _nearest(word, every))
    if not known:
        return None
    return f"did you mean {' or '.join(one if '`' in one else f'`{one}`' for one in known)}?"


def destroys(verb: str) -> bool:
    """`destroys("delete-offsets")` -> True: it takes away what is there."""
    return verb.partition("-")[0] in _DESTROYING


def _nearest(word: str, choices: list[str]) -> list[str]:
    if begun := [one for one in choices if word and one.startswith(word)]:
        return begun[:2]
    near = difflib.get_close_matches(word, choices, 2, _NEAR)
    return [one for one in near if not destroys(one) or _slipped(word, one)]


def _slipped(word: str, verb: str) -> bool:
    """Return whether a word is a slip of the finger: `undelete` is near `delete`, and means the opposite."""
    return abs(len(word) - len(verb)) <= 1 and difflib.SequenceMatcher(None, word, verb).ratio() >= _NEARER
