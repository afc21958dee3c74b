"""Where the records of TLS end in what is received, so that OpenSSL gets whole ones (RFC 8446, section 5.1).

Nothing has to be asked in vain then: an error raised for each piece that ends in a record costs more than its
decryption.
"""

from __future__ import annotations

from struct import Struct

__all__ = ["LARGEST_BYTES", "RecordEnds"]

_length = Struct(">H").unpack_from
HEAD_BYTES = 5
"""Type, version, and the length of what follows."""
LARGEST_BYTES = HEAD_BYTES + 16 * 1024 + 256
"""A larger one is an error, which OpenSSL finds in its head."""


class RecordEnds:
    """Counts through the records of one connection."""

    __slots__ = ("_head", "_missing")

    def __init__(self) -> None:
        self._head = b""
        """The beginning of a record that is too short to tell its length."""
        self._missing = 0
        """Bytes of the record that has begun, still to come."""

    @property
    def whole(self) -> bool:
        """Whether the last piece ended a record."""
        return not self._missing and not self._head

    def cut(self, data: memoryview, at: int, size: int) -> int:
        """Where the piece ends that begins at `data[at]`: with its last whole record, or at `size` inside one.

        A piece has at most `LARGEST_BYTES`.
        """
        if not self.whole:
            return self._go_on(data, at, size)
        end, limit = at, min(at + LARGEST_BYTES, size)
        while end + HEAD_BYTES <= limit and (after := end + HEAD_BYTES + _length(data, end + 3)[0]) <= limit:
            end = after
        return end if end > at else self._go_on(data, at, size)

    def _go_on(self, data: memoryview, at: int, size: int) -> int:
        """The same for a record that has begun before, or does not end in `data`."""
        missing = self._missing
        if not missing:
            had = len(self._head)
            head = self._head + data[at : min(at + HEAD_BYTES - had, size)]
            if len(head) < HEAD_BYTES:
                self._head = head
                return size
            self._head = b""
            missing = min(HEAD_BYTES + _length(head, 3)[0], LARGEST_BYTES) - had
        end = min(at + missing, size)
        self._missing = at + missing - end
        return end
