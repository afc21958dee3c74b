"""Java's regular expressions in Python: those that differ, and those that are refused."""

from __future__ import annotations

import pytest

from barnabas.errors import ConfigError
from barnabas.pipeline.java_patterns import python_pattern


@pytest.mark.parametrize(
    ("pattern", "matches", "not_these"),
    [
        (r"flights-\d+", ["flights-1"], ["flights-x", "my-flights-1"]),
        (r"\p{Lower}+\.\p{Digit}{2}", ["a.12"], ["A.12", "a.1"]),
        (r"[\p{Alpha}_]+", ["a_B"], ["a1"]),
        (r"\P{Digit}+", ["abc"], ["a1"]),
        (r"\pL+", ["abC"], ["a1"]),
        (r"\Qa.b\E.*", ["a.bc"], ["aXbc"]),
        (r"\Qa.b", ["a.b"], ["aXb"]),
        (r"(?<day>\d)-\k<day>", ["1-1"], ["1-2"]),
        (r"(?i)flights|WEATHER", ["FLIGHTS", "weather"], ["x"]),
        (r"a(?i:b|c)d", ["aBd", "acd"], ["ABd", "abD"]),
        (r"(?:(?i)x|y)z", ["Xz", "Yz"], ["XZ"]),
        (r"(?!__).*+", ["t"], ["__t"]),
        (r"x\z", ["x"], ["xy"]),
        (r"[^]a]", ["b"], ["a"]),
        (r"\x{61}b\u0063", ["abc"], ["a"]),
        (r"(?>a|ab)c", ["ac"], ["abc"]),
    ],
)
def test_a_pattern_means_what_it_means_in_java(
    pattern: str, matches: list[str], not_these: list[str]
) -> None:
    found = python_pattern(pattern)
    assert all(found.fullmatch(name) for name in matches)
    assert not any(found.fullmatch(name) for name in not_these)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("[a-z&&[^b]]", "&& cannot be read here"),
        ("[a[b]]", "classes within classes"),
        (r"\p{IsGreek}", "use one of ASCII"),
        (r"[\P{Digit}]", "by its members"),
        ("a(?i)b", "at the beginning"),
        ("(?x)a b", "only the flags i and s"),
        (r"\R", "no such escape"),
        ("a\\", "no such escape"),
        ("(", "no regular expression"),
        ("[a", "no regular expression"),
        ("a)", "no regular expression"),
        ("*", "no regular expression"),
        ("(?", "no regular expression"),
        ("a{99999999999999999999}", "no regular expression"),
        (r"\x{110000}", "no regular expression"),
    ],
)
def test_what_python_cannot_say_is_refused_with_a_reason(pattern: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        python_pattern(pattern)
    assert said in f"{caught.value} {caught.value.next_step}"
