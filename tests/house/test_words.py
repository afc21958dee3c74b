"""One word per idea, and it is the field's: what things were called before is not used again."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "barnabas"
ROOMS = sorted(path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__")

INSTEAD = {
    "arena": "receive buffer",
    "breath": "a pause with its subject and unit",
    "chance": "rng",
    "cutting": "truncation",
    "deaths": "fast fencing",
    "doom": "mark deleted",
    "doomed": "deleted",
    "doubt": "leader suspicion",
    "doubts": "leader suspicion",
    "hosting": "hosted partitions",
    "intent": "pending change",
    "intents": "pending changes",
    "little": "a bound with its subject and unit",
    "memo": "template of the fast path",
    "memos": "templates of the fast path",
    "nemeses": "targeted faults",
    "nemesis": "targeted fault",
    "outlet": "send queue",
    "planted": "mutant",
    "platter": "durable view",
    "promise": "invariant",
    "promises": "invariants",
    "services": "what a part needs, by name",
    "truth": "committed log",
    "upkeep": "maintenance",
    "wish": "request",
    "wishes": "requests",
}
"""A word that names no longer have, and the one to use."""

IN_A_ROOM = {
    "raft": {
        "journal": "log view",
        "links": "peers",
        "elsewhere": "next endpoint",
    },
    "server": {"journal": "log view", "machine": "platform", "turn": "step", "life": "epoch"},
    "broker": {"remote": "replica progress", "turn": "step", "mark": "high watermark"},
    "log": {"remote": "replica"},
}
"""The same, where the word means something else in other rooms."""


def names(text: str) -> set[str]:
    """The words that the names of a source file are made of, in small letters."""
    found: set[str] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            found |= {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", token.string)}
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_names_are_made_of_the_fields_words(room: str) -> None:
    forbidden = INSTEAD | IN_A_ROOM.get(room, {})
    hits = {}
    for path in sorted((SOURCE / room).rglob("*.py")):
        used = (names(path.read_text()) | set(path.stem.split("_"))) & set(forbidden)
        if used:
            hits[str(path.relative_to(SOURCE))] = {word: forbidden[word] for word in used}
    assert not hits


def test_the_search_takes_names_apart() -> None:
    assert {"doubt", "ful", "outlet", "io"} & names("class OutletIO: doubt_full = 1") == {
        "doubt",
        "outlet",
        "io",
    }
    assert "promise" not in names("# a promise\nx = 'promise'")
