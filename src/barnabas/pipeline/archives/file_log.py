"""Spark's list of the files that whole micro-batches wrote: `records/_spark_metadata` of an archive.

One log file for each micro-batch, and from time to time a compact one with everything before it.  Each is a line
with the version, then a line of JSON for each file.  The paths in it are those of the day when they were written:
an archive may have moved since, so only the part below `records` counts here.
"""

from __future__ import annotations

import json
import os
from urllib.parse import unquote, urlparse

from barnabas.errors import BarnabasError

__all__ = ["LISTED", "DamagedArchiveError", "damaged", "list_is_gone", "listed_files", "newest_batch"]

LISTED = "_spark_metadata"
_COMPACT = ".compact"
_VERSION = "v1"
_LEVELS = 3
"""topic=.../partition=.../file: what lies below `records`."""


class DamagedArchiveError(BarnabasError):
    """A file of an archive is not what it should be."""

    exit_code = 6


def damaged(path: str, error: object) -> DamagedArchiveError:
    """What to say of a file that cannot be read."""
    return DamagedArchiveError(
        f"{path} cannot be read: {error}",
        next_step="bring the file back from a copy, or archive the topic again, into another directory",
    )


def list_is_gone(said: str) -> DamagedArchiveError:
    """Return the error for a list, or a checkpoint, of Spark's that is not whole."""
    return DamagedArchiveError(
        said, next_step="bring it back from a copy, or archive the topics again, into another directory"
    )


def newest_batch(directory: str, log: str) -> int:
    """The number of the newest micro-batch in one of Spark's logs; -1 where there is none."""
    return max(_batches(os.path.join(directory, log)), default=-1)


def listed_files(records: str) -> list[str]:
    """The paths, below `records` as it is now, of the files in Spark's list.  Raises DamagedArchiveError."""
    log = os.path.join(records, LISTED)
    batches = _batches(log)
    compact = max((number for number, name in batches.items() if name.endswith(_COMPACT)), default=None)
    wanted = sorted(number for number in batches if compact is None or number >= compact)
    if wanted and wanted != list(range(wanted[0] if compact is not None else 0, wanted[-1] + 1)):
        raise list_is_gone(
            f"{log} lacks a micro-batch: it has {', '.join(batches[number] for number in wanted)}"
        )
    found: dict[str, None] = {}
    for number in wanted:
        for url in _read(os.path.join(log, batches[number])):
            found[_moved(url, records)] = None
    return list(found)


def _batches(log: str) -> dict[int, str]:
    """By number of the micro-batch: its log file, the compact one where there are two."""
    try:
        names = sorted(os.listdir(log))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    found: dict[int, str] = {}
    for name in names:
        number = name.removesuffix(_COMPACT)
        if number.isdecimal():
            found[int(number)] = name  # (3.compact comes after 3)
    return found


def _read(path: str) -> list[str]:
    """The addresses in one log file."""
    try:
        with open(path, encoding="utf-8") as file:
            version, *lines = file.read().splitlines()
        if version != _VERSION:
            raise ValueError(f"its version is {version[:20]!r}")
        entries = [json.loads(line) for line in lines if line]
        return [str(entry["path"]) for entry in entries if entry["action"] == "add"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise damaged(path, error) from error


def _moved(url: str, records: str) -> str:
    parts = unquote(urlparse(url).path).split("/")
    if len(parts) < _LEVELS:
        raise damaged(os.path.join(records, LISTED), f"{url} is no file of an archive")
    return os.path.join(records, *parts[-_LEVELS:])
