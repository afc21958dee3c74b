"""`barnabas doctor` against mistakes as people make them: each is named, with what helps."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.client.certificates import Authority

from barnabas.cli.doctor import cluster
from barnabas.cli.doctor.findings import Findings
from barnabas.cli.doctor.line import Address, says_http, speaks
from barnabas.cli.main import main
from barnabas.client.admin.users import set_password
from barnabas.client.cluster import Cluster as ClusterClient
from barnabas.controller.versions import LATEST
from barnabas.settings.table_access import STANDARD_AUTHORIZER
from barnabas.testing.cluster import Cluster, free_ports

LISTENERS = {
    "PLAINTEXT": "PLAINTEXT",
    "TLS": "SSL",
    "MTLS": "SSL",
    "EXPIRED": "SSL",
    "EARLY": "SSL",
    "NAMED": "SSL",
    "LOGIN": "SASL_PLAINTEXT",
    "SAFE": "SASL_SSL",
    "FAR": "PLAINTEXT",
}
SCRAM = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}
ADA = {"sasl.username": "ada", "sasl.password": "ada-secret"}


class Clinic:
    """A node with a listener for each mistake, and what clients have."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        authority, other = Authority(folder / "ours"), Authority(folder / "theirs", "another authority")
        first = free_ports(len(LISTENERS) + 2)
        self.ports = {name: first + number for number, name in enumerate((*LISTENERS, "HTTP", "NOBODY"))}
        self.ports["OLD"] = self.ports["WEB"] = self.ports["SILENT"] = 0
        node = authority.issue("node")
        stores = {
            "tls": node,
            "mtls": node,
            "safe": node,
            "expired": authority.issue("expired", expired=True),
            "early": authority.issue("early", early=True),
            "named": authority.issue("named", hosts=("kafka.example.org",)),
        }
        self.ca, self.other_ca = authority.ca, other.ca
        self.mine, self.theirs = authority.issue("client"), other.issue("client")
        self.hidden = authority.issue("hidden", password="the-password")
        self.late = authority.issue("late", expired=True)
        keys = [path.read_text().partition("-----BEGIN CERTIFICATE") for path in (self.mine, self.late)]
        self.mixed = folder / "mixed.pem"
        self.mixed.write_text(keys[0][0] + "".join(keys[1][1:]))
        self.jks = folder / "trust.jks"
        self.jks.write_bytes(b"\xfe\xed\xfe\xed" + bytes(20))
        settings = {
            "listeners": ",".join(f"{name}://127.0.0.1:{self.ports[name]}" for name in LISTENERS)
            + ",CONTROLLER://127.0.0.1:0",
            "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in LISTENERS.items())
            + ",CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "advertised.listeners": f"FAR://127.0.0.1:{self.ports['NOBODY']}",
            "ssl.truststore.location": str(authority.ca),
            "listener.name.mtls.ssl.client.auth": "required",
            "barnabas.http.listener": f"127.0.0.1:{self.ports['HTTP']}",
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": "User:ANONYMOUS",
            "connection.failed.authentication.delay.ms": "10",
            **{f"listener.name.{name}.ssl.keystore.location": str(path) for name, path in stores.items()},
        }
        self.cluster = Cluster(settings)

    def trusting(self, **more: str) -> dict[str, str]:
        return {"security.protocol": "SSL", "ssl.ca.location": str(self.ca)} | named(more)

    def showing(self, own: Path, **more: str) -> dict[str, str]:
        return self.trusting(**more) | {"ssl.keystore.location": str(own)}

    def at(self, listener: str, client: dict[str, str] | None, *flags: str, host: str = "127.0.0.1") -> int:
        words = ["doctor", f"{host}:{self.ports[listener]}", *flags]
        if client is not None:
            file = self.folder / "client.properties"
            file.write_text("".join(f"{name}={value}\n" for name, value in client.items()))
            words += ["--command-config", str(file)]
        return main(words)


def named(options: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in options.items()}


@contextlib.contextmanager
def answering(greets: bytes | ssl.SSLContext | None) -> Iterator[int]:
    """The port of a server that is no node: it says that, shakes hands, or only listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ended = threading.Event()

        def serve() -> None:
            while not ended.is_set():
                with contextlib.suppress(OSError):
                    line, _ = listening.accept()
                    with line:
                        if isinstance(greets, ssl.SSLContext):
                            greets.wrap_socket(line, server_side=True).close()
                        elif greets is not None:
                            line.recv(1000)
                            line.sendall(greets)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1]
        ended.set()
        socket.create_connection(listening.getsockname()).close()
        thread.join()


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clinic]:
    clinic = Clinic(tmp_path_factory.mktemp("clinic"))
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.load_cert_chain(clinic.mine)
    web = b"HTTP/1.1 400 Bad Request\r\n\r\n"
    with (
        clinic.cluster,
        answering(old) as clinic.ports["OLD"],
        answering(web) as clinic.ports["WEB"],
        answering(b"") as clinic.ports["SILENT"],
    ):
        admin = ClusterClient(f"127.0.0.1:{clinic.ports['PLAINTEXT']}", client_id="test")
        set_password(admin, "ada", "ada-secret", "SCRAM-SHA-512", 4096)
        admin.close()
        yield clinic


Client = Callable[[Clinic], dict[str, str] | None]


def nothing(clinic: Clinic) -> None:
    """No --command-config."""


class Mistake(NamedTuple):
    """What is wrong, where it is tried, with which options; the check that fails, and words of it."""

    what: str
    listener: str
    client: Client
    check: str
    says: str
    helps: str
    code: int = 1


MISTAKES: list[Mistake] = [
    Mistake(
        "plain at a TLS port", "TLS", nothing, "protocol", "speaks TLS, and we do not", "security.protocol="
    ),
    Mistake(
        "a login without TLS at a TLS port",
        "SAFE",
        lambda c: {**SCRAM, **ADA},
        "protocol",
        "speaks TLS",
        "SASL_SSL",
    ),
    Mistake(
        "TLS at a plain port",
        "PLAINTEXT",
        lambda c: c.trusting(),
        "protocol",
        "speaks no TLS",
        "TLS listener",
    ),
    Mistake(
        "another authority",
        "TLS",
        lambda c: c.trusting() | {"ssl.ca.location": str(c.other_ca)},
        "authority",
        "not signed by",
        "ssl.truststore.location",
    ),
    Mistake(
        "the system's authorities",
        "TLS",
        lambda c: {"security.protocol": "SSL"},
        "authority",
        "the system's authorities",
        "ssl.truststore.location",
    ),
    Mistake(
        "an expired certificate",
        "EXPIRED",
        lambda c: c.trusting(),
        "dates",
        "has expired on",
        "the clock is wrong",
    ),
    Mistake(
        "one that is not valid yet",
        "EARLY",
        lambda c: c.trusting(),
        "dates",
        "not valid before",
        "clock is wrong",
    ),
    Mistake(
        "another name",
        "NAMED",
        lambda c: c.trusting(),
        "name",
        "is for kafka.example.org, not for 127.0.0.1",
        "dial",
    ),
    Mistake(
        "no client certificate",
        "MTLS",
        lambda c: c.trusting(),
        "client certificate",
        "we show none",
        "ssl.keystore.location",
    ),
    Mistake(
        "one of another authority",
        "MTLS",
        lambda c: c.showing(c.theirs),
        "client certificate",
        "does not take ours",
        "ssl.truststore.location",
    ),
    Mistake(
        "one that has expired", "MTLS", lambda c: c.showing(c.late), "own files", "has expired on", "renew"
    ),
    Mistake(
        "no version in common",
        "OLD",
        lambda c: c.trusting(),
        "TLS versions",
        "speaks TLSv1.1 only",
        "ssl.enabled.protocols",
    ),
    Mistake(
        "another mechanism",
        "LOGIN",
        lambda c: {**SCRAM, **ADA, "sasl.mechanism": "PLAIN"},
        "mechanisms",
        "does not take PLAIN; it takes SCRAM-SHA-512",
        "sasl.mechanism",
    ),
    Mistake(
        "a wrong password",
        "LOGIN",
        lambda c: {**SCRAM, **ADA, "sasl.password": "x"},
        "login",
        "no such user, or the password is another",
        "login.refused",
    ),
    Mistake(
        "an unknown user",
        "LOGIN",
        lambda c: {**SCRAM, **ADA, "sasl.username": "eve"},
        "login",
        "no such user, or the password is another",
        "users list",
    ),
    Mistake("no login", "LOGIN", nothing, "login", "asks for a login (SCRAM-SHA-512)", "SASL_PLAINTEXT"),
    Mistake("no login over TLS", "SAFE", lambda c: c.trusting(), "login", "asks for a login", "SASL_SSL"),
    Mistake(
        "a login where none is",
        "PLAINTEXT",
        lambda c: {**SCRAM, **ADA},
        "mechanisms",
        "asks for no login",
        "security.protocol=PLAINTEXT",
    ),
    Mistake(
        "key and certificate of two",
        "TLS",
        lambda c: c.showing(c.mixed),
        "own files",
        "key does not belong to its certificate",
        "name the key",
    ),
    Mistake(
        "a wrong key password",
        "TLS",
        lambda c: c.showing(c.hidden, ssl_key_password="x"),
        "own files",
        "key cannot be read",
        "ssl.key.password",
    ),
    Mistake(
        "no key password",
        "TLS",
        lambda c: c.showing(c.hidden),
        "own files",
        "is encrypted",
        "ssl.key.password",
    ),
    Mistake(
        "a file of Java's",
        "TLS",
        lambda c: {"security.protocol": "SSL", "ssl.truststore.location": str(c.jks)},
        "own files",
        "is a JKS file",
        "keytool",
    ),
    Mistake(
        "no such file",
        "TLS",
        lambda c: {"security.protocol": "SSL", "ssl.truststore.location": "/no/such"},
        "own files",
        "cannot read /no/such",
        "check the path",
    ),
    Mistake(
        "an option of another protocol",
        "TLS",
        lambda c: {"ssl.truststore.location": "x"},
        "own settings",
        "has no effect",
        "security.protocol",
    ),
    Mistake("the port of /metrics", "HTTP", nothing, "protocol", "web server", "listeners"),
    Mistake("a web server", "WEB", lambda c: c.trusting(), "protocol", "web server", "listeners"),
    Mistake("something else", "SILENT", nothing, "protocol", "neither", "check the port"),
    Mistake(
        "an address that nobody reaches",
        "FAR",
        nothing,
        "broker 0",
        "cannot be reached from here",
        "advertised.listeners",
    ),
    Mistake("a closed port", "NOBODY", nothing, "reachable", "nobody listens", "listener.listening", 3),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=[one.what for one in MISTAKES])
def test_each_mistake_is_named_with_what_helps(
    clinic: Clinic, mistake: Mistake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert clinic.at(mistake.listener, mistake.client(clinic), "--json") == mistake.code
    said = json.loads(capsys.readouterr().out)
    failed = [row for row in said["checks"] if row["state"] == "failed"]
    names = [row["check"].partition(" ")[0] if "broker" in mistake.check else row["check"] for row in failed]
    assert names == [mistake.check.partition(" ")[0] if "broker" in mistake.check else mistake.check], failed
    assert mistake.says in failed[0]["said"] and mistake.helps in failed[0]["next"]
    assert not said["ok"]


HEALTHY: list[tuple[str, Client]] = [
    ("PLAINTEXT", nothing),
    ("TLS", lambda c: c.trusting()),
    ("MTLS", lambda c: c.showing(c.mine)),
    ("LOGIN", lambda c: {**SCRAM, **ADA}),
    ("SAFE", lambda c: c.trusting() | SCRAM | ADA | {"security.protocol": "SASL_SSL"}),
]


@pytest.mark.parametrize(("listener", "client"), HEALTHY)
def test_where_nothing_is_wrong_nothing_fails(
    clinic: Clinic, listener: str, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    assert clinic.at(listener, client(clinic)) == 0
    out = capsys.readouterr().out
    assert "failed" not in out and "cluster" in out and "can be reached" in out
    assert "a node of this release can join" in out


def test_a_cluster_that_a_node_of_this_release_cannot_join_is_told_with_both_ranges() -> None:
    found = Findings()
    levels: dict[str, int]
    for levels in ({}, {"metadata.version": 30}, {"metadata.version": LATEST + 1}):
        cluster.examine_levels(levels, found)
    ok, warning = found.rows
    assert ok.said == "metadata.version is at 30 (4.3-IV0); a node of this release can join"
    assert warning.said.startswith(
        "a node of this release cannot join: it supports metadata.version 7 (3.3-IV3)"
    )
    assert warning.said.endswith(f"not {LATEST + 1}") and "a newer release" in warning.next


def test_a_name_that_nobody_knows(clinic: Clinic, capsys: pytest.CaptureFixture[str]) -> None:
    assert clinic.at("TLS", None, host="no-such-host.invalid") == 3
    assert "nobody knows the name no-such-host.invalid" in capsys.readouterr().out


def test_whoever_has_no_rights_is_told_where_to_look(
    clinic: Clinic, capsys: pytest.CaptureFixture[str]
) -> None:
    assert clinic.at("LOGIN", {**SCRAM, **ADA}) == 0
    out = capsys.readouterr().out
    assert "no topic can be seen" in out and "barnabas acls why" in out


@pytest.mark.parametrize("listener", ["PLAINTEXT", "TLS", "MTLS", "LOGIN"])
def test_a_door_that_stands_open_to_other_machines_is_said(
    clinic: Clinic, listener: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = dict(HEALTHY)[listener](clinic)
    assert clinic.at(listener, client) == 0
    assert "open to all" not in capsys.readouterr().out, "other machines do not reach it"
    monkeypatch.setattr(cluster, "is_this_machine", lambda host: False)
    assert clinic.at(listener, client) == 0, "it works, and somebody should look"
    assert ("open to all" in capsys.readouterr().out) == (listener in ("PLAINTEXT", "TLS"))


def test_which_addresses_are_this_machines() -> None:
    for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST"):
        assert cluster.is_this_machine(host)
    for host in ("10.0.0.1", "0.0.0.0", "node1.example.org", "127.0.0.1.example.org", ""):
        assert not cluster.is_this_machine(host)


def test_no_secret_of_the_client_is_shown(clinic: Clinic, capsys: pytest.CaptureFixture[str]) -> None:
    clinic.at("LOGIN", {**SCRAM, "sasl.username": "ada", "sasl.password": "Xs3cr3tX"})
    clinic.at("TLS", clinic.showing(clinic.hidden, ssl_key_password="Xs3cr3tX"))
    assert "Xs3cr3tX" not in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    "words", ["doctor a:1,b:2", "doctor nowhere", "doctor 127.0.0.1:1 --timeout 0", "doctor"]
)
def test_what_cannot_be_meant_is_wrong_usage(words: str) -> None:
    try:
        assert main(words.split()) == 2
    except SystemExit as ended:
        assert ended.code == 2


@pytest.mark.parametrize(
    "answer",
    [b"", b"\0", b"\0\0\0\x04\0\0\0\x09", b"\xff" * 64, b"HTTP", b"\x15\x03\x01\0\x02\x02\x28", b"\0" * 99],
)
def test_senseless_answers_end_no_examination(answer: bytes) -> None:
    with answering(answer) as port:
        assert speaks(Address("127.0.0.1", port, 5)) in ("", "TLS")
    assert not says_http(answer)
