"""`barnabas start --secure`: in an empty directory, a node that only its owner can use.

The directory gets an authority, the node's certificate, the node's properties, a super user `admin` with a
password that nobody has seen, and what a client needs to log in as it.  From then on the node is started from
these files; `node.properties` is there to be edited.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import socket
import tempfile
from pathlib import Path

from barnabas.errors import ConfigError, StorageError

__all__ = ["ADMIN", "NODE", "next_steps", "prepare"]

NODE, ADMIN = "node.properties", "admin.properties"
_HOME = "barnabas-data"
_ITERATIONS = 16_384
_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"
_DAYS, _AUTHORITY_DAYS = 825, 3650


def prepare(args: argparse.Namespace) -> Path:
    """The node's properties: those that are there, or new ones with all that they name.  Raises ConfigError."""
    if args.properties is not None or args.nodes is not None or args.bootstrap or args.join:
        raise ConfigError(
            "--secure makes a node with properties of its own: it goes without FILE, --nodes, --bootstrap, --join",
            next_step="barnabas start --secure --data DIR; then edit DIR/node.properties",
        )
    home = Path(args.data or _HOME).absolute()
    if (home / NODE).exists():
        if args.port is not None:
            raise ConfigError(
                f"{home / NODE} says where the node listens",
                next_step="change `listeners` there, without --port",
            )
        return home / NODE
    if home.exists() and (not home.is_dir() or any(home.iterdir())):
        raise ConfigError(
            f"{home} is not empty, and has no {NODE}",
            next_step="give another directory: barnabas start --secure --data DIR",
        )
    try:
        _make(home, 9092 if args.port is None else args.port)
    except OSError as error:
        raise StorageError(f"cannot write {home}: {error.strerror}", next_step="check the path") from error
    return home / NODE


def _make(home: Path, port: int) -> None:
    """Make everything beside `home`, and give it its name when it is whole."""
    from barnabas.cli.certs.authority import issue, make_authority

    home.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{home.name}-", dir=home.parent))  # mode 0700
    try:
        make_authority(new / "certs", f"Barnabas authority of {socket.gethostname()}"[:60], _AUTHORITY_DAYS)
        issue(new / "certs", "node1", _hosts(), _DAYS, new / "certs" / "node1.pem")
        password = secrets.token_urlsafe(24)
        settings = _settings(home, port)
        _format(settings | {"log.dirs": str(new / "logs")}, password)
        client = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{_LOGIN} required username="admin" password="{password}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(home / "certs" / "ca.pem"),
        }
        _write(new / ADMIN, client)
        _write(new / NODE, settings)
        os.rename(new, home)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def _hosts() -> list[str]:
    """The names by which this machine is dialled."""
    name = socket.gethostname()
    return ["localhost", "127.0.0.1", "::1", *([name] if name.isascii() and name != "localhost" else [])]


def _settings(home: Path, port: int) -> dict[str, str]:
    ports = [port, port + 1, port + 2] if port else [0, 0, 0]
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"CLIENTS://127.0.0.1:{ports[0]},CONTROLLER://127.0.0.1:{ports[1]},NODES://127.0.0.1:{ports[2]}",
        "listener.security.protocol.map": "CLIENTS:SASL_SSL,CONTROLLER:SSL,NODES:SSL",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "NODES",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256,PLAIN",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(home / "certs" / "node1.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(home / "certs" / "ca.pem"),
        "listener.name.nodes.ssl.client.auth": "required",
        "listener.name.controller.ssl.client.auth": "required",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:CN=node1",
        "log.dirs": str(home / "logs"),
    }


def _format(settings: dict[str, str], password: str) -> None:
    from barnabas.config import Config
    from barnabas.log.files.disk import OsDisk
    from barnabas.server.loop.system import SystemClock, SystemRandomness
    from barnabas.server.node.first_users import scram_record
    from barnabas.server.node.format import FormatPlan, format_directories, generate_cluster_id

    user = f"SCRAM-SHA-512=[name=admin,iterations={_ITERATIONS},password={password}]"
    config, random = Config.load(settings), SystemRandomness()
    plan = FormatPlan.of(config, generate_cluster_id(random), standalone=True, users=[scram_record(user)])
    format_directories(OsDisk(), SystemClock(), random, plan)


def _write(path: Path, settings: dict[str, str]) -> None:
    """A property file that only its owner can read."""
    lines = "".join(f"{name}={value}\n" for name, value in settings.items())
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(lines)
        file.flush()
        os.fsync(file.fileno())


def next_steps(properties: Path, address: str) -> list[str]:
    """What the owner types next."""
    with_login = f"-b {address} --command-config {properties.parent / ADMIN}"
    return [
        "  secure        TLS and logins for clients, certificates between nodes, ACLs: only `admin` has rights",
        f"next: barnabas topics create greetings {with_login}",
        f"      barnabas users add alice {with_login}",
        f"      barnabas acls add --allow-principal User:alice --producer --topic greetings {with_login}",
        f"      alice needs {properties.parent / 'certs' / 'ca.pem'} and her password; {ADMIN} shows the rest",
    ]
