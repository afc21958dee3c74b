r"""Templates of records: `--format '{partition}\t{key}\t{value}'` prints them (consume) and reads them (produce).

A field stands in braces, everything else is literal; `\t`, `\n`, `\r`, `\0` and `\\` are escapes, `{{` is a
brace.  Headers are written `name=value,name=value`; a header without a value is its name alone.  Text that
contains the literals of the template cannot be told from them: `--format json` is exact.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import string
from collections.abc import Callable
from typing import Any, NamedTuple

from barnabas.cli.output import JSON_VERSION
from barnabas.cli.typed.numbers import INT32, INT64
from barnabas.errors import ConfigError

__all__ = ["InputLine", "header_of", "headers_of", "parser_of", "printer_of"]

PRINTED = ("topic", "partition", "offset", "timestamp", "key", "value", "headers", "header")
READ = ("partition", "timestamp", "key", "value", "headers")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "0": "\0", "\\": "\\"}

Headers = tuple[tuple[str, bytes | None], ...]


class InputLine(NamedTuple):
    """What one line of input says of its record.  None for `partition`, `timestamp`, `headers`: nothing."""

    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    timestamp: int | None = None
    headers: Headers | None = None


class _Part(NamedTuple):
    """A literal, and the field that follows it (None at the end); `of` is the name in `{header:name}`."""

    literal: bytes
    field: str | None
    of: str


def _parts(template: str, known: tuple[str, ...]) -> list[_Part]:
    parts: list[_Part] = []
    try:
        for literal, field, of, _ in string.Formatter().parse(template):
            text = re.sub(r"\\([tnr0\\])", lambda found: _ESCAPES[found[1]], literal)
            parts.append(_Part(text.encode(), field, of or ""))
    except ValueError as error:
        raise ConfigError(
            f"--format {template!r}: {error}", next_step="write a literal brace twice: {{ or }}"
        ) from error
    wrong = [p.field for p in parts if p.field is not None and p.field not in known]
    wrong += ["header" for p in parts if (p.field == "header") != bool(p.of)]
    if wrong:
        fields = ", ".join("{header:NAME}" if name == "header" else f"{{{name}}}" for name in known)
        raise ConfigError(f"--format has no field {{{wrong[0]}}}", next_step=f"the fields are {fields}")
    return parts


# -- printing ------------------------------------------------------------------------------------


def printer_of(template: str, null: str) -> Callable[[Any], bytes]:
    """`printer_of("{key}: {value}", "")` -> message -> bytes with a line end; also "value", "key" and "json".

    `null` stands for a key or value that is null.
    """
    if template == "json":
        return _json_line
    template = {"value": "{value}", "key": r"{key}\t{value}"}.get(template, template)
    if "{" not in template:
        raise ConfigError(
            f"--format {template} is not known",
            next_step="write value, key, json, or a template such as '{offset} {key} {value}'",
        )
    parts = _parts(template, PRINTED)
    nothing = null.encode()

    def print_it(message: Any) -> bytes:
        pieces: list[bytes] = []
        for literal, field, of in parts:
            pieces.append(literal)
            if field is not None:
                pieces.append(_printed(message, field, of, nothing))
        pieces.append(b"\n")
        return b"".join(pieces)

    return print_it


def _printed(message: Any, field: str, of: str, nothing: bytes) -> bytes:
    if field == "headers":
        return b",".join(
            name.encode() + (b"" if content is None else b"=" + content) for name, content in message.headers
        )
    if field == "header":
        content = dict(message.headers).get(of)
    else:
        content = getattr(message, field)
    if content is None:
        return nothing
    return content if isinstance(content, bytes) else str(content).encode()


def _json_line(message: Any) -> bytes:
    document = {
        "version": JSON_VERSION,
        "kind": "record",
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp,
        "key": _content(message.key),
        "value": _content(message.value),
        "headers": [[name, _content(content)] for name, content in message.headers],
    }
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def _content(content: bytes | None) -> Any:
    """Text where it is text, {"base64": ...} where it is not."""
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


# -- reading -------------------------------------------------------------------------------------


def parser_of(template: str, null: str | None) -> Callable[[bytes], InputLine]:
    """`parser_of("{key}:{value}", None)` -> line -> InputLine; also "value" and "json".

    A key or value that equals `null` is null.  The parser raises ValueError, which says what is wrong.
    """
    if template == "json":
        return _json_parsed
    if template != "value" and "{" not in template:
        raise ConfigError(
            f"--format {template} is not known",
            next_step="write value, json, or a template such as '{key}:{value}'",
        )
    parts = _parts("{value}" if template == "value" else template, READ)
    fields = [part.field for part in parts if part.field is not None]
    if len(set(fields)) < len(fields) or "value" not in fields:
        raise ConfigError("--format names {value} and every other field at most once")
    if any(not part.literal and part.field for part in parts[1:]):
        raise ConfigError("--format needs text between two fields", next_step="for example '{key}:{value}'")
    pattern = _pattern(parts)
    nothing = None if null is None else null.encode()

    def parse(text: bytes) -> InputLine:
        found = pattern.fullmatch(text)
        if found is None:
            raise ValueError(f"has no {_missing(parts, text).decode()!r}")
        said = found.groupdict()
        key, value = (None if content == nothing else content for content in (said.get("key"), said["value"]))
        return InputLine(
            value,
            key,
            _number("partition", said.get("partition")),
            _number("timestamp", said.get("timestamp")),
            headers_of(said["headers"]) if said.get("headers") else None,
        )

    return parse


def _pattern(parts: list[_Part]) -> re.Pattern[bytes]:
    """Each field ends where the next literal begins for the first time; the last one takes the rest."""
    text = b"".join(
        re.escape(literal) + (b"" if field is None else b"(?P<%s>.*?)" % field.encode())
        for literal, field, _ in parts
    )
    return re.compile(text, re.DOTALL)


def _missing(parts: list[_Part], text: bytes) -> bytes:
    at = 0
    for literal, _, _ in parts:
        found = text.find(literal, at)
        if found < 0:
            return literal
        at = found + len(literal)
    return parts[0].literal or parts[-1].literal


def _number(field: str, text: bytes | None) -> int | None:
    if not text:
        return None
    least, most = _BOUNDS[field]
    digits = text.removeprefix(b"-")
    if not digits.isdigit() or len(digits) > _MOST_DIGITS or not least <= int(text) <= most:
        shown = text[: _MOST_DIGITS + 1].decode(errors="replace")
        raise ValueError(f"says {field} {shown!r}, which is no number from {least} to {most}")
    return int(text)


def headers_of(text: bytes) -> Headers:
    """`headers_of(b"a=1,b")` -> (("a", b"1"), ("b", None)); ValueError where a name is not UTF-8."""
    return tuple(header_of(pair) for pair in text.split(b","))


def header_of(text: bytes) -> tuple[str, bytes | None]:
    """`header_of(b"a=1")` -> ("a", b"1")."""
    name, found, content = text.partition(b"=")
    return name.decode(), content if found else None


_BOUNDS = {"partition": (0, INT32), "timestamp": (-1, INT64)}
"""-1 is the time of a record that has none: `consume` prints it."""
_MOST_DIGITS = 19
"""Of a number in 64 bits; Python refuses to read one of thousands."""
_JSON_FIELDS = {"version", "kind", "topic", "partition", "offset", "timestamp", "key", "value", "headers"}


def _json_parsed(text: bytes) -> InputLine:
    """A document as `consume --format json` prints it; the topic and the offset in it do not count."""
    try:
        said = json.loads(text)
    except ValueError as error:
        raise ValueError(f"is no JSON document: {error}") from error
    if not isinstance(said, dict) or "value" not in said:
        raise ValueError('is no JSON object with a "value"')
    if unknown := sorted(said.keys() - _JSON_FIELDS):
        raise ValueError(f"has the unknown field {unknown[0]!r}")
    for field, (least, most) in _BOUNDS.items():
        number = said.get(field)
        if number is not None and (type(number) is not int or not least <= number <= most):
            raise ValueError(f"says {field} {str(number)[:40]}, which is no number from {least} to {most}")
    headers = said.get("headers")
    if headers is not None:
        headers = tuple((_name(pair), _bytes(pair[1])) for pair in headers)
    return InputLine(
        _bytes(said["value"]), _bytes(said.get("key")), said.get("partition"), said.get("timestamp"), headers
    )


def _name(pair: Any) -> str:
    if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)):
        raise ValueError(f"has the header {pair!r}, which is no [name, value]")
    return pair[0]


def _bytes(content: Any) -> bytes | None:
    if content is None or isinstance(content, str):
        return None if content is None else content.encode()
    if isinstance(content, dict) and content.keys() == {"base64"} and isinstance(content["base64"], str):
        try:
            return base64.b64decode(content["base64"], validate=True)
        except binascii.Error as error:
            raise ValueError(f"has base64 that cannot be read: {error}") from error
    raise ValueError(f'has {json.dumps(content)[:40]}, which is no text, null or {{"base64": "..."}}')
