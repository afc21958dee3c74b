"""An Apache Kafka that asks who is there: TLS, mTLS, and SASL with four mechanisms."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

from tests.client.certificates import Authority
from tests.compat.conftest import KAFKA, free_port, kafka_class

__all__ = ["SecuredKafka", "unsigned_token"]

SECURITY = "org.apache.kafka.common.security"
LISTENERS = {
    "PLAIN": "PLAINTEXT",
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "LOGIN": "SASL_SSL",
    "SHORT": "SASL_PLAINTEXT",
    "CONTROLLER": "PLAINTEXT",
}


class SecuredKafka:
    """`kafka.address("LOGIN")` is the listener with SASL over TLS; SHORT has sessions of 2 s."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder / "certificates")
        self.broker = self.authority.issue("broker")
        self.client = self.authority.issue("client")
        self.ports = {name: free_port() for name in LISTENERS}
        self.process: subprocess.Popen[bytes] | None = None
        self.properties = folder / "server.properties"
        self.properties.write_text("".join(f"{name}={value}\n" for name, value in self._settings().items()))

    def address(self, listener: str) -> str:
        return f"127.0.0.1:{self.ports[listener]}"

    def _settings(self) -> dict[str, str]:
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": self.address("CONTROLLER"),
            "listeners": listeners,
            "advertised.listeners": listeners,
            "inter.broker.listener.name": "PLAIN",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in LISTENERS.items()),
            "log.dirs": str(self.folder / "logs"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.broker),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.ca),
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.login.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER",
            "listener.name.short.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.short.scram-sha-512.connections.max.reauth.ms": "2000",
            "listener.name.login.plain.sasl.jaas.config": f"{SECURITY}.plain.PlainLoginModule required "
            'user_ada="plain-secret";',
            "listener.name.login.oauthbearer.sasl.jaas.config": f"{SECURITY}.oauthbearer."
            "OAuthBearerLoginModule required;",
        }
        for listener in ("login", "short"):
            for mechanism in ("scram-sha-256", "scram-sha-512"):
                name = f"listener.name.{listener}.{mechanism}.sasl.jaas.config"
                settings[name] = f"{SECURITY}.scram.ScramLoginModule required;"
        return settings

    def start(self, within: float = 90.0) -> SecuredKafka:
        kafka_class(
            "kafka.tools.StorageTool",
            *("format", "--standalone", "-t", "5L6g3nShT-eMCtK--X86sw", "-c", str(self.properties)),
            *("--add-scram", "SCRAM-SHA-256=[name=ada,password=secret-256]"),
            *("--add-scram", "SCRAM-SHA-512=[name=ada,iterations=8192,password=secret-512]"),
        )
        log = self.folder / "server.log"
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [KAFKA / "broker-class.sh", self.properties],
                stdout=file,
                stderr=file,
                start_new_session=True,
                env={**os.environ, "KAFKA_HEAP": "512m"},
            )
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            assert self.process.poll() is None, log.read_text()[-4000:]
            try:
                for port in self.ports.values():
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return self
            except OSError:
                time.sleep(0.1)
        raise AssertionError(f"no listener after {within} s\n{log.read_text()[-4000:]}")

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def login(self, mechanism: str, password: str = "", listener: str = "LOGIN") -> dict[str, str]:
        """The options of ada."""
        words = {"SCRAM-SHA-256": "secret-256", "SCRAM-SHA-512": "secret-512", "PLAIN": "plain-secret"}
        found = {"security.protocol": LISTENERS[listener], "sasl.mechanism": mechanism}
        if LISTENERS[listener] == "SASL_SSL":
            found["ssl.truststore.location"] = str(self.authority.ca)
        if mechanism == "OAUTHBEARER":
            return found | {"sasl.oauthbearer.token": unsigned_token("ada")}
        return found | {"sasl.username": "ada", "sasl.password": password or words[mechanism]}


def unsigned_token(name: str, seconds: int = 3600) -> str:
    """A token that nobody signed: what Apache Kafka takes where no keys are named."""
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": name, "iat": now, "exp": now + seconds})
    return (
        ".".join(base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts) + "."
    )
