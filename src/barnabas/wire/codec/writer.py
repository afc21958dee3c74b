"""Generates the function that writes one message in one version.

Pieces are appended to a list: a run of fixed fields, with the length byte that follows, is one pack;
strings and record batches are pieces of their own and are never copied here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from barnabas.errors import WireError
from barnabas.wire.codec.declaration import Encoded
from barnabas.wire.codec.primitives import uvarint
from barnabas.wire.codec.reader import MAX_STRING
from barnabas.wire.codec.schema import FEW, FIXED, Field, StructType, compile_source, packer

__all__ = ["compile_writer"]


def compile_writer(
    cls: StructType, version: int, *, of: StructType | None = None
) -> Callable[[Any, list[Any]], None]:
    """A function (message, parts) that appends the message's bytes to parts, few and joined.

    `of`: the message that `cls` is a struct of.
    """
    source = _Writer(cls.NAME, version, version >= (of or cls).FLEXIBLE)
    source.struct("o", cls)
    source.flush()
    lines = ["def write(o, parts):", "    out = []; w = out.append", *source.lines]
    lines.append("    parts.append(b''.join(out))")
    return compile_source(lines, "write", f"writer of {cls.NAME} v{version}", source.names)


def _unknown(field: str, message: str, version: int) -> None:
    raise WireError(f"{message} v{version} cannot carry {field}")


def _null(field: str) -> None:
    raise WireError(f"{field} must not be null")


def _string_length(length: int) -> bytes:
    """The length (plus one) of a string above 126 bytes."""
    if length > MAX_STRING + 1:
        raise WireError(f"a string of {length - 1} bytes is too long")
    return uvarint(length)


class _Writer:
    """Source under construction.  `run` holds fixed fields not yet emitted: (letter, expression)."""

    def __init__(self, title: str, version: int, flexible: bool) -> None:
        self.title = title
        self.version = version
        self.flexible = flexible
        self.lines: list[str] = []
        self.indent = 1
        self.out = "w"
        self.run: list[tuple[str, str]] = []
        self.counter = 0
        self.names: dict[str, Any] = {
            "uvarint": uvarint,
            "string_length": _string_length,
            "Encoded": Encoded,
            "pack": struct.pack,
            "unknown": _unknown,
            "null": _null,
        }

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def fresh(self, letter: str) -> str:
        self.counter += 1
        return f"{letter}{self.counter}"

    def packed(self, run: list[tuple[str, str]]) -> str:
        """The expression that packs a run."""
        letters = "".join(letter for letter, _ in run)
        key = "S_" + letters.replace("?", "t")
        self.names[key] = packer(letters).pack
        return f"{key}({', '.join(value for _, value in run if value)})"

    def flush(self) -> None:
        if self.run:
            if all(not value for _, value in self.run):
                self.line(f"{self.out}({bytes(len(self.run))!r})")
            else:
                self.line(f"{self.out}({self.packed(self.run)})")
            self.run = []

    def struct(self, var: str, cls: StructType) -> None:
        """Write the struct in variable `var`."""
        tagged = []
        for field in cls.FIELDS:
            value = f"{var}.{field.name}"
            if not field.lives_in(self.version):
                if not field.ignorable:
                    isset = field.set_source(value, self.names, field.nullable[0] <= field.nullable[1])
                    self.line(
                        f"if {isset}: unknown('{cls.__name__}.{field.name}', {self.title!r}, {self.version})"
                    )
            elif field.tag is not None:
                tagged.append(field)
            else:
                self.field(value, field)
        if self.flexible:
            self.tags(var, cls, sorted(tagged, key=lambda field: field.tag or 0))

    def field(self, value: str, field: Field) -> None:
        nullable = field.nullable_in(self.version)
        if field.array:
            self.array(value, field, nullable)
        elif field.struct is not None:
            self.nested(value, field, nullable)
        elif field.type in FIXED:
            self.run.append((FIXED[field.type], value))
        else:
            self.sized(value, field.type, nullable)

    def nested(self, value: str, field: Field, nullable: bool) -> None:
        assert field.struct is not None
        var = self.fresh("o")
        self.line(f"{var} = {value}")
        if not nullable:
            self.struct(var, field.struct)
            return
        self.flush()
        # Inside a tag the mark is a uvarint: 0 for null, 1 else.  Outside it is an int8: -1 or 1.
        null = b"\xff" if field.tag is None else b"\0"
        self.line(f"if {var} is None: {self.out}({null!r})")
        self.line("else:")
        self.indent += 1
        self.run.append(("b", "1"))
        self.struct(var, field.struct)
        self.flush()
        self.indent -= 1

    def length(self, n: str, letter: str, long: str = "uvarint") -> None:
        """Write the pending run and a length: `n` holds it plus one if flexible, itself if not."""
        if not self.flexible:
            self.run.append((letter, n))
            self.flush()
            return
        short = self.packed([*self.run, ("B", n)])
        self.line(f"if {n} < 128: {self.out}({short})")
        if self.run:
            self.line(f"else: {self.out}({self.packed(self.run)}); {self.out}({long}({n}))")
        else:
            self.line(f"else: {self.out}({long}({n}))")
        self.run = []

    def sized(self, value: str, type_: str, nullable: bool) -> None:
        """A string, bytes or records."""
        s, n = self.fresh("s"), self.fresh("n")
        letter, long = ("h", "string_length") if type_ == "String" else ("i", "uvarint")
        coded = ".encode()" if type_ == "String" else ""
        plus = " + 1" if self.flexible else ""
        if nullable:
            self.line(f"{s} = {value}")
            self.line(f"if {s} is None: {n} = {0 if self.flexible else -1}; {s} = b''")
            if coded:
                self.line(f"else: {s} = {s}{coded}; {n} = len({s}){plus}")
            else:
                self.line(f"else: {n} = len({s}){plus}")
        else:
            self.line(f"{s} = {value}{coded}; {n} = len({s}){plus}")
        self.length(n, letter, long)
        if type_ == "Records":
            self.line(f"parts.append(b''.join(out)); out.clear(); parts.append({s})")
        else:
            self.line(f"{self.out}({s})")

    def array(self, value: str, field: Field, nullable: bool) -> None:
        a, n = self.fresh("a"), self.fresh("n")
        plus = " + 1" if self.flexible else ""
        self.line(f"{a} = {value}")
        if nullable:
            self.line(f"if {a} is None: {n} = {0 if self.flexible else -1}; {a} = ()")
            self.line(f"else: {n} = len({a}){plus}")
        else:
            self.line(f"{n} = len({a}){plus}")
        self.length(n, "i")
        if field.type == "Uuid":
            self.line(f"{self.out}(b''.join({a}))")
        elif field.type in FIXED:
            letter = FIXED[field.type]
            key = f"F_{letter}"
            self.names[key] = [packer(letter * count).pack for count in range(FEW)]
            few = FEW + 1 if self.flexible else FEW
            back = " - 1" if self.flexible else ""
            self.line(f"if 0 < {n} < {few}: {self.out}({key}[{n}{back}](*{a}))")
            self.line(f"elif {a}: {self.out}(pack(f'>{{len({a})}}{letter}', *{a}))")
        else:
            item = self.fresh("o")
            if field.struct is not None:
                self.line(f"if type({a}) is Encoded: {self.out}({a}.data); {a} = ()")
            self.line(f"for {item} in {a}:")
            self.indent += 1
            before = len(self.lines)
            if field.struct is not None:
                self.struct(item, field.struct)
            else:
                self.sized(item, field.type, False)
            self.flush()
            if len(self.lines) == before:
                self.line("pass")
            self.indent -= 1

    def tags(self, var: str, cls: StructType, fields: list[Field]) -> None:
        """Write the tagged fields that differ from their defaults, lowest tag first."""
        keep = cls.KEEPS_UNKNOWN_TAGS
        if not fields and not keep:
            self.run.append(("x", ""))
            return
        t = self.fresh("t")
        count = [f"({self.tag_condition(var, field)})" for field in fields]
        if keep:
            count.append(f"len({var}.unknown_tags)")
        self.line(f"{t} = {' + '.join(count)}")
        self.length(t, "B")
        self.line(f"if {t}:")
        self.indent += 1
        target = self.out
        if keep:
            self.line(f"if {var}.unknown_tags: tagged = list({var}.unknown_tags)")
            self.line("else: tagged = []")
        for field in fields:
            self.line(f"if {self.tag_condition(var, field)}:")
            self.indent += 1
            self.tagged_field(f"{var}.{field.name}", field, target, keep)
            self.indent -= 1
        if keep:
            self.names["write_tags"] = _write_tags
            self.line(f"write_tags({target}, tagged)")
        self.indent -= 1

    def tag_condition(self, var: str, field: Field) -> str:
        return field.set_source(f"{var}.{field.name}", self.names, field.nullable_in(self.version))

    def tagged_field(self, value: str, field: Field, target: str, keep: bool) -> None:
        """One tagged field, written into a list of its own because its size comes first."""
        pieces, blob = self.fresh("l"), self.fresh("z")
        self.out = self.fresh("w")
        self.line(f"{pieces} = []; {self.out} = {pieces}.append")
        self.field(value, field)
        self.flush()
        self.out = target
        self.line(f"{blob} = b''.join({pieces})")
        if keep:
            self.line(f"tagged.append(({field.tag}, {blob}))")
        else:
            self.line(
                f"{target}({uvarint(field.tag or 0)!r}); {target}(uvarint(len({blob}))); {target}({blob})"
            )


def _write_tags(write: Callable[[bytes], None], tagged: list[tuple[int, bytes]]) -> None:
    """Write tagged fields, known and unknown, lowest tag first."""
    for tag, blob in sorted(tagged):
        write(uvarint(tag))
        write(uvarint(len(blob)))
        write(blob)
