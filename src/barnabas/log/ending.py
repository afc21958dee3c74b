"""What a clean stop leaves beside the records of a log, so that the next start need not read them."""

from __future__ import annotations

from barnabas.log.segments.segment import Segment
from barnabas.log.state import LogState
from barnabas.model import METADATA_TOPIC

__all__ = ["leave_tables", "may_lack_tables"]

_SHORT_BYTES = 64 * 1024
"""The headers of so few bytes are read as fast as tables are."""
_TABLES = (".index", ".timeindex", ".txnindex")


def may_lack_tables(log: LogState) -> bool:
    """Return whether a log is so short that a clean stop leaves no tables; any other has both of each segment."""
    return len(log.segments) == 1 and log.segments[0].end_position <= _SHORT_BYTES


def leave_tables(log: LogState) -> list[str]:
    """Bring the files of the tables up to their rows, and leave a producer snapshot.

    Returns the paths to sync.  A short log gets no files: a node with thousands of them would sync three times as
    many, and the next start makes the same tables from a few headers.  Raises StorageError.
    """
    active = log.active
    active.seal()
    short = may_lack_tables(log) and _needs_no_tables(active)
    short = short and log.topic_partition.topic != METADATA_TOPIC  # its directory holds the files of Kafka's
    paths = [] if short else [path for segment in log.segments for path in segment.write_tables()]
    log.note_aborted(log.segments)
    end, snapshots = log.log_end_offset, log.snapshots
    if short and not len(log.producers) and not snapshots.offsets:
        return paths
    if end > log.bases[0] and end not in snapshots:
        paths.append(snapshots.take(end, log.producers.rows()))
        snapshots.prune(log.bases)
    return paths


def _needs_no_tables(segment: Segment) -> bool:
    """Whether its tables say only what the headers of a few KiB say.

    Not where there are files: they may be those of a longer log that a crash or a truncation has cut.
    """
    return (
        not any(segment.disk.exists(segment.path(kind)) for kind in _TABLES)
        and not len(segment.index)
        and not segment.transactions.rows
    )
