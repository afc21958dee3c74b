"""`subscribePattern` is a regular expression of Java, as in Spark's own connector; here it becomes one of Python.

What both write alike stays as it is.  What differs is written anew: `\\p{Alpha}`, `\\Q...\\E`, `(?<name>...)`,
`\\k<name>`, `(?i)`, `\\z`.  What Python cannot say (classes within classes, `&&`) is refused with a reason, never
read as something else.  Topic names are ASCII, so that a property like `\\p{L}` means its ASCII part.
"""

from __future__ import annotations

import re

from barnabas.errors import ConfigError

__all__ = ["python_pattern"]

_PROPERTIES = {
    **dict.fromkeys(("Lower", "Ll", "IsLowercase", "javaLowerCase"), "a-z"),
    **dict.fromkeys(("Upper", "Lu", "IsUppercase", "javaUpperCase"), "A-Z"),
    **dict.fromkeys(("Alpha", "L", "IsL", "IsAlphabetic", "IsLatin"), "a-zA-Z"),
    **dict.fromkeys(("Digit", "N", "Nd", "IsDigit"), "0-9"),
    "Alnum": "a-zA-Z0-9",
    "XDigit": "0-9a-fA-F",
    "Punct": r"!-/:-@\[-`{-~",
    "ASCII": r"\x00-\x7f",
}
_SAME = frozenset("AbBdDsSwWtnrfa123456789")
"""Letters and digits that mean the same behind a backslash."""
_FLAGS = re.compile(r"\(\?([a-zA-Z]+)([:)])")
_NAMED = re.compile(r"\(\?<([A-Za-z][A-Za-z0-9]*)>")
_BACK = re.compile(r"\\k<([A-Za-z][A-Za-z0-9]*)>")
_PROPERTY = re.compile(r"\\([pP])(?:\{([A-Za-z]+)\}|([A-Z]))")
_CODE = re.compile(r"\\(?:x\{([0-9A-Fa-f]+)\}|x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4}))")


def python_pattern(text: str) -> re.Pattern[str]:
    """`python_pattern("flights-\\\\p{Digit}+")`.  Raises ConfigError that says what cannot be read."""
    try:
        return re.compile(_Translation(text).all())
    except (re.error, ValueError, OverflowError, RecursionError) as error:
        raise ConfigError(f"subscribePattern={text[:200]} is no regular expression: {error}") from error


class _Translation:
    """One pattern, read from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.begin_of_group = True
        self.closing = [""]
        """What each open group still needs at its end."""

    def all(self) -> str:
        made = ""
        while self.at < len(self.text):
            made += self._next()
        return made + self.closing[0]

    def _next(self) -> str:
        char, begin = self.text[self.at], self.begin_of_group
        self.begin_of_group = False
        if char == "\\":
            return self._escape(in_class=False)
        if char == "[":
            return self._class()
        if char == "(":
            return self._open(begin=begin)
        self.at += 1
        if char == ")" and len(self.closing) > 1:
            return f"{self.closing.pop()})"
        return char

    def _open(self, *, begin: bool) -> str:
        if flags := _FLAGS.match(self.text, self.at):
            names = flags[1].replace("u", "").replace("d", "")
            if set(names) - set("is"):
                raise self._refused(flags[0], "only the flags i and s can be set")
            self.at = flags.end()
            self.begin_of_group = True
            made = f"(?{names}:"
            if flags[2] == ":":
                self.closing.append("")
            elif begin:
                self.closing[-1] += ")"
            else:
                raise self._refused(flags[0], "set flags at the beginning, or as (?i:...)")
            return made
        self.begin_of_group = True
        self.closing.append("")
        if named := _NAMED.match(self.text, self.at):
            self.at = named.end()
            return f"(?P<{named[1]}>"
        for prefix in ("(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"):
            if self.text.startswith(prefix, self.at):
                self.at += len(prefix)
                return prefix
        self.at += 1
        return "("

    def _escape(self, *, in_class: bool) -> str:
        if self.text.startswith("\\Q", self.at):
            end = self.text.find("\\E", self.at)
            quoted = self.text[self.at + 2 : end if end >= 0 else None]
            self.at = end + 2 if end >= 0 else len(self.text)
            return re.escape(quoted)
        if found := _PROPERTY.match(self.text, self.at):
            return self._property(found, in_class=in_class)
        if found := _CODE.match(self.text, self.at):
            self.at = found.end()
            return re.escape(chr(int(found[1] or found[2] or found[3], 16)))
        if (found := _BACK.match(self.text, self.at)) and not in_class:
            self.at = found.end()
            return f"(?P={found[1]})"
        pair = self.text[self.at : self.at + 2]
        if pair in ("\\z", "\\Z") and not in_class:
            self.at += 2
            return "\\Z"
        if len(pair) < 2 or (pair[1].isalnum() and pair[1] not in _SAME):
            raise self._refused(pair, "there is no such escape here")
        self.at += 2
        return pair

    def _property(self, found: re.Match[str], *, in_class: bool) -> str:
        inner = _PROPERTIES.get(found[2] or found[3])
        if inner is None:
            raise self._refused(found[0], f"use one of {', '.join(sorted(_PROPERTIES))}")
        self.at = found.end()
        if not in_class:
            return f"[{'^' if found[1] == 'P' else ''}{inner}]"
        if found[1] == "P":
            raise self._refused(found[0], "write the class by its members")
        return inner

    def _class(self) -> str:
        opening = re.compile(r"\[\^?\]?").match(self.text, self.at)
        assert opening is not None
        made, self.at = opening[0].replace("]", "\\]"), opening.end()
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "[" or self.text.startswith("&&", self.at):
                what = "[" if char == "[" else "&&"
                raise self._refused(what, "classes within classes are Java's alone: use (?!...) or |")
            if char == "\\":
                made += self._escape(in_class=True)
                continue
            made += char
            self.at += 1
            if char == "]":
                return made
        return made  # (no end: what is wrong is said when it is compiled)

    def _refused(self, what: str, instead: str) -> ConfigError:
        return ConfigError(
            f"subscribePattern={self.text[:200]}: {what} cannot be read here", next_step=instead
        )
