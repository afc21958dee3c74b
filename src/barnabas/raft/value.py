"""Values: small classes made of their fields, compared, printed and hashed by them.

The type checker takes them for frozen dataclasses and refuses to change them.  At run time they are plain
slotted classes, because making fifty frozen dataclasses costs a node 40 ms of its start, and these 3.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

__all__ = ["altered", "value"]

Made = TypeVar("Made")
_MISSING = object()


@dataclass_transform(eq_default=True, frozen_default=True)
def value(cls: type[Made]) -> type[Made]:
    """Make a value class of the annotated fields; a class attribute is a field's default."""
    names = tuple(name for name, kind in cls.__annotations__.items() if "ClassVar" not in kind)
    space = {key: what for key, what in vars(cls).items() if key not in ("__dict__", "__weakref__")}
    defaults = {name: space.pop(name) for name in names if name in space}
    space["__slots__"] = names
    space["__match_args__"] = names
    space["__init__"] = _init(names, defaults)
    space["_fields"] = _reader(names)
    for name, method in _METHODS.items():
        space.setdefault(name, method)
    made: Any = type(cls.__name__, cls.__bases__, space)
    return made  # type: ignore[no-any-return]


def altered(original: Made, **fields: Any) -> Made:
    """The same value with some fields changed."""
    cls: Any = type(original)
    return cls(**{name: fields.get(name, getattr(original, name)) for name in cls.__slots__})  # type: ignore[no-any-return]


def _init(names: tuple[str, ...], defaults: dict[str, Any]) -> Callable[..., None]:
    parameters = "".join(
        f", {name}=_defaults[{name!r}]" if name in defaults else f", {name}" for name in names
    )
    body = "".join(f"\n    self.{name} = {name}" for name in names) or "\n    pass"
    space: dict[str, Any] = {"_defaults": defaults}
    exec(f"def __init__(self{parameters}):{body}", space)
    made: Callable[..., None] = space["__init__"]
    return made


def _reader(names: tuple[str, ...]) -> Callable[[Any], Any]:
    if not names:
        return staticmethod(lambda of: ())
    return staticmethod(attrgetter(*names))


def _equal(self: Any, other: Any) -> bool:
    return type(other) is type(self) and bool(self._fields(self) == self._fields(other))


def _hash(self: Any) -> int:
    return hash((type(self).__name__, self._fields(self)))


def _repr(self: Any) -> str:
    fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
    return f"{type(self).__name__}({fields})"


_METHODS: dict[str, Any] = {"__eq__": _equal, "__hash__": _hash, "__repr__": _repr}
