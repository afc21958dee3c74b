"""What no line of the package may do, each test named after the CVE that shows somebody's did."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import barnabas
from barnabas.cli.main import NOUNS

PACKAGE = Path(barnabas.__file__).parent
SECRET = ("password", "secret", "proof", "hmac", "signature", "digest", "stored_key", "client_key", "nonce")
"""Whoever compares one of these byte by byte tells by the time how much of it was right."""
WHERE_SECRETS_ARE = ("security", "server/net/secure", "client/security", "controller/decisions/users")
GENERATED = {"wire/codec/schema.py", "raft/value.py", "sim/kernel/mutants.py"}
"""They make functions of their own tables when they are imported, or of a mutant's source: no outside word."""
EVALUATES = {"eval", "exec", "compile", "__import__"}
READS_OBJECTS = {"loads", "load", "Unpickler"}


def sources(*rooms: str) -> Iterator[tuple[str, ast.Module]]:
    for room in rooms or ("",):
        for path in sorted((PACKAGE / room).rglob("*.py")):
            yield path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text())


def compared_early(tree: ast.AST) -> list[int]:
    """Lines that compare a secret with == or !=, except with a text or a number that stands there."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        and any(isinstance(one, ast.Eq | ast.NotEq) for one in node.ops)
        and not any(isinstance(side, ast.Constant) for side in (node.left, *node.comparators))
        and any(_is_secret(side) for side in (node.left, *node.comparators))
    ]


def _is_secret(side: ast.expr) -> bool:
    name = side.attr if isinstance(side, ast.Attribute) else side.id if isinstance(side, ast.Name) else ""
    return any(name == word or name.endswith(f"_{word}") for word in SECRET)


def test_cve_2021_38153_secrets_are_compared_in_constant_time() -> None:
    found = [f"{path}:{line}" for path, tree in sources(*WHERE_SECRETS_ARE) for line in compared_early(tree)]
    assert found == []


@pytest.mark.parametrize(
    "line", ["known.password == given", "stored_key != found", "a == self._client_nonce"]
)
def test_the_search_sees_a_secret_that_is_compared_early(line: str) -> None:
    assert compared_early(ast.parse(line)) == [1]


def evaluated(path: str, tree: ast.AST) -> list[str]:
    """Calls that run a text, or make objects of bytes that may name any class."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        call = node.func
        nothing = [ast.unparse(argument) for argument in node.args] == ["''"]
        if isinstance(call, ast.Name) and call.id in EVALUATES and path not in GENERATED and not nothing:
            found.append(f"{path}:{node.lineno} {call.id}")
        if isinstance(call, ast.Attribute) and isinstance(call.value, ast.Name):
            module = call.value.id
            if module in ("pickle", "marshal", "cloudpickle", "shelve") and call.attr in READS_OBJECTS:
                found.append(f"{path}:{node.lineno} {module}.{call.attr}")
            if module == "yaml" and call.attr != "safe_load":
                found.append(f"{path}:{node.lineno} yaml.{call.attr}")
    return found


def test_cve_2023_52251_and_2026_5562_nothing_that_comes_from_outside_is_run() -> None:
    assert [call for path, tree in sources() for call in evaluated(path, tree)] == []


@pytest.mark.parametrize("line", ["eval(text)", "pickle.loads(data)", "yaml.load(file)"])
def test_the_search_sees_what_would_be_run(line: str) -> None:
    assert len(evaluated("somewhere.py", ast.parse(line))) == 1


def flags(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from flags(inner)


def test_go_2026_4827_no_flag_takes_a_secret_that_the_list_of_processes_would_show() -> None:
    """A file, a prompt or standard input instead.  (--add-scram is Kafka's own, and its page says so.)"""
    found = set[str]()
    for noun, (module, *_) in NOUNS.items():
        parser = argparse.ArgumentParser(noun)
        import_module(module).add_arguments(parser)
        found |= {f"{noun} {flag}" for flag in flags(parser) if _takes_a_secret(flag)}
    assert found == {"acls --delegation-token"}, "(that one takes the public id of a token)"


def _takes_a_secret(flag: str) -> bool:
    return any(word in flag for word in ("password", "secret", "token", "passphrase")) and not flag.endswith(
        ("-file", "-stdin")
    )
