"""kafka-python, aiokafka, and our own client."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

from tests.compat.clients import RECORDS, VALUES, How, logged

from barnabas import Consumer, Producer
from barnabas.errors import BarnabasError

__all__ = ["Aiokafka", "KafkaPython", "Ours"]


async def _awaited(secret: str) -> str:
    return secret


def _settings(address: str, how: How, base: type[Any], token: Callable[[str], Any]) -> dict[str, Any]:
    """The options whose names kafka-python and aiokafka share.  `base` is the library's token provider."""

    class Bringing(base):  # type: ignore[misc,unused-ignore]
        def __init__(self) -> None:
            """Without the options of its base."""

        def token(self) -> Any:
            return token(how.secret)

    context = ssl.create_default_context(cafile=how.ca)
    if how.certificate:
        context.load_cert_chain(how.certificate)
    found: dict[str, Any] = {
        "bootstrap_servers": address,
        "security_protocol": "SASL_SSL" if how.mechanism else "SSL",
        "ssl_context": context,
    }
    if how.mechanism:
        found["sasl_mechanism"] = how.mechanism
    if how.mechanism == "OAUTHBEARER":
        return found | {"sasl_oauth_token_provider": Bringing()}
    if how.mechanism:
        return found | {"sasl_plain_username": how.user, "sasl_plain_password": how.secret}
    return found


class KafkaPython:
    """It has no login with delegation tokens."""

    takes_tokens = False

    def there_and_back(self, address: str, topic: str, how: How) -> list[bytes]:
        from kafka import KafkaConsumer, KafkaProducer

        settings = self._settings(address, how)
        producer = KafkaProducer(**settings)
        for value in VALUES:
            producer.send(topic, value)
        producer.flush(30)
        producer.close()
        consumer = KafkaConsumer(
            topic, group_id=topic, auto_offset_reset="earliest", consumer_timeout_ms=20_000, **settings
        )
        found = [message.value for _, message in zip(range(RECORDS), consumer, strict=False)]
        consumer.close()
        return found

    def refused(self, address: str, how: How) -> str:
        """(It tries again until its time is over, and says in its log why.)"""
        from kafka import KafkaProducer
        from kafka.errors import KafkaError

        with logged("kafka") as lines:
            try:
                KafkaProducer(**self._settings(address, how), bootstrap_timeout_ms=8000).close()
            except KafkaError as error:
                return "\n".join([*lines, repr(error)])
        raise AssertionError("it was let in")

    def _settings(self, address: str, how: How) -> dict[str, Any]:
        from kafka.net.sasl.oauth import AbstractTokenProvider

        return _settings(address, how, AbstractTokenProvider, str)


class Aiokafka:
    """It has no login with delegation tokens."""

    takes_tokens = False

    def there_and_back(self, address: str, topic: str, how: How) -> list[bytes]:
        from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

        async def both_ways() -> list[bytes]:
            async with AIOKafkaProducer(**self._settings(address, how)) as producer:
                for value in VALUES:
                    await producer.send(topic, value)
                await producer.flush()
            found: list[bytes] = []
            consumer = AIOKafkaConsumer(
                topic, group_id=topic, auto_offset_reset="earliest", **self._settings(address, how)
            )
            async with consumer, asyncio.timeout(30):
                while len(found) < RECORDS:
                    found.append((await consumer.getone()).value)
            return found

        return asyncio.run(both_ways())

    def refused(self, address: str, how: How) -> str:
        from aiokafka import AIOKafkaProducer
        from aiokafka.errors import KafkaError

        async def start() -> None:
            producer = AIOKafkaProducer(**self._settings(address, how))
            try:
                await producer.start()
            finally:
                await producer.stop()

        with logged("aiokafka") as lines:
            try:
                asyncio.run(start())
            except KafkaError as error:
                return "\n".join([*lines, repr(error)])
        raise AssertionError("it was let in")

    def _settings(self, address: str, how: How) -> dict[str, Any]:
        from aiokafka.abc import AbstractTokenProvider

        return _settings(address, how, AbstractTokenProvider, _awaited)


class Ours:
    """The client of this repository."""

    takes_tokens = True

    def there_and_back(self, address: str, topic: str, how: How) -> list[bytes]:
        security = self._security(how)
        with Producer(address, security=security, compression="zstd") as producer:
            for value in VALUES:
                producer.send(topic, value)
        with Consumer(address, topic, group=topic, security=security, start="earliest") as consumer:
            return [message.value or b"" for _, message in zip(range(RECORDS), consumer, strict=False)]

    def refused(self, address: str, how: How) -> str:
        try:
            with Producer(address, security=self._security(how)) as producer:
                producer.send("refused", b"").result(10)
        except BarnabasError as error:
            return f"{type(error).__name__}: {error}"
        raise AssertionError("it was let in")

    def _security(self, how: How) -> dict[str, str]:
        found = {"security.protocol": "SASL_SSL" if how.mechanism else "SSL", "ssl.ca.location": how.ca}
        if how.certificate:
            found |= {"ssl.certificate.location": how.certificate, "ssl.key.location": how.certificate}
        if how.mechanism:
            found["sasl.mechanism"] = how.mechanism
        if how.by_token:
            login = f'username="{how.user}" password="{how.secret}" tokenauth="true"'
            module = "org.apache.kafka.common.security.scram.ScramLoginModule"
            return found | {"sasl.jaas.config": f"{module} required {login};"}
        if how.mechanism == "OAUTHBEARER":
            return found | {"sasl.oauthbearer.token": how.secret}
        return found | ({"sasl.username": how.user, "sasl.password": how.secret} if how.mechanism else {})
