"""What a node reads of an X.509 certificate: whom it names, as Java spells it, and until when it is valid.

Java's spelling (X500Principal.getName, RFC 2253) is what Kafka's ACLs and `super.users` are written in.  An
attribute that RFC 2253 gives no short name is printed by its number, with its value in hex: an email address, for
example, is `1.2.840.113549.1.9.1=#160464407878`.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import NamedTuple

from barnabas.errors import BarnabasError

__all__ = ["ENDS_SOON_S", "Certificate", "UnreadableCertificateError", "read_certificate"]

_SEQUENCE, _SET, _OID, _BITS, _OCTETS = 0x30, 0x31, 0x06, 0x03, 0x04
_UTC_TIME, _GENERALIZED = 0x17, 0x18
_VERSION, _EXTENSIONS = 0xA0, 0xA3
_TEXTS = frozenset((0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E))
"""UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString: what Java prints as text."""
_SHORT = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_ESCAPED = frozenset(',=+<>#;"\\')
ENDS_SOON_S = 30 * 86400.0
"""A certificate that ends within so many seconds is warned of."""
_ALTERNATIVE_NAMES = "2.5.29.17"


class UnreadableCertificateError(BarnabasError):
    """These bytes are no certificate."""


class Certificate(NamedTuple):
    """`subject` as Java spells it; `names` are the alternative ones (DER); `begins` and `ends` in Unix seconds."""

    subject: str
    names: frozenset[bytes]
    begins: float
    ends: float


class _Item(NamedTuple):
    tag: int
    content: bytes
    whole: bytes


def read_certificate(der: bytes) -> Certificate:
    """Read a certificate in DER.  Raises UnreadableCertificateError."""
    try:
        (outer,) = _items(der)
        signed = next(_items(outer.content))
        fields = list(_items(signed.content))
        if fields[0].tag == _VERSION:
            del fields[0]
        _serial, _algorithm, _issuer, validity, subject, _key, *rest = fields
        begins, ends = (_time(item) for item in _items(validity.content))
        extensions = next((item.content for item in rest if item.tag == _EXTENSIONS), b"")
        return Certificate(_name(subject.content), frozenset(_alternative(extensions)), begins, ends)
    except (ValueError, IndexError, StopIteration) as error:
        raise UnreadableCertificateError("the certificate cannot be read") from error


def _items(data: bytes) -> Iterator[_Item]:
    """The values that stand one after the other in DER."""
    at = 0
    while at < len(data):
        tag, size, head = data[at], data[at + 1], 2
        if tag & 0x1F == 0x1F:
            raise ValueError("a tag of several bytes")
        if size & 0x80:
            more = size & 0x7F
            if not 1 <= more <= 4:
                raise ValueError("a length that no certificate has")
            head += more
            size = int.from_bytes(data[at + 2 : at + head], "big")
        end = at + head + size
        if end > len(data):
            raise ValueError("a value ends after the certificate")
        yield _Item(tag, data[at + head : end], data[at:end])
        at = end


def _name(content: bytes) -> str:
    """A distinguished name: the last part first, the parts of one set joined by a plus."""
    parts = []
    for relative in _items(content):
        pairs = (tuple(_items(pair.content)) for pair in _items(relative.content))
        parts.append("+".join(_attribute(_dotted(kind.content), value) for kind, value in pairs))
    return ",".join(reversed(parts))


def _attribute(kind: str, value: _Item) -> str:
    short = _SHORT.get(kind)
    if short is None or value.tag not in _TEXTS:
        return f"{short or kind}=#{value.whole.hex()}"
    text = value.content.decode("utf-8", "replace")
    said = "".join(f"\\{c}" if c in _ESCAPED else "\\00" if c == "\0" else c for c in text)
    begin = len(said) - len(said.lstrip(" \r"))
    end = len(said.rstrip(" \r"))
    if begin >= end:
        return f"{short}=" + "".join(f"\\{c}" for c in said)
    edges = ["".join(f"\\{c}" for c in edge) for edge in (said[:begin], said[end:])]
    return f"{short}={edges[0]}{said[begin:end]}{edges[1]}"


def _dotted(content: bytes) -> str:
    numbers: list[int] = []
    number = 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _time(item: _Item) -> float:
    text = item.content.decode("ascii")
    if item.tag == _UTC_TIME:
        text = ("19" if int(text[:2]) >= 50 else "20") + text
    elif item.tag != _GENERALIZED:
        raise ValueError("no time")
    found = datetime.datetime.strptime(text, "%Y%m%d%H%M%SZ")
    return found.replace(tzinfo=datetime.UTC).timestamp()


def _alternative(extensions: bytes) -> Iterator[bytes]:
    for outer in _items(extensions):
        for extension in _items(outer.content):
            kind, *_, value = _items(extension.content)
            if kind.tag == _OID and _dotted(kind.content) == _ALTERNATIVE_NAMES:
                for names in _items(value.content):
                    yield from (name.whole for name in _items(names.content))
