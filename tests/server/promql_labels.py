"""The labels that the result of a PromQL expression has, by the labels of the metrics in it.

It reads as much of the language as our dashboard and alert rules use.  A binary operator between vectors never has
a result where their labels do not match.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

__all__ = ["MismatchError", "labels_of"]

Labels: TypeAlias = frozenset[str] | None
"""None: a scalar."""

_TOKEN = re.compile(r"\{[^}]*\}|\[[^]]*\]|\"[^\"]*\"|[A-Za-z_:][\w:]*|\d+(?:\.\d+)?|[<>=!]=|[-+*/%<>(),]")
_AGGREGATIONS = ("sum", "max", "min", "avg", "count")
_LEVELS = (("==", "!=", "<=", ">=", "<", ">"), ("+", "-"), ("*", "/", "%"))
"""Binary operators, those that bind least first."""


class MismatchError(AssertionError):
    """An operator whose two sides never meet."""


def labels_of(expression: str, metrics: Mapping[str, frozenset[str]]) -> Labels:
    """Return the labels of the result.  Raises MismatchError, and KeyError for an unknown metric."""
    parser = _Parser(_TOKEN.findall(expression), metrics)
    found = parser.binary(0)
    assert not parser.tokens, f"not read: {parser.tokens}"
    return found


class _Parser:
    def __init__(self, tokens: list[str], metrics: Mapping[str, frozenset[str]]) -> None:
        self.tokens = tokens
        self.metrics = metrics

    def take(self, *wanted: str) -> str | None:
        if self.tokens and (not wanted or self.tokens[0] in wanted):
            return self.tokens.pop(0)
        return None

    def names(self) -> frozenset[str]:
        """A list of labels in parentheses."""
        assert self.take("(")
        found = []
        while not self.take(")"):
            found.append(str(self.take()))
            self.take(",")
        return frozenset(found)

    def binary(self, level: int) -> Labels:
        if level == len(_LEVELS):
            return self.one()
        left = self.binary(level + 1)
        while operator := self.take(*_LEVELS[level]):
            on = self.names() if self.take("on") else None
            many = self.take("group_left", "group_right")
            if many is not None and self.tokens[:1] == ["("]:
                self.names()
            left = self.joined(left, operator, self.binary(level + 1), on, many)
        return left

    def joined(
        self, left: Labels, operator: str, right: Labels, on: frozenset[str] | None, many: str | None
    ) -> Labels:
        if left is None or right is None:
            return right if left is None else left
        if on is None:
            if left != right:
                raise MismatchError(
                    f"{sorted(left)} {operator} {sorted(right)}: labels differ, and there is no `on`"
                )
            return left
        ones = {"group_left": (right,), "group_right": (left,)}.get(many or "", (left, right))
        for side in (left, right):
            if not on <= side:
                raise MismatchError(f"{sorted(side)} has no {sorted(on - side)}")
        for side in ones:
            if side != on:
                raise MismatchError(f"{sorted(side)} {operator}: several series for each {sorted(on)}")
        return {"group_left": left, "group_right": right}.get(many or "", on)

    def one(self) -> Labels:
        token = self.take()
        assert token is not None
        if token == "(":
            found = self.binary(0)
            assert self.take(")")
            return found
        if token[0].isdigit():
            return None
        if token in _AGGREGATIONS:
            by = self.names() if self.take("by") else frozenset()
            of = self.arguments()[0]
            assert of is not None and by <= of, f"{token} by {sorted(by)} of {of}"
            return by
        if self.tokens[:1] == ["("]:
            vector = next(one for one in self.arguments() if one is not None)
            return vector - {"le"} if token == "histogram_quantile" else vector
        if self.tokens and self.tokens[0][0] == "{":
            self.take()
        if self.tokens and self.tokens[0][0] == "[":
            self.take()
        return self.metrics[token]

    def arguments(self) -> list[Labels]:
        assert self.take("(")
        found = [self.binary(0)]
        while self.take(","):
            found.append(self.binary(0))
        assert self.take(")")
        return found
