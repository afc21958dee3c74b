"""Barnabas: a Kafka-compatible log whose controller quorum changes while it runs.

    from barnabas import Admin, Consumer, Producer

    with Producer("127.0.0.1:9092") as producer:
        producer.send("greetings", b"hello")
    for message in Consumer("127.0.0.1:9092", "greetings", start="earliest"):
        print(message.offset, message.value)

The names below are the public API (held by tests/test_public_api.py); they are loaded when first used,
so that importing a room costs nothing of the others.  Errors are in `barnabas.errors`, the named values
in `barnabas.model`, a broker for your tests in `barnabas.testing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.client.admin.admin import Admin
    from barnabas.client.consumer import Consumer, Message
    from barnabas.client.producer import Delivered, Delivery, Producer
    from barnabas.client.transactional import TransactionalProducer
    from barnabas.errors import BarnabasError, ErrorCode, KafkaError
    from barnabas.model import TopicPartition, Uuid
    from barnabas.version import __version__

__all__ = [
    "Admin",
    "BarnabasError",
    "Consumer",
    "Delivered",
    "Delivery",
    "ErrorCode",
    "KafkaError",
    "Message",
    "Producer",
    "TopicPartition",
    "TransactionalProducer",
    "Uuid",
    "__version__",
]

_WHERE = {
    "Admin": "barnabas.client.admin.admin",
    "BarnabasError": "barnabas.errors",
    "Consumer": "barnabas.client.consumer",
    "Delivered": "barnabas.client.producer",
    "Delivery": "barnabas.client.producer",
    "ErrorCode": "barnabas.errors",
    "KafkaError": "barnabas.errors",
    "Message": "barnabas.client.consumer",
    "Producer": "barnabas.client.producer",
    "TopicPartition": "barnabas.model",
    "TransactionalProducer": "barnabas.client.transactional",
    "Uuid": "barnabas.model",
    "__version__": "barnabas.version",
}


def __getattr__(name: str) -> Any:
    """Load a public name at its first use."""
    if name not in _WHERE:
        raise AttributeError(f"module 'barnabas' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
