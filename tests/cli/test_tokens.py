"""`barnabas tokens`, word for word, against a real node: what logs in as its owner does, and what does not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.delegation import TokenNode

from barnabas.cli.access.tokens import _properties
from barnabas.cli.main import main
from barnabas.client.admin.tokens import DelegationToken
from barnabas.client.security.options import Security


@pytest.fixture(scope="module")
def node() -> Iterator[TokenNode]:
    running = TokenNode()
    with running.cluster:
        running.add_users()
        yield running


class Typed:
    """`typed("list")` as ada types it; `.out` and `.err` are what it printed."""

    def __init__(self, node: TokenNode, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._node, self._capsys = node, capsys
        self.file = folder / "ada.properties"
        self.file.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
            "sasl.username=ada\nsasl.password=ada-secret\n"
        )

    def __call__(self, line: str, file: Path | None = None) -> int:
        login = ["-b", self._node.login, "--command-config", str(file or self.file)]
        code = main(["tokens", *line.split(), *login])
        self.out, self.err = self._capsys.readouterr()
        return code


@pytest.fixture
def typed(node: TokenNode, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Typed:
    return Typed(node, tmp_path, capsys)


def test_a_token_in_a_file_logs_in_until_it_is_ended(
    node: TokenNode, typed: Typed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.properties"
    assert typed(f"create --file {file} --renewer User:tom --hours 1 --json") == 0, typed.err
    made = json.loads(typed.out)["token"]
    assert made["owner"] == "User:ada" and made["renewers"] == ["User:tom"] and "password" not in made
    assert made["max_ms"] - made["issued_ms"] == 3_600_000
    assert file.stat().st_mode & 0o777 == 0o600
    listed = ["topics", "list", "-b", node.login, "--timeout", "5", "--command-config"]
    assert main([*listed, str(file)]) == 0, capsys.readouterr().err
    assert typed("create", file=file) == 1
    assert "by a token" in typed.err and "log in with a password" in typed.err

    assert typed("list") == 0
    row = next(line for line in typed.out.splitlines() if line.startswith(made["id"]))
    assert row.split()[1:3] == ["User:ada", "User:tom"]
    password = file.read_text().partition('password="')[2].partition('"')[0]
    assert len(password) > 80 and password not in typed.out
    assert typed("list --json") == 0 and password not in typed.out

    assert typed(f"renew {made['id']} --hours 0.5 --json") == 0, typed.err
    assert json.loads(typed.out)["until_ms"] < made["until_ms"]
    assert typed(f"end {made['id']}") == 0 and made["id"] in typed.out
    assert main([*listed, str(file)]) == 1
    assert typed(f"end {made['id']}") == 4 and "barnabas tokens list" in typed.err


def test_a_token_that_is_shown_is_the_one_that_was_made(node: TokenNode, typed: Typed) -> None:
    assert typed("create --json") == 0
    made = json.loads(typed.out)["token"]
    assert len(made["password"]) > 80
    assert typed("create") == 0
    assert "user name  " in typed.out and "password   " in typed.out and "tokenauth=true" in typed.out


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("create --renewer tom", 2, "write User:tom"),
        ("create --hours 0", 2, "give hours from 0.001"),
        ("create --hours nan", 2, "give hours from 0.001"),
        ("create --file {file}", 2, "exists"),
        ("create --owner User:tom", 0, ""),  # (without an authorizer everybody may)
        ("renew nothing", 4, "there is no token nothing"),
        ("list --owner tom", 2, "write User:tom"),
    ],
)
def test_a_slip_is_named_with_what_helps(typed: Typed, line: str, code: int, says: str) -> None:
    assert typed(line.format(file=typed.file)) == code, typed.err
    assert says in typed.err


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL", "PLAINTEXT", "SASL_PLAINTEXT"])
def test_what_a_bearer_gets_is_a_login_whatever_its_owner_came_by(protocol: str) -> None:
    own = {
        "security.protocol": protocol,
        "ssl.truststore.location": "ca.pem",
        "ssl.keystore.location": "ada.pem",
    }
    token = DelegationToken("an-id", "a-secret", "User:ada", "User:ada", (), 0, 0, 0)
    made = _properties(token, own if "SSL" in protocol else {"security.protocol": protocol})
    read = Security.parse(made)
    assert (read.tls is not None) == ("SSL" in protocol) and (
        read.tls is None or read.tls.ca_file == "ca.pem"
    )
    assert read.sasl is not None and read.sasl.by_token and read.sasl.password == "a-secret"
    assert "ada.pem" not in str(made), "the owner's certificate stays with its owner"


def test_a_file_that_cannot_be_written_leaves_no_token_behind(typed: Typed, tmp_path: Path) -> None:
    typed("list --json")
    before = {one["id"] for one in json.loads(typed.out)["tokens"]}
    assert typed(f"create --file {tmp_path}/nowhere/at/all") == 4 and "cannot write" in typed.err
    typed("list --json")
    assert {one["id"] for one in json.loads(typed.out)["tokens"]} == before


def test_without_a_login_and_without_a_secret_it_says_what_helps(
    node: TokenNode, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tokens", "list", "-b", node.cluster.bootstrap]) == 1
    assert "--command-config FILE" in capsys.readouterr().err
