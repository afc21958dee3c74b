"""`barnabas start --secure` in an empty directory: what it prints is typed, and strangers get nowhere."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.patience import PATIENCE_S

from barnabas import Admin, Consumer, Producer
from barnabas.cli.main import main
from barnabas.config import parse_properties
from barnabas.errors import BarnabasError, ErrorCode, KafkaError

pytest.importorskip("cryptography")


class SecureNode:
    """`said` is what it printed; `next` are the commands to be typed."""

    def __init__(self, home: Path, *flags: str) -> None:
        self.home = home
        command = [sys.executable, "-m", "barnabas", "start", "--secure", "--data", str(home), *flags]
        self.log = home.with_name(f"{home.name}.log")
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        self.said: list[str] = []
        for line in self.process.stdout:
            self.said.append(line.rstrip("\n"))
            if "her password" in line:
                break
        assert self.said, self.log.read_text()

    @property
    def next(self) -> list[list[str]]:
        lines = [line.partition(" barnabas ")[2] for line in self.said]
        return [line.split() for line in lines if line]

    @property
    def address(self) -> str:
        return next(words[words.index("-b") + 1] for words in self.next)

    def login(self, name: str, password: str, mechanism: str = "SCRAM-SHA-512") -> dict[str, str]:
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.username": name,
            "sasl.password": password,
            "ssl.truststore.location": str(self.home / "certs" / "ca.pem"),
        }


@contextmanager
def secure(home: Path, *flags: str) -> Iterator[SecureNode]:
    node = SecureNode(home, *flags)
    try:
        yield node
    finally:
        node.process.terminate()
        node.process.wait(PATIENCE_S)


def test_what_it_prints_is_typed_and_then_alice_may_write_one_topic(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home, password = tmp_path / "data", tmp_path / "password"
    password.write_text("wonderland-1")
    with secure(home, "--port", "0") as node:
        create, add, allow = node.next
        assert main(create) == 0, capsys.readouterr().err
        assert main([*add, "--password-file", str(password)]) == 0, capsys.readouterr().err
        assert main(allow) == 0, capsys.readouterr().err
        login = node.login("alice", "wonderland-1")
        with Producer(node.address, security=login) as producer:
            producer.send("greetings", b"hello")
        with pytest.raises(KafkaError) as caught, Producer(node.address, security=login) as producer:
            producer.send("secrets", b"hello").result(10)
        assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        for stranger in ({}, node.login("alice", "wrong"), node.login("eve", "wonderland-1")):
            with pytest.raises(BarnabasError), Admin(node.address, security=stranger, timeout=3.0) as admin:
                admin.topics()
    for path in (home, home / "certs"):
        assert path.stat().st_mode & 0o777 == 0o700
    for path in (home / "admin.properties", home / "node.properties", home / "certs" / "node1.pem"):
        assert path.stat().st_mode & 0o777 == 0o600
    with secure(home) as again:
        login = dict(parse_properties((home / "admin.properties").read_text()))
        assert login["sasl.jaas.config"].partition("password=")[2][1:9] not in "\n".join(again.said)
        with Consumer(again.address, "greetings", security=login, start="earliest", idle=1.0) as consumer:
            assert [message.value for message in consumer] == [b"hello"]


@pytest.mark.parametrize(
    ("words", "why", "hint"),
    [
        (["x.properties"], "without FILE", "--data DIR"),
        (["--nodes", "3"], "without FILE", "--data DIR"),
        (["--data", "full"], "is not empty", "another directory"),
        (["--data", "made", "--port", "1"], "says where the node listens", "change `listeners`"),
    ],
)
def test_a_slip_is_named_with_what_helps(
    words: list[str],
    why: str,
    hint: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "node.properties").touch()
    assert main(["start", "--secure", *words]) == 2
    said = capsys.readouterr().err
    assert why in said and hint in said
