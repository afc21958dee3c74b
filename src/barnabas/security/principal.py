"""Who a certificate is: `ssl.principal.mapping.rules`, as Apache Kafka reads and applies them.

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L,DEFAULT

The first rule whose pattern fits the whole name is used.  Patterns are compiled by re2: none takes long, and what
re2 does not have (looking ahead or behind, back references) is refused at the start.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from barnabas.errors import ConfigError

__all__ = ["PrincipalRules"]

_RULE = r"(DEFAULT)|RULE:((\\.|[^\\/])*)/((\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER = re.compile(rf"\s*({_RULE})\s*(,\s*|\Z)")
_PARSER = re.compile(_RULE)
_SETTING = "ssl.principal.mapping.rules"
_AS_KAFKA = "write RULE:pattern/replacement/ or RULE:pattern/replacement/L, or DEFAULT"


class _Rule(NamedTuple):
    """`pattern` None: DEFAULT, the name as it is."""

    pattern: Any
    replacement: Callable[[Any], str] | None
    change: Callable[[str], str]

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        return self.change(self.pattern.sub(self.replacement, name))


class PrincipalRules:
    """`PrincipalRules.parse(text).name_of("CN=ada,O=Acme")` -> "ada", or None where no rule fits."""

    __slots__ = ("_rules",)

    def __init__(self, rules: tuple[_Rule, ...]) -> None:
        self._rules = rules

    @classmethod
    def parse(cls, text: str) -> PrincipalRules:
        """Read the value of the setting.  Raises ConfigError."""
        rules = [_parsed(match.group(1)) for match in _SPLITTER.finditer(text.strip())]
        return cls(tuple(rule for rule in rules if rule is not None))

    def name_of(self, distinguished_name: str) -> str | None:
        """The user's name; None: nobody that is known here."""
        for rule in self._rules:
            if (found := rule.apply(distinguished_name)) is not None:
                return found
        return None

    def __repr__(self) -> str:
        return f"<PrincipalRules {len(self._rules)}>"


def _parsed(text: str) -> _Rule | None:
    match = _PARSER.match(text)
    if match is None or match.end() != len(text):
        raise ConfigError(f"{_SETTING}: {text[:100]!r} is no rule", next_step=_AS_KAFKA)
    if match.group(1):
        return _Rule(None, None, str)
    if match.group(2) is None:
        if text:
            raise ConfigError(f"{_SETTING}: {text[:100]!r} is no rule", next_step=_AS_KAFKA)
        return None
    pattern = _compiled(match.group(2))
    change = {"L": str.lower, "U": str.upper}.get(match.group(6), str)
    return _Rule(pattern, _replacing(match.group(4), pattern.groups), change)


@lru_cache(64)
def _compiled(pattern: str) -> Any:
    import re2  # only where there are rules

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise ConfigError(
            f"{_SETTING}: the pattern {pattern[:100]!r} cannot be used: {str(error)[:100]}",
            next_step="write it without looking ahead or behind, and without back references",
        ) from None


def _replacing(text: str, groups: int) -> Callable[[Any], str]:
    """Java's replacement text: `$1` is a group, a backslash takes the next sign as it is.  Raises ConfigError."""
    parts: list[str | int] = []
    at = 0
    while at < len(text):
        sign = text[at]
        if sign == "\\":
            if at + 1 == len(text):
                raise ConfigError(f"{_SETTING}: the replacement {text[:100]!r} ends in a backslash")
            parts.append(text[at + 1])
            at += 2
        elif sign == "$" and text[at + 1 : at + 2].isdecimal():
            number, at = int(text[at + 1]), at + 2
            if number > groups:
                if not groups:
                    raise ConfigError(
                        f"{_SETTING}: there is no group ${number} in the pattern of {text[:100]!r}"
                    )
                parts.append(f"${number}")
                continue
            while text[at : at + 1].isdecimal() and number * 10 + int(text[at]) <= groups:
                number, at = number * 10 + int(text[at]), at + 1
            parts.append(number)
        elif sign == "$":
            raise ConfigError(f"{_SETTING}: $ in the replacement {text[:100]!r} is followed by no number")
        else:
            parts.append(sign)
            at += 1
    return lambda match: "".join(
        part if isinstance(part, str) else (match.group(part) or "") for part in parts
    )
