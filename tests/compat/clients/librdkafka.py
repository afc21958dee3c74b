"""librdkafka, by confluent-kafka."""

from __future__ import annotations

import time
from typing import Any

from tests.compat.clients import RECORDS, VALUES, How

__all__ = ["Librdkafka"]


class Librdkafka:
    """It has no login with delegation tokens."""

    takes_tokens = False

    def there_and_back(self, address: str, topic: str, how: How) -> list[bytes]:
        from confluent_kafka import Consumer, Producer

        settings = self._settings(address, how)
        producer = Producer(settings)
        for value in VALUES:
            producer.produce(topic, value)
        assert producer.flush(30) == 0
        consumer = Consumer(settings | {"group.id": topic, "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        found: list[bytes] = []
        deadline = time.monotonic() + 30
        while len(found) < RECORDS and time.monotonic() < deadline:
            found += [message.value() for message in consumer.consume(1000, timeout=1)]
        consumer.close()
        return found

    def refused(self, address: str, how: How) -> str:
        from confluent_kafka import Producer

        errors: list[str] = []
        said = {"error_cb": lambda error: errors.append(str(error))}
        producer = Producer(self._settings(address, how) | said)
        deadline = time.monotonic() + 20
        while not any("_ALL_BROKERS_DOWN" not in error for error in errors) and time.monotonic() < deadline:
            producer.poll(0.1)
        return "\n".join(errors)

    def _settings(self, address: str, how: How) -> dict[str, Any]:
        found: dict[str, Any] = {
            "bootstrap.servers": address,
            "security.protocol": "SASL_SSL" if how.mechanism else "SSL",
            "ssl.ca.location": how.ca,
            "log_level": 0,
        }
        if how.certificate:
            found |= {"ssl.certificate.location": how.certificate, "ssl.key.location": how.certificate}
        if how.mechanism == "OAUTHBEARER":
            found |= {
                "sasl.mechanisms": how.mechanism,
                "oauth_cb": lambda _: (how.secret, time.time() + 300),
            }
        elif how.mechanism:
            found |= {
                "sasl.mechanisms": how.mechanism,
                "sasl.username": how.user,
                "sasl.password": how.secret,
            }
        return found
