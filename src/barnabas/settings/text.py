"""Settings as text: values from strings and back, Java's .properties files, the page of all settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import NoReturn

from barnabas.errors import ConfigError
from barnabas.settings import (
    GROUP_SETTINGS,
    MAX_INT,
    MAX_LONG,
    METRICS_SETTINGS,
    REQUIRED,
    SETTINGS,
    TOPIC_SETTINGS,
    Setting,
    Value,
)

__all__ = [
    "advice",
    "config_table_markdown",
    "format_value",
    "limits_by_host",
    "parse_properties",
    "parse_value",
    "refuse_unknown",
]

_BOUNDS = {"short": (-(2**15), 2**15 - 1), "int": (-(2**31), MAX_INT), "long": (-(2**63), MAX_LONG)}
_NEAR = 0.8
"""How alike a mistyped word is to what was meant; below this a guess is wrong advice more often than right."""
_WORDS = {"short": "a whole number", "int": "a whole number", "long": "a whole number", "double": "a number"}


def parse_value(row: Setting, text: str) -> Value:
    """The value that `text` stands for.  Raises ConfigError with what would be right."""
    text = text.strip()
    if row.kind == "password":
        return text
    if row.kind == "string":
        return _chosen(row, text) if row.choices else text
    if row.kind == "boolean":
        if text.lower() not in ("true", "false"):
            raise ConfigError(f"{row.name}={text!r}: must be true or false", next_step="give true or false")
        return text.lower() == "true"
    if row.kind == "list":
        return _parse_list(row, text)
    try:
        number: int | float = float(text) if row.kind == "double" else int(text)
    except ValueError:
        raise ConfigError(
            f"{row.name}={text!r}: must be {_WORDS[row.kind]}", next_step=f"give {_taken(row)}"
        ) from None
    low, high = _bounds(row)
    if not low <= number <= high:
        nearest = high if number > high else low
        raise ConfigError(
            f"{row.name}={text} is out of range: {low} to {high}",
            next_step=f"the nearest value allowed is {nearest}",
        )
    return number


def _bounds(row: Setting) -> tuple[float, float]:
    lowest, highest = _BOUNDS.get(row.kind, (-inf, inf))
    return lowest if row.low is None else row.low, highest if row.high is None else row.high


def _taken(row: Setting) -> str:
    """Return the values that a setting may have, in words."""
    if row.kind == "list":
        return (
            f"some of {', '.join(row.choices)}, with commas" if row.choices else "words with commas between"
        )
    if row.choices:
        return f"one of {', '.join(row.choices)}"
    return f"{_WORDS[row.kind]} from {_bounds(row)[0]} to {_bounds(row)[1]}"


def advice(change: Mapping[str, str], known: Mapping[str, Setting]) -> str | None:
    """`advice({"retention.m": "1"}, TOPIC_SETTINGS)` -> "did you mean retention.ms?", None where all fit."""
    for name, text in change.items():
        if name not in known:
            if nearest := _nearest(name, known):
                return f"did you mean {nearest}?"
            continue
        try:
            parse_value(known[name], text)
        except ConfigError as error:
            return f"{name}: {error.next_step}"
    return None


def _parse_list(row: Setting, text: str) -> tuple[str, ...]:
    parts = [part.strip() for part in text.split(",")]
    items = tuple(part for part in parts if part)
    if row.may_repeat:
        if items != tuple(parts) and parts != [""]:
            raise ConfigError(
                f"{row.name}={text!r} has an empty element: there is a comma too many",
                next_step=f"give {_taken(row)}",
            )
        items = tuple(dict.fromkeys(items)) if row.choices else items
    elif row.choices and not items:
        raise ConfigError(
            f"{row.name} is empty: must be some of {', '.join(row.choices)}", next_step=f"give {_taken(row)}"
        )
    elif len(set(items)) != len(items):
        raise ConfigError(f"{row.name}={text!r} names something twice", next_step="name each once")
    return tuple(_chosen(row, item) for item in items) if row.choices else items


def _chosen(row: Setting, text: str) -> str:
    for choice in row.choices:
        if text == choice or (row.any_case and text.lower() == choice.lower()):
            return choice
    hint = _nearest(text, row.choices)
    raise ConfigError(
        f"{row.name}={text!r}: must be one of {', '.join(row.choices)}",
        next_step=f"did you mean {hint}?" if hint else f"give {_taken(row)}",
    )


def _nearest(name: str, known: Mapping[str, object] | tuple[str, ...]) -> str | None:
    from difflib import get_close_matches  # only when somebody mistyped

    lowered = {candidate.lower(): candidate for candidate in known}
    found = get_close_matches(name.lower().replace("_", ".").replace("-", "."), lowered, n=1, cutoff=_NEAR)
    return lowered[found[0]] if found else None


def limits_by_host(items: Iterable[str]) -> dict[str, int]:
    """`limits_by_host(["10.0.0.7:200"])` -> {"10.0.0.7": 200}.  Raises ConfigError."""
    from ipaddress import ip_address  # rarely needed

    found = {}
    for item in items:
        host, _, number = item.rpartition(":")
        try:
            found[str(ip_address(host.removeprefix("[").removesuffix("]")))] = int(number)
        except ValueError:
            raise ConfigError(
                f"max.connections.per.ip.overrides: {item!r} is no address with a number",
                next_step="write ADDRESS:NUMBER, for example 10.0.0.7:200",
            ) from None
    return found


def refuse_unknown(name: str, known: Mapping[str, object], what: str) -> NoReturn:
    """Raise ConfigError for a name nobody knows, naming the nearest of those that are known."""
    nearest = _nearest(name, known)
    raise ConfigError(
        f"unknown {what}: {name}" + (f" (nearest: {nearest})" if nearest else ""),
        next_step=f"did you mean {nearest}?"
        if nearest
        else f"remove {name} (no plug-in is loaded); docs/configuration.md lists every setting",
    )


_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Read Java's .properties syntax: comments, continued lines, escapes; the last of equal names wins."""
    properties: dict[str, str] = {}
    lines = iter(text.splitlines())
    for raw in lines:
        line = raw.lstrip(" \t\f")
        if not line or line[0] in "#!":
            continue
        while (len(line) - len(line.rstrip("\\"))) % 2:  # an odd number of them continues the line
            line = line[:-1] + next(lines, "").lstrip(" \t\f")
        end = 0
        while end < len(line) and line[end] not in "=: \t\f":
            end += 2 if line[end] == "\\" else 1
        rest = line[end:].lstrip(" \t\f")
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(" \t\f")
        properties[_unescape(line[:end])] = _unescape(rest)
    return properties


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    i = 0
    while i < len(text):
        letter = text[i]
        i += 1
        if letter != "\\" or i == len(text):
            parts.append(letter)
            continue
        letter = text[i]
        i += 1
        if letter == "u":
            try:
                parts.append(chr(int(text[i : i + 4], 16)))
            except ValueError:
                raise ConfigError(f"malformed \\u escape in {text!r}") from None
            i += 4
        else:
            parts.append(_ESCAPES.get(letter, letter))
    return "".join(parts)


def format_value(value: Value) -> str | None:
    """The text that Kafka shows for a value: true and false in small letters, lists with commas."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return repr(value).replace("e+", "E")
    return str(value)


def config_table_markdown() -> str:
    """The page docs/configuration.md, made from the table."""
    lines = [
        "# Settings",
        "",
        "`barnabas.config.config_table_markdown()` writes this page from `barnabas.settings`; a test checks",
        "that it is up to date. Names, types and bounds are Apache Kafka's (4.4.0); `barnabas.*` are ours.",
        "The node accepts a setting that Kafka knows and this page does not list, with the warning",
        '"known to Kafka, not used by this release". If ignoring the setting would not be safe (an',
        "authorizer, TLS, SASL), the node refuses to start. An unknown name, a malformed value or one out of",
        "range is an error that names the nearest valid one.",
    ]
    group = ""
    for row in SETTINGS.values():
        if row.group != group:
            group = row.group
            lines += [
                "",
                f"## {group}",
                "",
                "| setting | type | Kafka's default | ours | bounds | meaning |",
                "|---|---|---|---|---|---|",
            ]
        lines.append(_table_row(row))
    lines += [
        "",
        "## Topics",
        "",
        "Each topic may have these settings. If a topic does not set one, the node's setting applies.",
        "",
    ]
    lines += [
        "| setting | type | Kafka's default | ours | bounds | the node's setting |",
        "|---|---|---|---|---|---|",
    ]
    for row in TOPIC_SETTINGS.values():
        shown = f"`{row.node_name}`" if row.node_name else f"none: {row.doc}"
        lines.append(_table_row(row._replace(doc=shown, why="")))
    lines += [
        "",
        "## Groups",
        "",
        "Each group may have these settings (`barnabas configs set group NAME ...`).",
        "",
        "| setting | type | Kafka's default | ours | bounds | the node's setting |",
        "|---|---|---|---|---|---|",
    ]
    for row in GROUP_SETTINGS.values():
        shown = f"`{row.node_name}`. {row.doc}" if row.node_name in SETTINGS else f"none: {row.doc}"
        lines.append(_table_row(row._replace(doc=shown)))
    lines += [
        "",
        "## Telemetry subscriptions",
        "",
        "Each subscription asks clients to push metrics (`barnabas configs set client-metrics NAME ...`).",
        "",
        "| setting | type | Kafka's default | ours | bounds | meaning |",
        "|---|---|---|---|---|---|",
    ]
    lines += [_table_row(row) for row in METRICS_SETTINGS.values()]
    return "\n".join(lines) + "\n"


def _table_row(row: Setting) -> str:
    def shown(value: Value) -> str:
        text = format_value(value)
        return "none" if text is None else (text if text in ("", REQUIRED) else f"`{text}`") or "empty"

    bounds = ", ".join(row.choices)
    if row.low is not None and row.high is not None:
        ends = {MAX_INT: "2^31-1", MAX_LONG: "2^63-1"}
        bounds = f"{row.low} to {ends.get(int(row.high), row.high)}"
    ours = "the same" if row.ours == row.kafka else shown(row.ours)
    doc = row.doc + (f" Ours: {row.why}." if row.why else "")
    return f"| `{row.name}` | {row.kind} | {shown(row.kafka)} | {ours} | {bounds} | {doc} |"
