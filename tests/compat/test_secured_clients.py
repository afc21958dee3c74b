"""Every real client at a node of `barnabas start --secure`, by every way in that it has: let in, and refused.

The user ada logs in by each of them, and ACLs give her rights.  Who is refused hears so in its client's own words,
and the log of the node has the reason.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cli.test_start_secure import SecureNode, secure
from tests.client.certificates import Authority
from tests.compat.clients import VALUES, Client, How
from tests.compat.clients.franz_go import FranzGo
from tests.compat.clients.java import Java
from tests.compat.clients.librdkafka import Librdkafka
from tests.compat.clients.pythons import Aiokafka, KafkaPython, Ours
from tests.compat.conftest import free_port
from tests.issuer import Issuer, token
from tests.server.test_bearer_logins import taking

from barnabas.cli.main import main

pytestmark = pytest.mark.compat

CLIENTS: dict[str, Callable[[Path], Client]] = {
    "librdkafka": lambda _: Librdkafka(),
    "java": Java,
    "kafka-python": lambda _: KafkaPython(),
    "aiokafka": lambda _: Aiokafka(),
    "franz-go": FranzGo,
    "barnabas": lambda _: Ours(),
}
PASSWORD = "wonderland-1"
PASSWORDS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
WAYS = (*PASSWORDS, "OAUTHBEARER", "certificate", "delegation token")


class Door:
    """A node of `start --secure`, whose owner has given ada every way in."""

    def __init__(self, folder: Path, issuer: Issuer) -> None:
        self.home, self._folder, self._issuer = folder / "data", folder, issuer
        self.mutual = f"127.0.0.1:{free_port()}"
        self.ca = str(self.home / "certs" / "ca.pem")
        self.strangers = Authority(folder / "strangers", "another authority")
        with secure(self.home, "--port", "0"):
            pass
        self._edit(self.home / "node.properties")
        self.node: SecureNode

    def _edit(self, file: Path) -> None:
        """Tokens of an issuer, delegation tokens, and a listener for who has a certificate."""
        lines = []
        for line in file.read_text().splitlines():
            name = line.partition("=")[0]
            if name == "listeners":
                line += f",MUTUAL://{self.mutual}"
            elif name == "listener.security.protocol.map":
                line += ",MUTUAL:SSL"
            elif name == "sasl.enabled.mechanisms":
                line += ",OAUTHBEARER"
            lines.append(line)
        more = taking(f"{self._issuer.url}/keys") | {
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.mutual.ssl.principal.mapping.rules": "RULE:^CN=([^,]*).*$/$1/,DEFAULT",
            "delegation.token.secret.key": "a-secret-of-all-nodes",
        }
        del more["sasl.enabled.mechanisms"]
        lines += [f"{name}={value}" for name, value in more.items()]
        file.write_text("\n".join(lines) + "\n")

    def let_ada_in(self, capsys: pytest.CaptureFixture[str]) -> None:
        admin = ["-b", self.node.address, "--command-config", str(self.home / "admin.properties")]
        password = self._folder / "password"
        password.write_text(PASSWORD)
        for line in (
            "users add ada --mechanism SCRAM-SHA-512 --mechanism SCRAM-SHA-256 --password-file {password}",
            "acls add --allow-principal User:ada --operation Create --operation Read --operation Write --topic *",
            "acls add --allow-principal User:ada --operation Read --group *",
        ):
            assert main([*line.format(password=password).split(), *admin]) == 0, capsys.readouterr().err
        assert main(["certs", "issue", str(self.home / "certs"), "ada"]) == 0, capsys.readouterr().err
        ada = self._folder / "ada.properties"
        ada.write_text("".join(f"{k}={v}\n" for k, v in self.node.login("ada", PASSWORD).items()))
        capsys.readouterr()
        made = ["tokens", "create", "--json", "-b", self.node.address, "--command-config", str(ada)]
        assert main(made) == 0, capsys.readouterr().err
        self.token = json.loads(capsys.readouterr().out)["token"]

    def way(self, way: str) -> tuple[str, How]:
        """The listener, and what ada shows there."""
        if way == "certificate":
            return self.mutual, How(self.ca, certificate=str(self.home / "certs" / "ada.pem"))
        if way == "delegation token":
            by_token = How(self.ca, "SCRAM-SHA-512", self.token["id"], self.token["password"], by_token=True)
            return self.node.address, by_token
        secret = token("RS256", scope="kafka") if way == "OAUTHBEARER" else PASSWORD
        return self.node.address, How(self.ca, way, "ada", secret)

    def wrong(self, way: str) -> tuple[str, How]:
        """The same with a wrong secret: another one of the same kind."""
        address, how = self.way(way)
        if way == "certificate":
            return address, how._replace(certificate=str(self.strangers.issue("ada")))
        if way == "OAUTHBEARER":
            return address, how._replace(secret=token("RS256", aud="somebody-else", scope="kafka"))
        return address, how._replace(secret="wonderland-2")

    def says(self, event: str, reason: str, within: float = 5.0) -> bool:
        """Whether the node's log has the reason (its lines are written beside the answer)."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            lines = self.node.log.read_text().splitlines()
            if any(event in line and reason in line for line in lines):
                return True
            time.sleep(0.05)
        return False


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with Issuer("RS256") as running:
        yield running


@pytest.fixture(scope="module", params=CLIENTS)
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Client:
    if request.param == "java":
        request.getfixturevalue("apache")
    return CLIENTS[request.param](tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def running(client: Client, issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A node for each client: what its log says is said of this one."""
    made = Door(tmp_path_factory.mktemp("secure"), issuer)
    with secure(made.home) as made.node:
        yield made


@pytest.fixture
def door(running: Door, capsys: pytest.CaptureFixture[str]) -> Door:
    if not hasattr(running, "token"):
        running.let_ada_in(capsys)
    return running


@pytest.mark.parametrize("way", WAYS)
def test_a_thousand_records_go_there_and_back(client: Client, door: Door, way: str) -> None:
    if way == "delegation token" and not client.takes_tokens:
        pytest.skip("this client has no login with delegation tokens")
    address, how = door.way(way)
    assert client.there_and_back(address, f"by-{way.replace(' ', '-')}", how) == VALUES


REASONS = {
    "OAUTHBEARER": ("login.refused", "the token is for 'somebody-else'"),
    "certificate": ("tls.refused", "the client's certificate is not taken"),
    "delegation token": ("login.refused", "the password of delegation token"),
}
"""What the log says; with a wrong password: that it is wrong, and whose."""
OWN_WORDS = {
    Librdkafka: {"": "_AUTHENTICATION", "certificate": "alert unknown ca"},
    Java: {"": "SaslAuthenticationException", "certificate": "SslAuthenticationException"},
    KafkaPython: {"": "SaslAuthenticationFailedError", "certificate": "ALERT_UNKNOWN_CA"},
    Aiokafka: {
        "": "SaslAuthenticationFailed",
        "OAUTHBEARER": "Connection at",  # (it takes the server's JSON for a success: the end surprises it)
        "certificate": "Connection at",
    },
    FranzGo: {
        "": "SASL_AUTHENTICATION_FAILED",
        "OAUTHBEARER": "unexpected data in oauth response",  # (its words for the server's JSON)
        "certificate": "unknown certificate authority",
    },
    Ours: {"": "AuthenticationFailed", "certificate": "does not trust the authority"},
}
"""How each client names a login that is refused, and where it says it in another way."""


@pytest.mark.parametrize("way", WAYS)
def test_a_wrong_secret_is_refused_in_the_clients_own_words_and_the_node_says_why(
    client: Client, door: Door, way: str
) -> None:
    if way == "delegation token" and not client.takes_tokens:
        pytest.skip("this client has no login with delegation tokens")
    said = client.refused(*door.wrong(way))
    words = OWN_WORDS[type(client)]  # type: ignore[index]
    assert words.get(way, words[""]) in said, said
    event, reason = REASONS.get(way, ("login.refused", f"mechanism={way}"))
    assert door.says(event, reason), door.node.log.read_text()[-3000:]
    if way in PASSWORDS:
        assert door.says("login.refused", "the password of user ada is wrong")


def test_a_client_without_a_certificate_is_told_so(client: Client, door: Door) -> None:
    assert client.refused(door.mutual, How(door.ca))
    assert door.says("tls.refused", "the client shows no certificate")


def test_a_client_that_does_not_trust_the_node_says_so(client: Client, door: Door) -> None:
    _, how = door.way("SCRAM-SHA-512")
    said = client.refused(door.node.address, how._replace(ca=str(door.strangers.ca)))
    assert "certificate" in said or "SslAuthenticationException" in said, said
    assert door.says("tls.refused", "trust") or door.says("tls.refused", "does not take this node")
