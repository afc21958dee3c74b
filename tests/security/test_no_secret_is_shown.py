"""A marker in every setting that holds a secret, and everywhere that a node or a command says something."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.client.certificates import Authority

from barnabas.cli.main import main
from barnabas.client.blocking import BlockingConnection
from barnabas.settings import SETTINGS
from barnabas.testing.cluster import free_ports
from barnabas.wire.schemas.configs import DescribeConfigsRequest, DescribeConfigsResource

MARKER = "Xs3cr3tX"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def one_line(pem: bytes) -> str:
    return pem.decode().strip().replace("\n", "\\n")


class Marked:
    """A node that has the marker in each secret; what it said is in `log`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.ports = folder, free_ports(4)
        self.log = folder / "log"
        authority = Authority(folder / "certs")
        hidden = authority.issue("node", password=MARKER)
        key, end, chain = hidden.read_bytes().partition(b"-----END ENCRYPTED PRIVATE KEY-----")
        self.key_line = key.decode().splitlines()[2]
        (folder / "passwords.properties").write_text(f"key={MARKER}\n")
        login, inline = "listener.name.login", "listener.name.inline"
        names = ("OPEN", "LOGIN", "INLINE", "CONTROLLER")
        where = zip(names, range(self.ports, self.ports + 4), strict=True)
        self.settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in where),
            "listener.security.protocol.map": "OPEN:PLAINTEXT,LOGIN:SASL_SSL,INLINE:SSL,CONTROLLER:PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            f"{login}.plain.sasl.jaas.config": f'{MODULE} required user_bob="{MARKER}";',
            f"{login}.ssl.keystore.location": str(hidden),
            f"{login}.ssl.key.password": "${file:" + f"{folder}/passwords.properties:key" + "}",
            f"{inline}.ssl.keystore.key": one_line(key + end),
            f"{inline}.ssl.keystore.certificate.chain": one_line(chain),
            f"{inline}.ssl.key.password": "${env:TEST_MARKER}",
            "ssl.truststore.certificates": one_line(authority.ca.read_bytes()),
            **dict.fromkeys(("ssl.keystore.password", "ssl.truststore.password", "ssl.key.password"), MARKER),
            "barnabas.http.listener": f"127.0.0.1:{free_ports()}",
            "delegation.token.secret.key": MARKER,
            "barnabas.events.level": "debug",
            "log.dirs": str(folder / "data"),
        }
        self.file = self.written("node.properties", self.settings)
        self.login = self.written(
            "client.properties",
            {
                "security.protocol": "SASL_SSL",
                "ssl.ca.location": str(authority.ca),
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": f'{MODULE} required username="bob" password="{MARKER}";',
            },
        )

    def written(self, name: str, settings: dict[str, str]) -> str:
        path = self.folder / name
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        path.chmod(0o644)
        return str(path)

    def start(self) -> None:
        command = [sys.executable, "-m", "barnabas"]
        environment = {**os.environ, "TEST_MARKER": MARKER}
        formatting = ["storage", "format", "--standalone", "-t", "5L6g3nShT-eMCtK--X86sw", "-c", self.file]
        subprocess.run([*command, *formatting], check=True, env=environment, stdout=subprocess.DEVNULL)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "start", self.file], env=environment, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self.process.stdout is not None
        said = []
        for line in self.process.stdout:
            said.append(line)
            if "durability" in line:
                break
        self.said = "".join(said)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Marked]:
    marked = Marked(tmp_path_factory.mktemp("marked"))
    marked.start()
    yield marked
    marked.stop()


def test_every_secret_of_the_table_is_planted(node: Marked) -> None:
    planted = {name.split(".", 3)[-1] if name.startswith("listener.") else name for name in node.settings}
    assert {name for name, row in SETTINGS.items() if row.kind == "password"} <= planted


def test_the_api_describes_no_secret(node: Marked) -> None:
    connection = BlockingConnection("127.0.0.1", node.ports)
    resources = [DescribeConfigsResource(resource_type=4, resource_name=name) for name in ("1", "")]
    request = DescribeConfigsRequest(resources=resources, include_synonyms=True, include_documentation=True)
    said = repr(connection.request(request))
    connection.close()
    assert "ssl.key.password" in said
    assert MARKER not in said and node.key_line not in said


def test_commands_show_no_secret(
    node: Marked, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_MARKER", MARKER)
    address = f"localhost:{node.ports + 1}"
    cluster = ["-b", address, "--command-config", node.login, "--json"]
    done = [
        ["configs", "show", "broker", "1", "--all", *cluster],
        ["cluster", "id", *cluster],
        ["brokers", "list", *cluster],
        ["users", "list", *cluster],
        ["quorum", "describe", "--status", *cluster],
    ]
    assert [main(words) for words in done] == [0] * len(done)
    wrong = node.written("wrong.properties", {"security.protocol": "SASL_SSL", "sasl.password": MARKER})
    settings = node.settings
    jaas = "listener.name.login.plain.sasl.jaas.config"
    broken = [
        {jaas: f'com.example.Module required user_bob="{MARKER}";'},
        {jaas: f"{MODULE} required user_bob={MARKER}"},
        {jaas: f"{MARKER} {MARKER}"},
        {"listener.name.login.ssl.key.password": f"{MARKER}-wrong"},
        {"listener.name.inline.ssl.keystore.key": MARKER},
        {
            "listener.name.login.ssl.keystore.password": MARKER,
            "listener.name.login.ssl.keystore.type": "PKCS12",
        },
        {"ssl.key.password": "${file:" + f"{node.folder}/passwords.properties:{'absent'}" + "}"},
    ]
    refused = [["cluster", "id", *cluster[:2], "--command-config", wrong]]
    for number, change in enumerate(broken):
        other = {**settings, **change, "listeners": re.sub(r":\d+", ":0", settings["listeners"])}
        other |= {"barnabas.http.listener": "127.0.0.1:0", "log.dirs": str(node.folder / f"data{number}")}
        file = node.written(f"broken{number}.properties", other)
        main(["storage", "format", "--standalone", "-t", "5L6g3nShT-eMCtK--X86sw", "-c", file])
        refused.append(["start", file])
    assert 0 not in [main(words) for words in refused]
    said = "".join(capfd.readouterr())
    assert "ssl.key.password" in said and "which we do not load" in said
    assert MARKER not in said and node.key_line not in said


def test_pages_logs_and_the_list_of_processes_show_no_secret(node: Marked) -> None:
    http = node.settings["barnabas.http.listener"]
    said = node.said + node.log.read_text()
    for page in ("/metrics", "/metrics?names=jmx", "/health/ready", "/health/live"):
        with urllib.request.urlopen(f"http://{http}{page}", timeout=20) as answer:
            said += answer.read().decode()
    said += Path(f"/proc/{node.process.pid}/cmdline").read_text()
    assert "secret.readable" in said, "the properties and the key are for everybody to read"
    assert MARKER not in said and node.key_line not in said


def test_what_a_node_makes_is_for_its_owner_alone(node: Marked) -> None:
    made = node.folder / "data"
    assert made.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in made.iterdir() if path.is_dir())
