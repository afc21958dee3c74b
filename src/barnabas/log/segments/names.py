"""The names of the files of a segment."""

from __future__ import annotations

from barnabas.model import Offset

__all__ = ["base_of", "file_name"]


def file_name(offset: Offset, suffix: str) -> str:
    """`00000000000000000042.log` and the like."""
    return f"{offset:020d}{suffix}"


def base_of(path: str) -> Offset:
    """The offset in the name of a segment's file, -1 when there is none."""
    digits = path.rpartition("/")[2].partition(".")[0]
    return int(digits) if digits.isdecimal() else -1
