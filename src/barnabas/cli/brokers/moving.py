"""Carry out a plan and watch it: begin in batches, with a limit of speed, show bytes and time, say what waits.

The cluster keeps what was begun, so a command that is killed loses nothing: asked again, it finds what moves
still, plans the rest from where that is going, and goes on.  Only the limit of speed has to be removed by
somebody: the run that sees the last move end does, and `barnabas rebalance status` tells of one that was left.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from barnabas.cli.brokers.placement import Placement, duration_text, size_text
from barnabas.cli.moves import ids
from barnabas.cli.typed.plain import plain, terminal
from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.model import NodeId, TopicPartition

if TYPE_CHECKING:
    from barnabas.client.admin.admin import Admin
    from barnabas.client.admin.moves import Move
    from barnabas.client.admin.throttles import Throttles

__all__ = ["Watch", "begin", "end_throttles", "ended_text", "progress", "wait"]

BATCH = 500
"""Partitions in one request: the active controller decides a request in one go."""
LOOK_EVERY_S = 0.3
SIZES_EVERY_S = 1.0
STILL_S = 5.0
"""Where nothing moved for so long, it is said why."""


def begin(
    admin: Admin, plan: Mapping[TopicPartition, Sequence[NodeId]], look: Placement, rate: int | None
) -> dict[TopicPartition, KafkaError]:
    """Begin to move, limited to `rate` bytes per second and broker; returns what was refused, and why."""
    from barnabas.client.admin.throttles import throttle

    if rate is not None:
        throttle(admin, plan, look.replicas, rate)
    refused: dict[TopicPartition, KafkaError] = {}
    rows = sorted(plan.items())
    for first in range(0, len(rows), BATCH):
        refused.update(admin.move(dict(rows[first : first + BATCH])))
    return refused


def end_throttles(admin: Admin, look: Placement) -> Throttles:
    """Remove the limits that moves had, where nothing moves any more; those that there were."""
    from barnabas.client.admin.throttles import Throttles, throttles, unthrottle

    if admin.moves():
        return Throttles({}, ())
    serving = sorted(look.brokers.keys() - look.fenced)
    found = throttles(admin, serving, sorted({tp.topic for tp in look.replicas}))
    if found:
        unthrottle(admin, found)
    return found


def ended_text(found: Throttles) -> str:
    """What `end_throttles` did, in a line or two; empty where there was nothing to do."""
    lines = ["The limits of speed are removed."] if found else []
    if found.silent:
        lines.append(
            f"Broker {ids(found.silent)} does not answer; a limit that it may have stays until it is back:\n"
            "  next: `barnabas rebalance cancel` removes it then"
        )
    return "\n".join(lines)


class Watch:
    """How far moves are: counted in partitions, and in the bytes that the new replicas have by now."""

    def __init__(self, admin: Admin, wanted: Sequence[TopicPartition], look: Placement) -> None:
        self._admin = admin
        self._wanted = frozenset(wanted)
        self._sizes = look.sizes
        self.total = len(self._wanted)
        self.left: list[Move] = []
        self.bytes_left = 0
        self._began = self._sized = time.monotonic()
        self._first_bytes: int | None = None

    def look(self) -> None:
        """Ask what moves still; sizes are asked for more rarely."""
        self.left = [m for m in self._admin.moves() if TopicPartition(m.topic, m.partition) in self._wanted]
        now = time.monotonic()
        if self._first_bytes is None or now >= self._sized + SIZES_EVERY_S:
            self._sized = now
            self.bytes_left = self._count_bytes()
            if self._first_bytes is None:
                self._first_bytes = self.bytes_left

    def _count_bytes(self) -> int:
        there: dict[NodeId, dict[TopicPartition, int]] = {}
        for broker in {b for move in self.left for b in move.adding}:
            try:
                there[broker] = self._admin.log_dirs(broker).sizes()
            except BarnabasError:  # it does not serve now: nothing is known to have arrived
                there[broker] = {}
        missing = 0
        for move in self.left:
            tp = TopicPartition(move.topic, move.partition)
            for broker in move.adding:
                missing += max(0, self._sizes.get(tp, 0) - there[broker].get(tp, 0))
        return missing

    def text(self) -> str:
        """`37 of 100 moved, 1.2 GiB left, about 40 s`."""
        words = f"{self.total - len(self.left)} of {self.total} moved"
        if self.left:
            words += f", {size_text(self.bytes_left)} left"
            done = (self._first_bytes or 0) - self.bytes_left
            elapsed = time.monotonic() - self._began
            if done > 0 and elapsed >= 2 and self.bytes_left:
                words += f", about {duration_text(self.bytes_left * elapsed / done)}"
        return words

    def reason(self) -> str:
        """Why what is left does not end: who is awaited, those that do not serve named as such."""
        fenced = set(self._admin.describe_cluster(fenced=True).fenced)
        awaited = sorted({b for move in self.left for b in (move.adding or move.target)})
        away = [b for b in awaited if b in fenced]
        if away:
            return f"broker {ids(away)} does not serve"
        first = self.left[0]
        sources = sorted(set(first.replicas) - set(first.adding))
        if sources and fenced.issuperset(sources):
            return f"nobody leads {first.topic}-{first.partition}: broker {ids(sources)} does not serve"
        return f"{first.topic}-{first.partition} waits until broker {ids(first.adding or first.target)} is in sync"


def wait(
    watch: Watch, say: Callable[[str], None], timeout: float | None, again: str = "the same command"
) -> None:
    """Returns when nothing of it moves any more; where it stands still it says why.

    Raises KafkaError REQUEST_TIMED_OUT, with the reason.
    """
    try:
        _watch_moves(watch, say, timeout, again)
    except KeyboardInterrupt:
        ends = f"{again} --wait goes on watching, `barnabas rebalance cancel` turns them back"
        print(f"\nThe moves go on: {ends}.", file=sys.stderr)
        raise


def _watch_moves(watch: Watch, say: Callable[[str], None], timeout: float | None, again: str) -> None:
    deadline = None if timeout is None else time.monotonic() + timeout
    told, why = "", ""
    watch.look()
    moved = time.monotonic()
    while watch.left:
        now = time.monotonic()
        if watch.text() != told:
            say(told := watch.text())
            moved, why = now, ""
        elif now >= moved + STILL_S:
            moved = now
            if (reason := watch.reason()) != why:
                say(f"{told}; {(why := reason)}")
        if deadline is not None and now >= deadline:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{len(watch.left)} of {watch.total} partitions still move after {timeout:g} s: {watch.reason()}",
                next_step=f"the moves go on; {again} --wait goes on watching, "
                "`barnabas rebalance cancel` turns them back",
            )
        time.sleep(LOOK_EVERY_S)
        watch.look()
    say(watch.text())


def progress(*, quiet: bool) -> Callable[[str], None]:
    """Where progress is said: a line that is written over on a terminal, lines elsewhere, nothing with --json."""
    if quiet:
        return lambda text: None
    if sys.stdout.isatty():
        return _say_over
    return lambda text: print(f"  {text}", flush=True)


def _say_over(text: str) -> None:
    """One line of a terminal: a longer one would not be written over."""
    shown = plain(text)[: max(20, shutil.get_terminal_size().columns - 3)]
    end = "\n" if " left" not in text else ""
    print(f"\r\x1b[K  {shown}", end=end, flush=True, file=terminal())
