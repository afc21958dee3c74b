"""What one sees of the demo: a line for each thing that happens, and the numbers as they move.

On a terminal the numbers are three bars and two lines below them, redrawn in place; elsewhere (a pipe, a log
of a continuous build) a plain line every few seconds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple

__all__ = ["Numbers", "Screen"]

PLAIN_EVERY = 5.0


class Numbers(NamedTuple):
    """What moves: flights acknowledged, flights through Spark, delays that a reader of committed records has seen
    (of so many, once that is known), each node's state and how much it leads, replicas in sync, Spark."""

    rows: int
    delivered: int
    through: int
    written: int
    to_write: int | None
    nodes: Sequence[tuple[str, str, int]]
    in_sync: str
    spark: str

    def words(self) -> list[str]:
        """The nodes, one after the other."""
        return [
            f"{name} {state}" + (f", leads {led}" if state == "up" else "") for name, state, led in self.nodes
        ]

    @property
    def lag(self) -> int:
        return max(0, self.delivered - self.through)


class Screen:
    """`with Screen() as screen: screen.say("..."); screen.show(numbers)`."""

    def __init__(self, *, plain: bool | None = None) -> None:
        self.began = time.monotonic()
        self.plain = not sys.stdout.isatty() if plain is None else plain
        self._live: Any = None
        self._shown_at = 0.0
        self._console: Any = None

    def __enter__(self) -> Screen:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def say(self, text: str, style: str = "") -> None:
        """One line that stays, with the seconds since the start before it."""
        stamp = f"{time.monotonic() - self.began:6.1f}s"
        if self.plain:
            sys.stdout.write(f"{stamp}  {text}\n")
            sys.stdout.flush()
            return
        from rich.text import Text

        self.console.print(Text.assemble((stamp, "dim"), "  ", (text, style)))

    @property
    def console(self) -> Any:
        """The rich console; only on a terminal."""
        if self._console is None:
            from rich.console import Console

            self._console = Console(highlight=False)
        return self._console

    def show(self, numbers: Numbers) -> None:
        """The numbers now."""
        if self.plain:
            if time.monotonic() - self._shown_at >= PLAIN_EVERY:
                self._shown_at = time.monotonic()
                self.say(
                    f"flights in {numbers.delivered:,} of {numbers.rows:,}  through Spark {numbers.through:,}  "
                    f"lag {numbers.lag:,}  delays out {numbers.written:,}  {'; '.join(numbers.words())}  "
                    f"in sync {numbers.in_sync}  spark {numbers.spark}"
                )
            return
        if self._live is None:
            from rich.live import Live

            self._live = Live(console=self.console, refresh_per_second=8, transient=True)
            self._live.start()
        self._live.update(self._picture(numbers))

    def stop(self) -> None:
        """No more moving numbers; the cursor is back."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _picture(self, numbers: Numbers) -> Any:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 2))
        for label, value, total, style in (
            ("flights in", numbers.delivered, numbers.rows, "cyan"),
            ("through Spark", numbers.through, numbers.rows, "green"),
            ("delays out, committed", numbers.written, numbers.to_write, "magenta"),
        ):
            bar = ProgressBar(
                total=total or 1,
                completed=value if total else 0,
                width=40,
                complete_style=style,
                finished_style=style,
            )
            of = f"of {total:,}" if total else ""
            grid.add_row(f"  {label}", bar, Text(f"{value:,}", justify="right"), of)
        dead = "bold red" if "KILLED" in numbers.spark else ""
        below = Text.assemble("  lag ", (f"{numbers.lag:,}", "bold"), "   spark ", (numbers.spark, dead))
        nodes = Text("  ")
        for (_, state, _), words in zip(numbers.nodes, numbers.words(), strict=True):
            nodes.append(f"{words}   ", "green" if state == "up" else "bold red")
        nodes.append(f"in sync {numbers.in_sync}")
        return Group(grid, below, nodes)
