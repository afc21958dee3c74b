"""The story of a seed for a reader: its setting, its faults, the end of its timeline, and the command that
repeats it.
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.sim.quorum.seed_run import QuorumReport

__all__ = ["command", "tell"]


def command(seed: int) -> str:
    """What repeats a seed."""
    return f"barnabas simulate --seed {seed}"


def tell(report: QuorumReport, *, lines: int = 60, quiet: bool = False) -> Iterator[str]:
    """The lines of a seed's story; `lines` of its timeline (0: all)."""
    yield f"seed {report.seed}: {report.setup}"
    yield (
        f"{report.events} events in {report.virtual_seconds:.0f} virtual seconds, {report.commits} commits, "
        f"{report.changes} changes of the voters, {len(report.faults)} faults ({report.overlaps} during a change)"
    )
    if not quiet:
        yield "faults:"
        for fault in report.faults:
            yield f"  {fault}"
        yield "operations:"
        for outcome, count in sorted(report.outcomes.items()):
            yield f"  {count:4d}  {outcome}"
    if report.story:
        told = report.story if lines == 0 else report.story[-lines:]
        yield "timeline:" if len(told) == len(report.story) else f"timeline (its last {len(told)} lines):"
        for line in told:
            who = f"  {line.who}  " if line.who else "      "
            yield f"{line.time:10.4f}{who}{line.text}"
    if report.ok:
        yield f"every promise was kept; trace {report.digest}"
    else:
        yield f"BROKEN {report.error}"
        yield f"trace {report.digest}"
        yield f"again: {command(report.seed)}"
