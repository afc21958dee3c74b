"""`barnabas certs`, word for word, and a node that works with what it makes."""

from __future__ import annotations

import json
import re
import ssl
from pathlib import Path

import pytest

from barnabas.cli.main import main
from barnabas.config import Config
from barnabas.server.net.tls.identity import Identity

pytest.importorskip("cryptography")


def test_an_authority_signs_for_nodes_and_users(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "certs"
    assert main(["certs", "init", str(folder)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Made the authority User:CN=Barnabas authority, valid until 20")
    assert f"next: barnabas certs issue {folder} node1 --host" in said
    assert main(["certs", "issue", str(folder), "node1", "--host", "node1.example.org,10.0.0.1"]) == 0
    said = capsys.readouterr().out
    assert f"ssl.keystore.location={folder}/node1.pem" in said
    assert f"ssl.truststore.location={folder}/ca.pem" in said
    assert main(["certs", "issue", str(folder), "CN=ada,O=Acme"]) == 0
    assert "security.protocol=SSL" in capsys.readouterr().out
    assert (folder.stat().st_mode & 0o777) == 0o700
    for name in ("ca.key", "node1.pem", "ada.pem"):
        assert (folder / name).stat().st_mode & 0o777 == 0o600

    assert main(["certs", "show", str(folder / "ada.pem")]) == 0
    said = re.sub(r"\d{4}-\S+", "DAY", capsys.readouterr().out)
    assert said == (
        "User:CN=ada,O=Acme\n  signed by   CN=Barnabas authority\n  hosts       -\n  valid       DAY to DAY\n"
        "User:CN=Barnabas authority\n  signed by   CN=Barnabas authority\n  hosts       -\n"
        "  valid       DAY to DAY\n"
    )
    assert main(["certs", "show", str(folder / "node1.pem"), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["certificates"][0]
    assert shown["hosts"] == ["node1.example.org", "10.0.0.1"]


def test_a_node_and_a_user_shake_hands_with_them(tmp_path: Path) -> None:
    folder = tmp_path / "certs"
    for words in (
        ["init", folder],
        ["issue", folder, "node", "--host", "127.0.0.1"],
        ["issue", folder, "ada"],
    ):
        assert main(["certs", *map(str, words)]) == 0
    settings = {
        "ssl.keystore.location": str(folder / "node.pem"),
        "ssl.truststore.location": str(folder / "ca.pem"),
        "ssl.client.auth": "required",
    }
    server = Identity(Config.load(settings), "PLAINTEXT")
    client = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    client.load_cert_chain(folder / "ada.pem")
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(back, there, server_hostname="127.0.0.1"),
        server.context.wrap_bio(there, back, server_side=True),
    )
    for _ in range(3):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert ends[1].getpeercert() is not None
    assert server.rules is not None and server.certificate.subject == "CN=node"


@pytest.mark.parametrize(
    ("words", "code", "why", "hint"),
    [
        (["init", "there"], 2, "exists already", "another directory"),
        (["issue", "nowhere", "ada"], 2, "has no authority", "certs init nowhere"),
        (["issue", "there", "ada"], 2, "exists already", "move that file away"),
        (["issue", "there", "CN=,"], 2, "is no name", "write ada"),
        (["issue", "there", "x", "--host", "é"], 2, "is no host name", "ASCII"),
        (["issue", "there", "x", "--days", "0"], 2, "number from 1 to", ""),
        (["show", "nowhere"], 4, "does not exist", "check the path"),
        (["show", "there/ca.key"], 2, "has no certificate", "PEM file"),
    ],
)
def test_a_slip_is_named_with_what_helps(
    words: list[str],
    code: int,
    why: str,
    hint: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["certs", "init", "there"]) == main(["certs", "issue", "there", "ada"]) == 0
    assert main(["certs", *words]) == code
    said = capsys.readouterr().err
    assert why in said and hint in said
