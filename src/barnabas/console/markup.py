"""HTML, made of elements and texts: a text is a text, whatever is in it.

    page = tag("p", "3 < 4 & ", tag("b", name))

Nothing else of the console writes a "<".
"""

from __future__ import annotations

import unicodedata
from html import escape

__all__ = ["Markup", "tag", "visible"]

_ALONE = frozenset(("input", "link", "meta", "br"))
"""Elements without an end."""


class Markup(str):
    """HTML that `tag` has made."""

    __slots__ = ()


def tag(element: str, *children: object, **attributes: str | int | None) -> Markup:
    """`tag("a", "topics", href="/topics")`; `class_` is `class`.  None as a child or an attribute is left out."""
    head = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_text(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    if element in _ALONE:
        return Markup(f"<{element}{head}>")
    inner = "".join(
        one if isinstance(one, Markup) else _text(one) for one in _flat(children) if one is not None
    )
    return Markup(f"<{element}{head}>{inner}</{element}>")


def visible(text: str) -> str:
    """The text with what cannot be seen spelled out: control characters, and those that turn a line around."""
    return "".join(one if one == " " or not _is_hidden(one) else _spelled(one) for one in text)


def _text(value: object) -> str:
    return escape(visible(str(value)), quote=True)


def _is_hidden(one: str) -> bool:
    return unicodedata.category(one)[0] in "CZ"


def _spelled(one: str) -> str:
    return one.encode("unicode_escape").decode()


def _flat(children: tuple[object, ...]) -> list[object]:
    """Children, and those in lists of them."""
    found: list[object] = []
    for one in children:
        if isinstance(one, list | tuple):
            found += _flat(tuple(one))
        else:
            found.append(one)
    return found
