"""A node whose users may have delegation tokens."""

from __future__ import annotations

import base64
from typing import Any

from barnabas.client.admin.users import set_password
from barnabas.client.blocking import BlockingConnection
from barnabas.client.cluster import Cluster as ClusterClient
from barnabas.client.security.options import Security
from barnabas.testing.cluster import Cluster, free_ports

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


class TokenNode:
    """One node: an open listener, and LOGIN, where ada and tom log in."""

    def __init__(self, secret: str = "a-secret-of-all-nodes", **settings: str) -> None:
        self.port = free_ports()
        self.login = f"127.0.0.1:{self.port}"
        own = {"delegation.token.secret.key": secret} if secret else {}
        self.cluster = Cluster(
            {
                "listeners": f"PLAINTEXT://127.0.0.1:0,LOGIN://{self.login},CONTROLLER://127.0.0.1:0",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
                "sasl.enabled.mechanisms": ",".join(MECHANISMS),
                "connection.failed.authentication.delay.ms": "5",
                **own,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )

    def add_users(self, password: str = "") -> None:
        admin = ClusterClient(self.cluster.bootstrap, client_id="test")
        for user in ("ada", "tom"):
            for mechanism in MECHANISMS:
                set_password(admin, user, password or f"{user}-secret", mechanism, 4096)
        admin.close()

    def connect(self, user: str = "ada", password: str = "") -> BlockingConnection:
        words = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": user,
            "sasl.password": password or f"{user}-secret",
        }
        return BlockingConnection("127.0.0.1", self.port, security=Security.parse(words))

    def bearer(self, made: Any, mechanism: str = "SCRAM-SHA-256") -> BlockingConnection:
        """A connection by a token that was made."""
        return BlockingConnection("127.0.0.1", self.port, security=by_token(made, mechanism))

    def plain(self) -> BlockingConnection:
        host, _, port = self.cluster.bootstrap.partition(":")
        return BlockingConnection(host, int(port))


def by_token(made: Any, mechanism: str) -> Security:
    """The options of who logs in with a token, as Java writes them."""
    word = base64.b64encode(bytes(made.hmac)).decode()
    return Security.parse(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{SCRAM} required username="{made.token_id}" password="{word}" tokenauth="true";',
        }
    )
