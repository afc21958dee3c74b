"""Opening a log: clean up what a crash left, then trust nothing after the last good CRC.

After a clean stop the indexes and the producer snapshot are used as they are.  Otherwise every batch from the
recovery point's segment on (and always of the last segment) is read again: CRC, offsets that grow.  The
indexes are rebuilt.  At the first bad batch the log ends.  A stop can tear only what was not synced: where whole
records follow the cut, what goes is kept in `.damaged` files until the log was closed cleanly.  Then leader
epochs, producers and aborted transactions are brought to exactly that end, and what was not known to be
durable is synced, so that whatever is served after a restart is durable.  (The indexes of the last segment
are not synced: after the next crash they are rebuilt in any case.)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator
from contextlib import suppress
from itertools import islice

from barnabas.errors import CorruptRecordError, StorageError
from barnabas.log.ending import may_lack_tables
from barnabas.log.epoch_replay import EPOCHS, replay_epochs
from barnabas.log.files.snapshot import START_ANEW
from barnabas.log.producers.replay import replay_producers
from barnabas.log.sealed import check_first, check_sealed, remake_tables
from barnabas.log.segments.aside import DAMAGED, keep_aside, records_follow
from barnabas.log.segments.names import base_of, file_name
from barnabas.log.segments.scan import batches_of, misfit
from barnabas.log.segments.segment import MAX_OFFSET, Segment
from barnabas.log.segments.transactions import read_sums
from barnabas.log.state import LogState
from barnabas.model import NO_EPOCH, NO_OFFSET, Epoch, Now, Offset
from barnabas.ports import Disk

__all__ = ["MissingEndError", "load"]

_STEP_BYTES = 1 << 20
_OFFSETS_IN_A_SEGMENT = 1 << 31
"""Its tables count from its base in 32 bits; no CRC covers a batch's base offset."""
_TABLES = (".index", ".timeindex", ".txnindex")


class MissingEndError(StorageError):
    """A log ends before what was durable, and nothing that it holds is bad."""


def load(
    log: LogState,
    *,
    clean: bool,
    recovery_point: Offset,
    log_start: Offset,
    first: Offset,
    required: Offset,
    synced: Offset,
    now: Now,
) -> Generator[None, None, bool]:
    """Fill a new log from its directory.  Raises StorageError, before anything below `required` is cut.

    `synced`: the log was durable up to here, by the recovery point or by another mark.  Returns whether the log is
    to be synced; everything is durable then.
    """
    disk = log.disk
    if not disk.is_directory(log.path):
        disk.make_directories(log.path)
        disk.sync_directory(log.path.rpartition("/")[0] or ".")
    deleted = _clear_leftovers(disk, log.path)
    gone = {base_of(name) for name in deleted}
    bases, orphans, tables, aside = _list_segments(log)
    if not bases:
        _demand(log, log_start, required, "its segments are gone")
        _miss_end(log, log_start, synced, "its segments are gone")
        _start_empty(log, log_start, now)
        return False
    _load_segments(log, bases)
    clean, recovery_point = _check_tables(log, tables, recovery_point, clean=clean)
    if clean:
        clean = _trust(log)
    if not clean:
        yield from _reread(log, recovery_point, log_start, required, synced)
        _cut_again(log, recovery_point)
    else:
        for name in aside:
            disk.remove(f"{log.path}/{name}")
    _demand(log, log.log_end_offset, required, "its end is missing")
    _miss_end(log, max(log_start, log.log_end_offset), synced, "its end is missing")
    log.start_at(max(log_start, log.bases[0]))
    _find_damage(log, first, orphans, gone)
    _finish_deletions(log, deleted, first, now)
    if log.log_end_offset < log.log_start_offset:
        while log.segments:  # its records were deleted already, all of them
            _remove_segment(log.drop_last())
        _start_empty(log, log.log_start_offset, now)
        return False
    log.activate()
    yield from replay_epochs(log, clean)
    first_reread = log.bases[len(log.bases) - log.recovery.segments] if log.recovery.segments else NO_OFFSET
    yield from replay_producers(log, rebuild_from=first_reread)
    log.found(log.recovery._replace(damaged=bool(log.damage)))
    if len(log.segments) > 1:
        log.note_aborted(log.segments[:-1])
    log.producers.expire(now, log.log_start_offset)
    if log.compacted_offset > log.log_end_offset:
        log.forget_compaction()
    needs_sync = not clean and _needs_sync(log, recovery_point)
    if not needs_sync:
        log.know_durable()
    for segment in log.segments[:-1] if needs_sync else log.segments:
        segment.trust()
    return needs_sync


def _load_segments(log: LogState, bases: list[Offset]) -> None:
    """Give the log its segments, in order."""
    for base in bases:
        segment = Segment(
            log.disk,
            log.path,
            base,
            created_ms=log.disk.modified_ms(f"{log.path}/{file_name(base, '.log')}"),
            index_interval=log.config.index_interval_bytes,
        )
        segment.load()
        log.take_segment(segment)


def _needs_sync(log: LogState, synced: Offset) -> bool:
    """Note what was read again as not durable; false when all of it lies below `synced`."""
    unsynced = log.unsynced
    for segment in log.segments[:-1]:
        unsynced.paths += segment.write_tables()
    first = len(log.segments) - max(1, log.recovery.segments)
    if first < len(log.segments) - 1:
        unsynced.paths.append(log.snapshots.take(log.log_end_offset, log.producers.rows()))
    if first and log.bases[first] >= synced:
        first -= 1  # the process may have cut it to where it ends, and died before it synced that
    unsynced.files += [segment.file for segment in log.segments[first:-1]]
    unsynced.directory = log.log_end_offset > synced or log.log_end_offset == 0
    return log.log_end_offset > synced or log.recovery.cut_at >= 0 or bool(unsynced.files)


def _demand(
    log: LogState, end: Offset, required: Offset, reason: str, kind: type[StorageError] = MissingEndError
) -> None:
    """Refuse a log that lost what was durable and must not be lost; its files stay as they are."""
    if end < required:
        raise kind(
            f"{log.path} is damaged: everything below offset {required} was durable, what can be read ends at "
            f"{end} ({reason})",
            directory=log.path,
            next_step=START_ANEW,
            fatal=True,
        )


def _miss_end(log: LogState, end: Offset, synced: Offset, reason: str) -> None:
    """Say so if the log ends before what was known to be durable."""
    if end < synced and not log.recovery.lost:
        found = log.recovery._replace(
            cut_at=end,
            reason=f"{log.path}: {reason}: up to {synced} all was synced",
            lost=True,
        )
        log.found(found)


def _find_damage(log: LogState, first: Offset, orphans: set[Offset], gone: set[Offset]) -> None:
    """Check the segments that are not read again.  If the first ones are missing, the log still starts there."""
    read_again = max(1, log.recovery.segments)
    found = check_first(log, first, gone)
    if found:
        log.start_at(first)
    found += check_sealed(log, len(log.segments) - read_again, orphans, gone)
    log.load_damage()
    log.note_damage(found)
    log.forget_damage()
    for orphan in orphans:
        for kind in _TABLES:
            if log.disk.exists(path := f"{log.path}/{file_name(orphan, kind)}"):
                log.disk.remove(path)


def _finish_deletions(log: LogState, names: list[str], first: Offset, now: Now) -> None:
    """Remove deleted files, but keep those that prove to an older checkpoint where the log begins now."""
    ends = sorted({log.bases[0], *map(base_of, names)})
    for name in sorted(names):
        path, base = f"{log.path}/{name}", base_of(name)
        end = ends[bisect_right(ends, base)] if base < log.bases[0] else base
        if 0 <= first < end and 0 <= base < end:
            log.deleted.add(now.mono, [path], end=end)
        else:
            log.disk.remove(path)


def _start_empty(log: LogState, offset: Offset, now: Now) -> None:
    log.start_empty(offset, now)
    if log.snapshots.remove_after(-1):
        log.producers.replace(())
    log.epochs.dirty = log.disk.exists(f"{log.path}/{EPOCHS}")


def _remove_segment(segment: Segment, *, aside: bool = False) -> int:
    """Remove the files of a segment (`aside`: keep its records); returns the bytes of records."""
    size = segment.end_position
    segment.close()
    for name in segment.names():
        path = f"{segment.directory}/{name}"
        if aside and name.endswith(".log"):
            segment.disk.rename(path, path + DAMAGED)
        else:
            segment.disk.remove(path)
    return size


# --- leftovers --------------------------------------------------------------------------------------------


def _clear_leftovers(disk: Disk, path: str) -> list[str]:
    """Finish or undo what a crash interrupted: a compaction's swap, temporary files.

    Returns the names of what was deleted, and is not removed yet.
    """
    names = disk.list(path)
    for name in names:
        if name.endswith(".tmp") and not name.startswith("quorum-state"):
            disk.remove(f"{path}/{name}")
    cleaned = [name for name in names if name.endswith(".cleaned")]
    for name in cleaned:
        disk.remove(f"{path}/{name}")
    swaps = [name for name in names if name.endswith(".swap")]
    first_cleaned = min((base_of(name) for name in cleaned), default=None)
    kept = []
    for name in swaps:
        if first_cleaned is not None and base_of(name) >= first_cleaned:
            disk.remove(f"{path}/{name}")  # its compaction had not finished: the old segments are all there
        else:
            kept.append(name)
    _finish_swaps(disk, path, [name for name in names if name.endswith((".log", *_TABLES))], kept)
    return [name for name in names if name.endswith(".deleted")]


def _finish_swaps(disk: Disk, path: str, files: list[str], swaps: list[str]) -> None:
    for swap in swaps:
        if not swap.endswith(".log.swap"):
            continue
        base = base_of(swap)
        file = disk.open(f"{path}/{swap}", read_only=True)
        end = base
        try:
            for _, header, _ in batches_of(file, 0, file.size()):
                end = header.last_offset + 1
        except CorruptRecordError as error:
            raise StorageError(f"{path}/{swap}: a compacted segment is corrupt: {error}") from error
        finally:
            file.close()
        for name in files:
            if base <= base_of(name) < max(end, base + 1) and disk.exists(f"{path}/{name}"):
                disk.remove(f"{path}/{name}")
    for swap in swaps:
        disk.rename(f"{path}/{swap}", f"{path}/{swap.removesuffix('.swap')}")
    if swaps:
        disk.sync_directory(path)


def _list_segments(log: LogState) -> tuple[list[Offset], set[Offset], set[str], list[str]]:
    """Return the segments that are there, those of which there are only tables, all tables, and the files kept
    aside."""
    names = log.disk.list(log.path)
    logs = {
        base_of(name) for name in names if name.endswith(".log") and len(name) == 24 and base_of(name) >= 0
    }
    orphans, snapshots = set(), []
    for name in names:
        base = base_of(name)
        if base < 0:
            continue
        if name.endswith(".snapshot"):
            snapshots.append(base)
        elif name.endswith(_TABLES) and base not in logs:
            orphans.add(base)
    log.snapshots.found(snapshots)
    tables = {name for name in names if name.endswith(_TABLES)}
    return sorted(logs), orphans, tables, [name for name in names if name.endswith(DAMAGED)]


# --- segments ---------------------------------------------------------------------------------------------


def _check_tables(
    log: LogState, tables: set[str], recovery_point: Offset, *, clean: bool
) -> tuple[bool, Offset]:
    """Make tables that are gone.  Returns whether the stop counts as clean yet, and whence all is read again."""
    trusted = len(log.bases) if clean else max(0, bisect_right(log.bases, recovery_point) - 1)
    for segment in log.segments[:trusted]:
        gone = [kind for kind in _TABLES[:2] if file_name(segment.base, kind) not in tables]
        if len(gone) == 1 or (gone and not may_lack_tables(log)):
            remake_tables(log, segment, gone)
    sums = read_sums(log.disk, log.path) if clean or len(log.bases) > 1 else {}
    for place, segment in enumerate(log.segments):
        # (the last one may have grown since that was written down, unless the stop was clean)
        wanted = sums.get(segment.base) if clean or segment is not log.segments[-1] else None
        if not _transactions_good(segment, wanted):
            if place < trusted:
                log.remade.append(segment.path(".txnindex"))
            clean, recovery_point = False, min(recovery_point, segment.base)
            break
    return clean, recovery_point


def _transactions_good(segment: Segment, wanted: int | None) -> bool:
    """Return whether the aborted transactions of a segment are known; else they are found in the log again.

    `wanted`: their checksum, None where it is not known.
    """
    try:
        table = segment.transactions
    except CorruptRecordError:
        return False
    return wanted is None or table.checksum == wanted


def _trust(log: LogState) -> bool:
    """Take the segments as they are; false when the last one is not what a clean stop leaves."""
    last = log.segments[-1]
    try:
        last.load_tail()
        end = last.base
        position = last.last_index_position
        most = last.base + _OFFSETS_IN_A_SEGMENT
        for at, header in last.headers(position):
            if not end <= header.base_offset <= header.last_offset < most:
                return False
            end = header.last_offset + 1
            position = at + header.size
        if position != last.end_position:
            return False
    except CorruptRecordError:
        return False
    log.end_at(end)
    return True


def _reread(
    log: LogState, recovery_point: Offset, log_start: Offset, required: Offset, synced: Offset
) -> Generator[None, None, None]:
    """Check every batch from the recovery point's segment on, and cut at the first that is bad.

    A segment that does not begin where the one before it ends is bad too, unless compaction came that far.
    """
    place = max(0, bisect_right(log.bases, recovery_point) - 1)
    first = place
    batches = 0
    end, epoch = log.bases[place], NO_EPOCH
    cut_at, bytes_cut, reason, lost = NO_OFFSET, 0, "", False
    compacted = "compact" in log.config.cleanup_policy
    while place < len(log.segments):
        segment = log.segments[place]
        keep = place + 1
        limit = log.segments[keep].base if keep < len(log.segments) else MAX_OFFSET
        limit = min(limit, segment.base + _OFFSETS_IN_A_SEGMENT)
        gap = (
            segment.base > end and place > first and not compacted and segment.base > log.recovery.gaps_below
        )
        if segment.base < end or gap:
            reason = f"segment {segment.base} does not begin at {end}, where the one before it ends"
            keep = place
        else:
            end, epoch, count, reason = yield from _reread_segment(
                segment, max(end, segment.base), limit, epoch
            )
            batches += count
        if reason:
            _demand(log, end, required, reason, StorageError)
            cut_at = end
            last = log.segments[keep - 1]
            lost = max(end, log_start) < synced
            follow = any(other.file.size() for other in log.segments[keep:])
            aside = lost or follow or records_follow(last.file, last.end_position, end, epoch)
            bytes_cut = _cut_after(log, keep, aside=aside)
            break
        place += 1
    log.end_at(end)
    log.found(
        log.recovery._replace(
            clean=False,
            segments=max(0, len(log.segments) - first),
            batches=batches,
            cut_at=cut_at,
            bytes_cut=bytes_cut,
            reason=reason,
            lost=lost,
        )
    )


def _cut_again(log: LogState, recovery_point: Offset) -> None:
    """The segment before those that were read again may have been cut to where it ends, and a power cut may have
    undone that: what lies there from the next segment's base on is no damage."""
    place = len(log.segments) - log.recovery.segments - 1
    if place < 0 or log.segments[place].limit < recovery_point:
        return
    segment = log.segments[place]
    with suppress(CorruptRecordError):
        end = segment.whole_until(segment.row_before(segment.limit)[0])
        if any(header.base_offset == segment.limit for _, header in islice(segment.headers(end), 1)):
            segment.truncate(segment.limit)


def _cut_after(log: LogState, keep: int, *, aside: bool) -> int:
    """Cut the last segment to keep at its good end and remove those after it; returns the bytes that went.

    `aside`: keep what goes in `.damaged` files.
    """
    gone = 0
    while len(log.segments) > keep:
        gone += _remove_segment(log.drop_last(), aside=aside)
    last = log.segments[-1]
    if aside:
        keep_aside(log.disk, last.file, last.end_position)
    gone += last.file.size() - last.end_position
    last.cut_file(last.end_position)
    return gone


def _reread_segment(
    segment: Segment, end: Offset, limit: Offset, epoch: Epoch, *, most: int = MAX_OFFSET
) -> Generator[None, None, tuple[Offset, Epoch, int, str]]:
    """Returns (end offset, latest epoch, good batches, why it was cut or "").

    The tables are new and `end_position` is the good end.  Offsets lie outside the CRC, and so do epochs:
    offsets that do not grow, or reach into the next segment, and epochs that fall end the log as well.
    `most`: bytes of the file to read.
    """
    file = segment.file
    segment.distrust()
    size = min(file.size(), most)
    segment.start_over()
    count = seen = 0
    begun, gap, rise, before = (end, limit, epoch), MAX_OFFSET, MAX_OFFSET, 0
    try:
        for at, header, _ in batches_of(file, 0, size):
            if wrong := misfit(header, end, limit, epoch):
                wrong = f"{file.path}: {wrong}"
                if gap <= header.base_offset < end or rise <= header.leader_epoch < epoch:
                    # the one before may claim offsets, or an epoch, that are not its own
                    return (*(yield from _reread_segment(segment, *begun, most=before))[:3], wrong)
                return end, epoch, count, wrong
            # (the offset from which on some are missing before this batch; the epoch before, if it began another)
            gap = end if header.base_offset > end else MAX_OFFSET
            rise = epoch if header.leader_epoch > epoch else MAX_OFFSET
            before = at
            segment.note(header.last_offset, header.max_timestamp, header.size)
            end, epoch = header.last_offset + 1, header.leader_epoch
            count += 1
            seen += header.size
            if seen >= _STEP_BYTES:
                seen = 0
                yield
    except CorruptRecordError as error:
        return end, epoch, count, str(error)
    segment.seal()
    return end, epoch, count, ""
