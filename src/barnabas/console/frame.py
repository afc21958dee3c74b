"""What is around each page: the head, the way to the others, tables, and what to say where the cluster refuses."""

from __future__ import annotations

import time
import urllib.parse
from collections.abc import Iterable, Sequence

from barnabas.console.markup import Markup, tag
from barnabas.errors import BarnabasError, ErrorCode, KafkaError

__all__ = ["MOST_ROWS", "STYLE", "count", "href", "lines", "page", "table", "trouble", "when"]

MOST_ROWS = 500
"""Of one table; a link leads to the others."""
_NAVIGATION = (
    ("/cluster", "cluster"),
    ("/brokers", "brokers"),
    ("/topics", "topics"),
    ("/groups", "groups"),
)

STYLE = """
:root { color-scheme: light dark; --line: #8884; --quiet: #767676; --bad: #c22; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 76rem; padding: 0 1rem 3rem; }
header { display: flex; gap: 1.2rem; align-items: baseline; border-bottom: 1px solid var(--line);
padding: .8rem 0; }
header b { font-size: 1.1rem; } header span { margin-left: auto; color: var(--quiet); }
header form { margin: 0; } a { color: inherit; } a[aria-current] { font-weight: 600; text-decoration: none; }
h1 { font-size: 1.3rem; margin: 1.4rem 0 .6rem; } h2 { font-size: 1.05rem; margin: 1.6rem 0 .4rem; }
table { border-collapse: collapse; min-width: 50%; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; color: var(--quiet); }
th, td { padding: .25rem 1.6rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number, th.number { text-align: right; } td.time { white-space: nowrap; }
td.text { font-family: ui-monospace, monospace; font-size: 13px; overflow-wrap: anywhere; white-space: pre-wrap;
min-width: 8em; } .quiet { color: var(--quiet); } .bad { color: var(--bad); }
form.login { max-width: 20rem; display: grid; gap: .7rem; margin-top: 2rem; } form.login input { width: 100%;
box-sizing: border-box; padding: .4rem; font: inherit; } button { font: inherit; padding: .3rem .9rem; }
nav.steps { display: flex; gap: 1.2rem; margin: .8rem 0; }
"""


def page(title: str, *content: object, user: str | None = None, here: str = "") -> Markup:
    """A whole page.  `user` None: nobody is logged in; "": the cluster has no login."""
    parts: list[object] = [tag("b", "Barnabas")]
    if user is not None:
        parts += [
            tag("a", name, href=path, aria_current="page" if path == here else None)
            for path, name in _NAVIGATION
        ]
        leave = tag("form", tag("button", "log out"), method="post", action="/logout")
        parts += [tag("span", user or "no login"), leave]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width"),
        tag("title", f"{title} - Barnabas"),
        tag("link", rel="stylesheet", href="/style.css"),
    )
    body = tag("body", tag("header", *parts), tag("main", tag("h1", title), *content))
    return Markup("<!doctype html>" + tag("html", head, body, lang="en"))


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup:
    """A table.  Numbers stand to the right; a column whose name ends with a dot is text as it is."""
    found = list(rows)
    if not found:
        return tag("p", "none", class_="quiet")
    kinds = []
    for index, name in enumerate(columns):
        cells = [row[index] for row in found]
        is_number = all(isinstance(cell, int) or cell is None for cell in cells)
        is_time = name.startswith(("time", "caught up"))
        kinds.append("number" if is_number else "text" if name.endswith(".") else "time" if is_time else None)
    head = [
        tag("th", name.rstrip("."), class_=kind if kind == "number" else None)
        for name, kind in zip(columns, kinds, strict=True)
    ]
    body = [
        tag("tr", [tag("td", _cell(cell), class_=kind) for cell, kind in zip(row, kinds, strict=True)])
        for row in found
    ]
    return tag("table", tag("thead", tag("tr", head)), tag("tbody", body))


def _cell(value: object) -> object:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value


def lines(text: str) -> list[object]:
    """A text of several lines, as it stands."""
    found: list[object] = []
    for line in text.split("\n"):
        found += [tag("br"), line] if found else [line]
    return found


def count(number: int, what: str) -> str:
    """`count(1, "broker")` -> "1 broker"."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def href(path: str, **fields: object) -> str:
    """`href("/topic", name="a b")` -> "/topic?name=a%20b"."""
    query = urllib.parse.urlencode(
        {name: value for name, value in fields.items() if value is not None}, quote_via=urllib.parse.quote
    )
    return f"{path}?{query}" if query else path


def trouble(error: BarnabasError) -> Markup:
    """What the cluster did not do, in its words, and what helps."""
    hint = error.next_step
    if isinstance(error, KafkaError) and error.code.name.endswith("_AUTHORIZATION_FAILED"):
        hint = "`barnabas acls why` shows an administrator which right is missing, and what gives it"
    if isinstance(error, KafkaError) and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        hint = "it may be that you may not see it"
    return tag("p", str(error), tag("br"), tag("span", hint, class_="quiet") if hint else None, class_="bad")


def when(ms: int) -> str:
    """A time in ms since 1970, whatever number that is."""
    if ms < 0:
        return "-"
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(ms // 1000)) + f".{ms % 1000:03d}Z"
    except (OverflowError, ValueError, OSError):
        return str(ms)
