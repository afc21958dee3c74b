"""A log on its way into another directory: where it is meanwhile, and how it gets its final name.

A replica that moves is copied into `<topic>-<partition>.<32 hex>-future` in its new directory, while the log
in the old one keeps serving.  When both are equal, the old one is renamed `-delete`, durably, and only then
does the copy get the name of the partition: a crash leaves the old one, or the copy alone, never two.
"""

from __future__ import annotations

from barnabas.log.log import Log
from barnabas.model import NO_EPOCH, Now

__all__ = ["align"]


def align(copy: Log, log: Log, now: Now) -> None:
    """Cut from the copy what `log` does not have (any more), and what it has deleted at its start.

    Raises StorageError.
    """
    copy.epochs.truncate_from_end(copy.log_end_offset)  # an epoch that never had a record
    while copy.log_end_offset > copy.log_start_offset:
        epoch, end = log.end_offset_for_epoch(copy.latest_epoch)
        if epoch == NO_EPOCH:
            end = copy.epochs.starts[-1] if copy.epochs.starts else copy.log_start_offset
        elif epoch != copy.latest_epoch:
            _, ours = copy.end_offset_for_epoch(epoch)
            end = min(end, ours) if ours >= 0 else copy.log_start_offset
        if end >= copy.log_end_offset:
            break
        copy.truncate_to(max(end, copy.log_start_offset), now)
        copy.epochs.truncate_from_end(copy.log_end_offset)
    if not log.log_start_offset <= copy.log_end_offset <= log.log_end_offset:
        copy.truncate_fully_and_start_at(log.log_start_offset, now)
    copy.high_watermark = log.high_watermark
    if copy.log_start_offset < log.log_start_offset <= copy.high_watermark:
        copy.increment_log_start(log.log_start_offset)
