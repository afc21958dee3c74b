"""Generates the function that reads one message in one version.

The source is straight-line: `a, b, n = S3(buf, p)` for a run of fixed fields with the length byte that
follows, then the string of n bytes, and so on; arrays are loops with the element's fields inside.  A
length longer than the buffer shows in the end position, which `message.decode` checks; counts of arrays
are checked before the loop; struct.error and IndexError mean that the bytes ended.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from barnabas.errors import WireError
from barnabas.model import Uuid
from barnabas.wire.codec.primitives import read_uvarint
from barnabas.wire.codec.schema import (
    FEW,
    FIXED,
    Field,
    StructType,
    compile_source,
    minimum_size,
    packer,
)

__all__ = ["MOST_UNKNOWN_TAGS", "compile_reader"]

MAX_STRING = 0x7FFF
"""Longest string in bytes (the old length was an int16, and Kafka keeps the limit)."""


MOST_UNKNOWN_TAGS = 64
"""Tagged fields of one struct that nobody here knows: another release has a few, an attacker millions."""


def compile_reader(cls: StructType, version: int, *, counted: bool = False) -> Callable[..., tuple[Any, int]]:
    """A function (buffer, position, end) -> (message, position after it).

    `counted`: it takes a fourth argument, and refuses a message whose arrays have more elements than that,
    together, before it makes those that are too many.
    """
    source = _Reader(version, version >= cls.FLEXIBLE, counted=counted)
    source.struct("o", cls)
    source.flush()
    head = ["def read(b, p, e, most):", "    k = 0"] if counted else ["def read(b, p, e):"]
    lines = [*head, *source.lines, "    return o, p"]
    return compile_source(lines, "read", f"reader of {cls.NAME} v{version}", source.names)


def _long(buf: Any, position: int, first: int) -> tuple[int, int]:
    """The rest of a uvarint whose first byte was above 127."""
    return read_uvarint(buf, position - 1)


def _long_string(buf: Any, position: int, first: int) -> tuple[int, int]:
    """The same for the length (plus one) of a string."""
    value, position = read_uvarint(buf, position - 1)
    if value > MAX_STRING + 1:
        raise WireError(f"a string of {value - 1} bytes is too long")
    return value, position


def _null(field: str) -> None:
    raise WireError(f"{field} must not be null")


def _claims(field: str, count: int) -> None:
    raise WireError(f"{field} claims {count} elements, more than the message can hold")


def _too_many(field: str, count: int) -> None:
    raise WireError(f"{field} brings the elements of one message to {count}, which is too many")


def _unknown_tags(struct: str, count: int) -> None:
    raise WireError(
        f"{struct} has {count} tagged fields, of which at most {MOST_UNKNOWN_TAGS} may be unknown"
    )


def _negative(field: str, length: int) -> None:
    raise WireError(f"{field} has the length {length}")


def _overrun(field: str) -> None:
    raise WireError(f"{field} ends elsewhere than its length says")


class _Reader:
    """Source under construction.  `run` holds fixed fields not yet emitted: (letter, target)."""

    def __init__(self, version: int, flexible: bool, *, counted: bool) -> None:
        self.version = version
        self.counted = counted
        self.flexible = flexible
        self.lines: list[str] = []
        self.indent = 1
        self.run: list[tuple[str, str]] = []
        self.after_run: list[str] = []
        self.counter = 0
        self.names: dict[str, Any] = {
            "new": object.__new__,
            "Uuid": Uuid,
            "long": _long,
            "long_string": _long_string,
            "null": _null,
            "claims": _claims,
            "too_many": _too_many,
            "unknown_tags": _unknown_tags,
            "negative": _negative,
            "overrun": _overrun,
        }

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def fresh(self, letter: str) -> str:
        self.counter += 1
        return f"{letter}{self.counter}"

    def flush(self) -> None:
        """Emit the pending run as one unpack."""
        if self.run:
            letters = "".join(letter for letter, _ in self.run)
            targets = ", ".join(target for _, target in self.run)
            if letters == "B":
                self.line(f"{targets} = b[p]; p += 1")
            else:
                made = packer(letters)
                key = "S_" + letters.replace("?", "t")
                self.names[key] = made.unpack_from
                comma = "," if len(self.run) == 1 else ""
                self.line(f"{targets}{comma} = {key}(b, p); p += {made.size}")
            self.run = []
        for text in self.after_run:
            self.line(text)
        self.after_run = []

    def struct(self, var: str, cls: StructType) -> None:
        """Read a struct into the variable `var`."""
        self.names[f"C_{cls.__name__}"] = cls
        self.line(f"{var} = new(C_{cls.__name__})")
        tagged = []
        for field in cls.FIELDS:
            target = f"{var}.{field.name}"
            if not field.lives_in(self.version):
                self.line_later(f"{target} = {field.default_source(self.names)}")
            elif field.tag is not None:
                if not self.flexible:
                    raise TypeError(
                        f"{cls.__name__}.{field.name} is tagged in a version that is not flexible"
                    )
                self.line_later(f"{target} = {field.default_source(self.names)}")
                tagged.append(field)
            else:
                self.field(target, field, cls)
        if self.flexible:
            self.tags(var, cls, tagged)

    def line_later(self, text: str) -> None:
        """A statement that needs no order: after the pending run, to keep the run whole."""
        if self.run:
            self.after_run.append(text)
        else:
            self.line(text)

    def field(self, target: str, field: Field, cls: StructType) -> None:
        """Read one field into `target`."""
        title = f"{cls.__name__}.{field.name}"
        if field.array:
            self.array(target, field, title)
        elif field.struct is not None:
            self.nested(target, field)
        elif field.type in FIXED:
            self.fixed(target, field.type)
        else:
            self.sized(target, field, title)

    def fixed(self, target: str, type_: str) -> None:
        if type_ == "Uuid":
            var = self.fresh("u")
            self.run.append(("16s", var))
            self.after_run.append(f"{target} = Uuid({var})")
        else:
            self.run.append((FIXED[type_], target))

    def nested(self, target: str, field: Field) -> None:
        assert field.struct is not None
        var = self.fresh("o")
        if field.nullable_in(self.version):
            mark = self.fresh("m")
            self.run.append(("b", mark))
            self.flush()
            # Inside a tag the mark is a uvarint: 0 for null, 1 else.  Outside it is an int8: -1 or 1.
            null = "< 0" if field.tag is None else "<= 0"
            self.line(f"if {mark} {null}: {target} = None")
            self.line("else:")
            self.indent += 1
            self.struct(var, field.struct)
            self.flush()
            self.line(f"{target} = {var}")
            self.indent -= 1
        else:
            self.struct(var, field.struct)
            self.line_later(f"{target} = {var}")

    def length(self, title: str, nullable: bool, letter: str, long: str = "long") -> str:
        """Read a length; afterwards the variable holds it, -1 for null."""
        n = self.fresh("n")
        self.run.append(("B" if self.flexible else letter, n))
        self.flush()
        if self.flexible:
            self.line(f"if {n} > 127: {n}, p = {long}(b, p, {n})")
            self.line(f"{n} -= 1")
        if not nullable:
            self.line(f"if {n} < 0: null({title!r})")
        elif not self.flexible:
            self.line(f"if {n} < -1: negative({title!r}, {n})")
        return n

    def sized(self, target: str, field: Field, title: str) -> None:
        """A string, bytes or records."""
        nullable = field.nullable_in(self.version)
        if field.type == "String":
            n = self.length(title, nullable, "h", "long_string")
            take = "str(b[p:q], 'utf-8')"
        else:
            n = self.length(title, nullable, "i")
            take = "bytes(b[p:q])" if field.type == "Bytes" else "memoryview(b)[p:q]"
        if nullable:
            self.line(f"if {n} < 0: {target} = None")
            self.line("else:")
            self.indent += 1
        self.line(f"q = p + {n}; {target} = {take}; p = q")
        if nullable:
            self.indent -= 1

    def array(self, target: str, field: Field, title: str) -> None:
        nullable = field.nullable_in(self.version)
        n = self.length(title, nullable, "i")
        if nullable:
            self.line(f"if {n} < 0: {target} = None")
            self.line("else:")
            self.indent += 1
        if field.struct is not None:
            least = minimum_size(field.struct, self.version, self.flexible)
        else:
            least = packer(FIXED[field.type]).size if field.type in FIXED else (1 if self.flexible else 2)
        self.line(f"if {n} * {least} > e - p: claims({title!r}, {n})")
        if self.counted:
            self.line(f"k += {n}")
            self.line(f"if k > most: too_many({title!r}, k)")
        self.elements(target, field, n, least, title)
        if nullable:
            self.indent -= 1

    def elements(self, target: str, field: Field, n: str, size: int, title: str) -> None:
        """Read the `n` elements of an array."""
        if field.type == "Uuid":
            self.line(f"{target} = [Uuid(b[q:q + 16]) for q in range(p, p + 16 * {n}, 16)]; p += 16 * {n}")
        elif field.type in FIXED:
            letter = FIXED[field.type]
            key = f"F_{letter}"
            self.names[key] = [packer(letter * count).unpack_from for count in range(FEW)]
            self.names["unpack_from"] = struct.unpack_from
            many = f"unpack_from(f'>{{{n}}}{letter}', b, p)"
            self.line(f"{target} = list({key}[{n}](b, p) if {n} < {FEW} else {many}); p += {size} * {n}")
        else:
            array, add, item = self.fresh("a"), self.fresh("d"), self.fresh("o")
            self.line(f"{target} = {array} = []; {add} = {array}.append")
            self.line(f"for _ in range({n}):")
            self.indent += 1
            if field.struct is not None:
                self.struct(item, field.struct)
            else:
                self.element(item, field, title)
            self.flush()
            self.line(f"{add}({item})")
            self.indent -= 1

    def element(self, item: str, field: Field, title: str) -> None:
        """A string or bytes in an array, never null."""
        if field.type == "String":
            n = self.length(title, False, "h", "long_string")
            self.line(f"q = p + {n}; {item} = str(b[p:q], 'utf-8'); p = q")
        else:
            n = self.length(title, False, "i")
            self.line(f"q = p + {n}; {item} = bytes(b[p:q]); p = q")

    def tags(self, var: str, cls: StructType, fields: list[Field]) -> None:
        """Read the tagged fields that end a flexible struct; unknown ones are skipped or kept."""
        keep = cls.KEEPS_UNKNOWN_TAGS
        t = self.fresh("t")
        self.run.append(("B", t))
        if keep:
            self.after_run.append(f"{var}.unknown_tags = ()")
        self.flush()
        self.line(f"if {t}:")
        self.indent += 1
        g, z, w = self.fresh("g"), self.fresh("z"), self.fresh("w")
        self.line(f"if {t} > 127: {t}, p = long(b, p, {t})")
        self.line(f"if {t} > {len(fields) + MOST_UNKNOWN_TAGS}: unknown_tags({cls.__name__!r}, {t})")
        self.line(f"for _ in range({t}):")
        self.indent += 1
        self.line(f"{g} = b[p]; p += 1")
        self.line(f"if {g} > 127: {g}, p = long(b, p, {g})")
        self.line(f"{z} = b[p]; p += 1")
        self.line(f"if {z} > 127: {z}, p = long(b, p, {z})")
        self.line(f"{w} = p + {z}")
        for field in fields:
            self.line(f"if {g} == {field.tag}:")
            self.indent += 1
            self.field(f"{var}.{field.name}", field, cls)
            self.flush()
            self.line(f"if p != {w}: overrun({(cls.__name__ + '.' + field.name)!r})")
            self.line("continue")
            self.indent -= 1
        if keep:
            self.line(f"{var}.unknown_tags += (({g}, bytes(b[p:{w}])),)")
        self.line(f"p = {w}")
        self.indent -= 2
