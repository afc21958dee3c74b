"""What a log has written and not synced yet, besides the records of its active segment."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.log.epochs import EpochCache
from barnabas.log.files.checkpoint import epoch_rows
from barnabas.log.files.sync import SyncJob
from barnabas.log.segments.segment_file import SegmentFile
from barnabas.model import Offset
from barnabas.ports import Disk, DiskFile

__all__ = ["Unsynced", "parent_of"]


class Unsynced:
    """Files and directory entries that the next sync makes durable, and the sync that is in flight."""

    __slots__ = ("directory", "files", "generation", "in_flight", "parents", "paths")

    def __init__(self) -> None:
        self.directory = False
        """Whether names in the log's directory changed."""
        self.files: list[DiskFile] = []
        """Of segments that were sealed."""
        self.paths: list[str] = []
        """Of tables, snapshots, metadata."""
        self.parents: list[str] = []
        """Directories in which the log's own directory changed its name, or is new."""
        self.generation = 0
        """How often the log was cut: a sync from before does not count."""
        self.in_flight: SyncJob | None = None

    def __repr__(self) -> str:
        return f"<Unsynced files={len(self.files)} paths={len(self.paths)} directory={self.directory}>"

    def cut(self) -> None:
        """The log was cut: no earlier sync counts."""
        self.generation += 1
        self.directory = True

    def moved(self, path: str, name: Callable[[str], str]) -> None:
        """The log's directory is called `path` now; `name` gives what lies in it its new path."""
        self.paths = [name(one) for one in self.paths]
        self.parents = [parent_of(path)]
        self.directory = True

    def job(
        self, disk: Disk, path: str, last: SegmentFile, epochs: EpochCache, end: Offset, size: int
    ) -> SyncJob:
        """A sync of all of it and of the `size` bytes in the last segment, up to `end`; nothing is due then."""
        active = last.unsynced_file
        job = SyncJob(
            disk,
            path,
            files=[*self.files, active] if active is not None else self.files,
            active=active,
            active_bytes=size,
            paths=self.paths if active is not None or last.end_position else [*self.paths, last.path(".log")],
            directories=[path] * self.directory + self.parents,
            epochs=epoch_rows(epochs.entries()) if epochs.dirty else None,
            end_offset=end,
            generation=self.generation,
        )
        self.files, self.paths, self.parents = [], [], []
        self.directory = False
        epochs.dirty = False
        return job

    def refused(self, job: SyncJob, path: str) -> None:
        """There was no room for a sync: all of it is due again."""
        self.files = [*(file for file in job.files if file is not job.active), *self.files]
        self.paths = [*job.paths, *self.paths]
        self.parents += [one for one in job.directories if one != path]
        self.directory |= path in job.directories


def parent_of(path: str) -> str:
    """The directory in which a log's directory lies."""
    return path.rpartition("/")[0] or "."
