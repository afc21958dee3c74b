"""franz-go at every kind of listener: it logs in, and says in its own words what is wrong.  Needs Go."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.compat import test_bearer_logins, test_sasl_ssl_clients, test_tls_clients
from tests.compat.test_bearer_logins import Node
from tests.compat.test_sasl_ssl_clients import MECHANISMS, Door
from tests.compat.test_tls_clients import SecuredNode
from tests.issuer import token

pytestmark = [
    pytest.mark.compat,
    pytest.mark.skipif(not shutil.which("go"), reason="franz-go needs Go"),
]

RECORDS = 1000
door, secured, node = test_sasl_ssl_clients.door, test_tls_clients.secured, test_bearer_logins.node
Client = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    """`client(address, topic, ca, mechanism, user, secret, ...)` -> its exit code and what it printed."""
    folder = tmp_path_factory.mktemp("franz_go") / "source"
    shutil.copytree(Path(__file__).parent / "franz_go", folder)
    for step in (["go", "mod", "tidy"], ["go", "build", "-o", "franz_go", "."]):
        done = subprocess.run(step, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            pytest.skip(f"franz-go could not be fetched or built: {done.stderr[-300:]}")

    def run(address: str, topic: str, *words: str) -> tuple[int, str]:
        command = [folder / "franz_go", address, topic, str(RECORDS), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout.strip()

    return run


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_sasl_ssl(client: Client, door: Door, mechanism: str) -> None:
    where = (door.node.address, f"franz-go-{mechanism}", door.ca, mechanism, "admin")
    assert client(*where, door.password) == (0, str(RECORDS))
    code, said = client(*where, "wrong")
    assert code == 1 and "SASL_AUTHENTICATION_FAILED" in said


def test_a_certificate_of_its_own_and_none(client: Client, secured: SecuredNode) -> None:
    ca, own = str(secured.authority.ca), str(secured.client)
    assert client(secured.address("TLS"), "franz-go-TLS", ca, "-", "", "") == (0, str(RECORDS))
    mutual = (secured.address("MUTUAL"), "franz-go-MUTUAL", ca, "-", "", "")
    assert client(*mutual, own) == (0, str(RECORDS))
    code, said = client(*mutual)
    assert code == 1 and "certificate required" in said
    assert "no certificate" in secured.refusals()


def test_a_token(client: Client, node: Node) -> None:
    where = (node.login, "franz-go", "-", "OAUTHBEARER", "")
    assert client(*where, token("RS256")) == (0, str(RECORDS))
    code, said = client(*where, token("RS256", aud="somebody-else"))
    assert (code, said) == (1, "unexpected data in oauth response")  # (its words for the server's JSON)
