"""Rehearse a change of a cluster: real processes under traffic, each command as typed, the proof at the end.

barnabas drill list                              all drills
barnabas drill run move-quorum                   one of them; nothing is left behind
barnabas drill run all --times 3                 every one, three times
barnabas drill run move-quorum --rate 2000       with 2,000 records a second

Exit code 0: everything came true, each acknowledged record is there once, no topic is lost.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from barnabas.cli.drill.traffic import RATE
from barnabas.cli.output import print_document, show
from barnabas.cli.typed.numbers import at_least, whole
from barnabas.errors import BarnabasError, ConfigError

__all__ = ["DRILLS", "add_arguments", "run", "story_of"]

DRILLS: dict[str, str] = {
    "bootstrap": "one node forms a quorum, two join it",
    "no-format": "nodes start without a format step, one command begins the cluster",
    "grow-and-shrink": "1, 3, 5 and again 3 voters",
    "move-quorum": "voters 1,2,3 become 4,5,6 by one command",
    "cancel-move": "a move is cancelled midway and ends in a stated set",
    "cancel-each-step": "a move is cancelled after each of its steps in turn",
    "resubmit-move": "the leader dies midway, the same command is typed again",
    "leader-leaves": "the leader is among those that go",
    "replace-disk": "a controller's disk is lost and replaced",
    "replace-node": "a controller's machine is lost, another takes its place",
    "combined-and-back": "the quorum moves into the brokers' processes and out again",
    "addresses-change": "all controllers come back at new addresses",
    "zombie-leader": "a leader hangs, is replaced, and wakes up",
    "static-to-dynamic": "fixed voters become voters that change",
    "auto-join": "a controller makes itself a voter",
    "removed-still-running": "a removed voter runs on and disturbs nobody",
    "lost-majority": "two of three are gone for good, and then they return",
    "failures": "a follower, then the leader, is killed with -9",
    "brokers": "two brokers come, one is drained, the active controller dies midway",
    "secure-cluster": "a cluster in clear gets logins and certificates, node by node",
    "renew-certificates": "new certificates, and then a new authority, without a restart",
    "rotten-disk": "a bit of a broker's disk flips while it runs, and again while all are killed",
    "wrong-format": "a second quorum by the wrong format command",
}
"""Name and what it is about, in the order of learning; the story is in `stories/`."""
MOST_RATE = 100_000
"""Records a second that may be asked for; one process sends and reads them."""
_FOLDERS = {
    **dict.fromkeys(("secure-cluster", "renew-certificates"), "security."),
    **dict.fromkeys(
        ("move-quorum", "cancel-move", "cancel-each-step", "resubmit-move", "leader-leaves"), "moves."
    ),
}
"""Of stories that are in a folder of their own there."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `barnabas drill`."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="list|run")
    lists = verbs.add_parser("list", help="all drills: barnabas drill list")
    runs = verbs.add_parser("run", help="rehearse: barnabas drill run move-quorum")
    runs.add_argument("name", metavar="NAME", help="of `barnabas drill list`, or all")
    runs.add_argument(
        "--rate",
        type=at_least(1, MOST_RATE, "records a second"),
        default=RATE,
        metavar="N",
        help=f"records a second ({RATE:.0f})",
    )
    runs.add_argument("--times", type=whole(1), default=1, metavar="N", help="how often (1)")
    for verb in (lists, runs):
        verb.add_argument("--json", action="store_true", help="print one JSON document instead")


def run(args: argparse.Namespace) -> int:
    """`barnabas drill list|run`: 1 when a drill failed."""
    if args.verb == "list":
        show(args, "drills", [{"name": n, "about": about} for n, about in DRILLS.items()], ["name", "about"])
        return 0
    if args.name != "all" and args.name not in DRILLS:
        import difflib

        near = difflib.get_close_matches(args.name, DRILLS, 1, 0.4)
        raise ConfigError(
            f"there is no drill {args.name}",
            next_step=f"did you mean {near[0]}?" if near else "`barnabas drill list` shows them",
        )
    names = list(DRILLS) if args.name == "all" else [args.name]
    results = [rehearse(name, quiet=args.json, rate=args.rate) for _ in range(args.times) for name in names]
    if args.json:
        print_document("drill", {"drill": results})
    elif len(results) > 1:
        print()
        show(args, "drills", results, ["name", "result", "seconds", "acknowledged", "lost", "twice"])
    return 0 if all(result["result"] == "proven" for result in results) else 1


def story_of(name: str) -> str:
    """The module of a drill's story, below `stories`."""
    return _FOLDERS.get(name, "") + name.replace("-", "_")


def rehearse(name: str, *, quiet: bool = False, rate: float = RATE) -> dict[str, Any]:
    """Run one drill; what came out: name, result (proven or why not), seconds, and what was counted."""
    from barnabas.cli.drill.stage import Stage

    story = import_module(f"barnabas.cli.drill.stories.{story_of(name)}")
    began = time.monotonic()
    say = _silent if quiet else _Printer(began)
    say("title", f"{name}: {DRILLS[name]}")
    result: dict[str, Any] = {"name": name}
    stage = Stage(say, rate)
    try:
        with _ended_cleanly(), stage:
            stage.keep = True
            story.play(stage)
            proof = stage.prove()
            stage.keep = not proof.holds
            result |= {**proof._asdict(), "result": "proven" if proof.holds else "NOT PROVEN"}
            for line in proof.lines():
                say("proof", line)
    except BarnabasError as error:
        result["result"] = f"FAILED: {error}"
        say("proof", result["result"])
    if stage.keep:
        result["logs"] = stage.directory
        say("proof", f"the nodes' logs and files are kept in {stage.directory}")
    result["seconds"] = round(time.monotonic() - began, 1)
    say("proof", f"{result['result'].partition(':')[0]} in {result['seconds']} s")
    return result


@contextmanager
def _ended_cleanly() -> Iterator[None]:
    """Whoever ends this process (a terminal that is closed, a job's time limit) ends its nodes, too."""

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    before = {sign: signal.signal(sign, end) for sign in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)


def _silent(kind: str, text: str) -> None:
    pass


class _Printer:
    """Prints a drill as a transcript with the seconds since its start; bold and dim on a terminal."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")

    def __call__(self, kind: str, text: str) -> None:
        before, style = {
            "title": ("", "1"),
            "why": ("\n# ", "1"),
            "type": ("$ ", "36"),
            "answer": ("  ", "2"),
            "see": ("-> ", "32"),
            "proof": ("= ", "1"),
        }[kind]
        stamp = f"{time.monotonic() - self._began:5.1f} s  " if kind in ("see", "proof") else ""
        line = f"{before}{stamp}{text}"
        print(f"\x1b[{style}m{line}\x1b[0m" if self._color else line, flush=True)
