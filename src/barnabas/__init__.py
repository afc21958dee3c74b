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


def _refuse_old_machine_code(folder: str) -> None:
    """In a checkout, `wire/walk` may have been compiled from another source than it has now.

    `setup.py` leaves the source that it compiled beside it, in a checkout only.  Raises ImportError.
    """
    try:
        with open(f"{folder}/wire/walk.built", "rb") as built, open(f"{folder}/wire/walk.py", "rb") as source:
            if built.read() == source.read():
                return
    except OSError:
        return  # installed whole, or nothing is compiled
    from barnabas.wire import walk

    if walk.COMPILED:
        raise ImportError(
            f"{walk.__file__} was compiled from another walk.py than is there now: "
            "`make venv` (or `pip install -e .`) compiles it again"
        )


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


_refuse_old_machine_code(__path__[0])
