"""`sasl.jaas.config` read as text: which of three modules of Kafka's, and its options.  Nothing is ever loaded."""

from __future__ import annotations

import re
from typing import NamedTuple

from barnabas.errors import ConfigError

__all__ = ["JaasEntry", "parse_jaas"]

_MODULES = {
    "org.apache.kafka.common.security.scram.ScramLoginModule": "SCRAM",
    "org.apache.kafka.common.security.plain.PlainLoginModule": "PLAIN",
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule": "OAUTHBEARER",
}
_ENTRY = re.compile(
    r"\s*([\w.$]+)\s+(required|requisite|sufficient|optional)\b(.*);\s*", re.DOTALL | re.IGNORECASE
)
_OPTION = re.compile(
    r"""\s*([\w.\-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"';]+))""", re.DOTALL
)
_FORM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="..." password="...";'


class JaasEntry(NamedTuple):
    """`family` is SCRAM, PLAIN or OAUTHBEARER.  `options` are secrets: never print them."""

    family: str
    options: dict[str, str]

    def __repr__(self) -> str:
        return f"<JaasEntry {self.family}>"


def parse_jaas(text: str, name: str = "sasl.jaas.config") -> JaasEntry:
    """The one entry of the setting `name`.  Raises ConfigError, which never quotes a secret."""
    entry = _ENTRY.fullmatch(text)
    if entry is None:
        missing = " (it does not end with a semicolon)" if not text.rstrip().endswith(";") else ""
        raise ConfigError(f"{name} cannot be read{missing}", next_step=f"write {_FORM}")
    family = _MODULES.get(entry[1])
    if family is None:
        raise ConfigError(
            f"{name} names the module {entry[1][:150]}, which we do not load",
            next_step=f"use one of {', '.join(path.rpartition('.')[2] for path in _MODULES)}, with its package",
        )
    options: dict[str, str] = {}
    rest, position = entry[3].rstrip(), 0
    while position < len(rest):
        option = _OPTION.match(rest, position)
        if option is None:
            raise ConfigError(
                f'{name}: option {len(options) + 1} is not of the form name="value"',
                next_step=f"write {_FORM}",
            )
        quoted = option[2] if option[2] is not None else option[3]
        options[option[1]] = option[4] if quoted is None else re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
        position = option.end()
    return JaasEntry(family, options)
