"""Apache Kafka's own client, by its console tools."""

from __future__ import annotations

import os
from pathlib import Path
from unittest import mock

from tests.compat.clients import RECORDS, VALUES, How
from tests.compat.conftest import kafka_class, run_kafka_class

__all__ = ["Java"]

SECURITY = "org.apache.kafka.common.security"
_ALLOWED = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"


class Java:
    """A JVM for each of its tools."""

    takes_tokens = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = 0

    def there_and_back(self, address: str, topic: str, how: How) -> list[bytes]:
        where = ("--bootstrap-server", address, "--topic", topic, "--command-config", self._file(how))
        lines = "".join(f"{value.decode()}\n" for value in VALUES)
        until = (
            "--from-beginning",
            "--group",
            topic,
            "--max-messages",
            str(RECORDS),
            "--timeout-ms",
            "30000",
        )
        with self._environment():
            kafka_class("org.apache.kafka.tools.ConsoleProducer", *where, stdin=lines)
            read = kafka_class("org.apache.kafka.tools.consumer.ConsoleConsumer", *where, *until)
        return [word.encode() for word in read.split()]

    def refused(self, address: str, how: How) -> str:
        topics = ("org.apache.kafka.tools.TopicCommand", "--list", "--bootstrap-server", address)
        file = self._file(how)
        with self._environment():
            code, said = run_kafka_class(*topics, "--command-config", file)
        assert code, "it was let in"
        return said

    @property
    def _token(self) -> Path:
        return self._folder / "token.jwt"

    def _environment(self) -> mock._patch_dict:
        """Its clients fetch tokens from no URL and no file that has not been listed."""
        words = f"{_ALLOWED}.urls={self._token.as_uri()} {_ALLOWED}.files={self._token}"
        return mock.patch.dict(os.environ, {"KAFKA_OPTS": words})

    def _file(self, how: How) -> str:
        found = {
            "security.protocol": "SASL_SSL" if how.mechanism else "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": how.ca,
        }
        if how.certificate:
            found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": how.certificate}
        if how.mechanism:
            found |= {"sasl.mechanism": how.mechanism, "sasl.jaas.config": self._login(how)}
        if how.mechanism == "OAUTHBEARER":
            self._token.write_text(how.secret)
            found["sasl.oauthbearer.token.endpoint.url"] = self._token.as_uri()
            found["sasl.login.callback.handler.class"] = (
                f"{SECURITY}.oauthbearer.OAuthBearerLoginCallbackHandler"
            )
        self._files += 1
        path = self._folder / f"{self._files}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in found.items()))
        return str(path)

    def _login(self, how: How) -> str:
        if how.mechanism == "OAUTHBEARER":
            return f"{SECURITY}.oauthbearer.OAuthBearerLoginModule required;"
        module = "plain.PlainLoginModule" if how.mechanism == "PLAIN" else "scram.ScramLoginModule"
        more = ' tokenauth="true"' if how.by_token else ""
        return f'{SECURITY}.{module} required username="{how.user}" password="{how.secret}"{more};'
