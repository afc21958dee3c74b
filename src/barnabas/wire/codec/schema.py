"""What a declaration means: the fields of a struct, worked out at its first use.

`reader` and `writer` generate their source from these `Field` values, `compile_init` the constructor.
"""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Callable
from typing import Any, dataclass_transform

from barnabas.errors import WireError
from barnabas.model import ZERO_UUID
from barnabas.wire.codec.declaration import BLANK, NEVER_FLEXIBLE, NEWEST, Part, Since, since

__all__ = ["FEW", "FIXED", "Field", "StructType", "compile_init", "compile_source", "minimum_size", "packer"]

FIXED = {
    "Int8": "b",
    "Int16": "h",
    "Int32": "i",
    "Int64": "q",
    "UInt16": "H",
    "UInt32": "I",
    "Float64": "d",
    "Bool": "?",
    "Uuid": "16s",
}
"""Types of fixed size, with their letter in `struct`."""
FEW = 9
"""Arrays of fixed-size elements below this length (replicas, mostly) have their `Struct` ready."""
_SIZED = frozenset({"String", "Bytes", "Records"})
_ANNOTATION = re.compile(r"(?:Array\[(?P<item>\w+)\]|(?P<one>\w+))(?P<nullable> \| None)?")


class Field:
    """One field: its name, `type` (a name in FIXED, String, Bytes, Records, or Struct) and where it lives."""

    __slots__ = (
        "array",
        "default",
        "first",
        "ignorable",
        "last",
        "name",
        "nullable",
        "struct",
        "tag",
        "type",
    )

    def __init__(self, owner: StructType, name: str, annotation: str, declared: Any) -> None:
        found = _ANNOTATION.fullmatch(annotation)
        if found is None:
            raise TypeError(f"{owner.__name__}.{name} is declared as {annotation!r}")
        about = declared if isinstance(declared, Since) else Since(0, NEWEST, declared, None, None, False)
        self.name = name
        self.array = found["item"] is not None
        self.type: str = found["item"] or found["one"]
        self.struct: StructType | None = None
        if self.type not in FIXED and self.type not in _SIZED:
            self.struct = sys.modules[owner.__module__].__dict__[self.type]
            self.type = "Struct"
        self.first, self.last, self.tag = about.first, about.last, about.tag
        self.default, self.ignorable = about.default, about.ignorable
        self.nullable = _nullable_range(found["nullable"] is not None, about.nullable)

    def __repr__(self) -> str:
        of = self.struct.__name__ if self.struct else self.type
        return f"<Field {self.name} {'array of ' * self.array}{of} v{self.first}-{self.last}>"

    def lives_in(self, version: int) -> bool:
        """Whether this version carries the field."""
        return self.first <= version <= self.last

    def nullable_in(self, version: int) -> bool:
        """Whether the field may be None in this version."""
        return self.nullable[0] <= version <= self.nullable[1]

    def is_default(self, value: Any) -> bool:
        """Whether a value equals the default."""
        return bool(value == (self.default_struct() if self.default is BLANK else self.default))

    def default_struct(self) -> Any:
        """The one shared instance that stands for a struct with all its defaults."""
        assert self.struct is not None
        try:
            return self.struct.__dict__["_BLANK"]
        except KeyError:
            blank = self.struct()
            type.__setattr__(self.struct, "_BLANK", blank)
            return blank

    def default_source(self, names: dict[str, Any]) -> str:
        """An expression for a default value; what it refers to is put into `names`."""
        if self.default is BLANK:
            key = f"BLANK_{self.type}_{self.struct.__name__}"  # type: ignore[union-attr]
            names[key] = self.default_struct()
            return key
        if self.default == ZERO_UUID and isinstance(self.default, bytes):
            names["ZERO_UUID"] = ZERO_UUID
            return "ZERO_UUID"
        return repr(self.default)

    def set_source(self, value: str, names: dict[str, Any], nullable: bool) -> str:
        """A condition that is true when `value` (an expression) is not the default."""
        if self.default is None:
            return f"{value} is not None"
        if self.default is True:
            return f"not {value}"
        if self.default is False:
            return value
        if self.array or self.type in ("Bytes", "Records"):
            return f"({value} is None or len({value}) > 0)" if nullable else f"len({value}) > 0"
        default = self.default_source(names)
        if self.default is BLANK:
            return f"({value} is not {default} and {value} != {default})"
        return f"{value} != {default}"


def _nullable_range(marked: bool, versions: int | tuple[int, int] | None) -> tuple[int, int]:
    if not marked:
        return (1, 0)
    if versions is None:
        return (0, NEWEST)
    return (versions, NEWEST) if isinstance(versions, int) else versions


def _range(text: str) -> tuple[int, int]:
    """`"3"`, `"0-4"` or `"9+"` as (first, last)."""
    if text.endswith("+"):
        return int(text[:-1]), NEWEST
    first, _, last = text.partition("-")
    return int(first), int(last or first)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(since,))
class StructType(type):
    """Makes a slotted class of a declaration and keeps the declaration for `schema`."""

    DECLARED: dict[str, Any]
    FIELDS: tuple[Field, ...]
    NAME: str
    FLEXIBLE: int
    KEEPS_UNKNOWN_TAGS: bool
    _readers: dict[int, Callable[..., tuple[Any, int]]]
    _writers: dict[int, Callable[[Any, list[Part]], None]]

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        key: int | None = None,
        versions: str = "0",
        flexible: str | None = None,
        called: str | None = None,
    ) -> StructType:
        annotations: dict[str, str] = namespace.get("__annotations__", {})
        if not bases or "__slots__" in namespace:
            return super().__new__(mcs, name, bases, namespace)
        namespace["DECLARED"] = {field: namespace.pop(field) for field in annotations}
        namespace["__slots__"] = tuple(annotations)
        namespace["KEY"] = key
        namespace["VERSIONS"] = _range(versions)
        namespace["FLEXIBLE"] = NEVER_FLEXIBLE if flexible is None else _range(flexible)[0]
        namespace["NAME"] = called or name
        namespace["_readers"] = {}
        namespace["_writers"] = {}
        return super().__new__(mcs, name, bases, namespace)

    def __getattr__(cls, name: str) -> Any:
        # Only reached for what was not worked out yet.
        if name == "FIELDS" and "DECLARED" in cls.__dict__:
            cls.FIELDS = fields_of(cls)
            return cls.FIELDS
        raise AttributeError(name)


def fields_of(cls: StructType) -> tuple[Field, ...]:
    """The fields of a struct, in the order of the wire."""
    return tuple(
        Field(cls, name, annotation, cls.DECLARED[name]) for name, annotation in cls.__annotations__.items()
    )


def minimum_size(cls: StructType, version: int, flexible: bool) -> int:
    """The fewest bytes one such struct takes (at least 1): bounds what an array may claim."""
    size = 1 if flexible else 0
    for field in cls.FIELDS:
        if field.tag is None and field.lives_in(version):
            size += field_minimum(field, version, flexible)
    return max(size, 1)


def field_minimum(field: Field, version: int, flexible: bool) -> int:
    """The fewest bytes of a field that is not tagged."""
    if field.array or field.type in ("Bytes", "Records"):
        return 1 if flexible else 4
    if field.type == "String":
        return 1 if flexible else 2
    if field.struct is not None:
        return 1 if field.nullable_in(version) else minimum_size(field.struct, version, flexible)
    return struct.calcsize(FIXED[field.type])


_STRUCTS: dict[str, struct.Struct] = {}


def packer(letters: str) -> struct.Struct:
    """The one `Struct` for these letters (big-endian, unpadded)."""
    try:
        return _STRUCTS[letters]
    except KeyError:
        made = _STRUCTS[letters] = struct.Struct(">" + letters)
        return made


def compile_source(lines: list[str], name: str, title: str, names: dict[str, Any]) -> Callable[..., Any]:
    """Compile generated lines, which define function `name` and refer to `names`."""
    exec(compile("\n".join(lines), f"<{title}>", "exec"), names)
    made: Callable[..., Any] = names[name]
    return made


def compile_init(cls: StructType) -> Callable[..., None]:
    """The constructor of a struct: one keyword argument per field, a fresh list per array."""
    names: dict[str, Any] = {"NEW": BLANK}
    arguments, body = [], []
    for field in cls.FIELDS:
        if isinstance(field.default, list):
            arguments.append(f"{field.name}=NEW")
            body.append(f"    self.{field.name} = [] if {field.name} is NEW else {field.name}")
        else:
            arguments.append(f"{field.name}={field.default_source(names)}")
            body.append(f"    self.{field.name} = {field.name}")
    if cls.KEEPS_UNKNOWN_TAGS:
        body.append("    self.unknown_tags = ()")
    head = f"def __init__(self, *, {', '.join(arguments)}):" if arguments else "def __init__(self):"
    return compile_source([head, *(body or ["    pass"])], "__init__", f"constructor of {cls.NAME}", names)


def refuse(message: str) -> None:
    """Raise WireError from inside an expression of generated code."""
    raise WireError(message)
