"""Tests that share a session's node use topics of their own: any two files may meet on one worker's node."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SHARED = "kafka"
"""The fixture of `barnabas.testing` that is one node for the session."""
TAKES_A_TOPIC = {
    "Consumer",
    "TopicPartition",
    "create_topic",
    "delete_topic",
    "describe_topic",
    "position",
    "seek",
    "send",
    "topic",
}


def functions(tree: ast.AST) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def literal_topics(source: str) -> list[str]:
    """`line: topic` for each literal name of a topic in a function that runs against the session's node."""
    found = functions(ast.parse(source))
    if any(function.name == SHARED for function in found):
        return []  # this module has a node of its own under that name
    on_the_node = {f.name for f in found if SHARED in {a.arg for a in f.args.args}}
    users = [f for f in found if on_the_node & {f.name, *(a.arg for a in f.args.args)}]
    return [
        f"{argument.lineno}: {argument.value}"
        for function in users
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and called(call) in TAKES_A_TOPIC
        for argument in call.args[:2]
        if isinstance(argument, ast.Constant)
        and isinstance(argument.value, str)
        and argument is not value(call)
    ]


def called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def value(call: ast.Call) -> ast.expr | None:
    """The record's value, which stands after the topic: no name."""
    return call.args[1] if called(call) == "send" and len(call.args) > 1 else None


@pytest.mark.parametrize(
    "path", sorted(TESTS.rglob("test_*.py")), ids=lambda path: str(path.relative_to(TESTS))
)
def test_no_test_names_a_topic_of_the_sessions_node_by_a_literal(path: Path) -> None:
    assert literal_topics(path.read_text()) == []


def test_a_literal_topic_is_found_in_tests_and_in_what_their_fixtures_use() -> None:
    source = """
def test_one(kafka): producer.send("again", "value")
@pytest.fixture
def bootstrap(kafka): return kafka.bootstrap
def test_two(bootstrap): Consumer(bootstrap, "again")
def test_three(kafka, topic): producer.send(topic, "value")
def test_four(kafka_node): producer.send("again", "value")
"""
    assert literal_topics(source) == ["2: again", "5: again"]
