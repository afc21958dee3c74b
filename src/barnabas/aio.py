"""The client on asyncio.

from barnabas.aio import Consumer, Producer

async with Producer("127.0.0.1:9092") as producer:
    await (await producer.send("greetings", b"hello"))
async for message in Consumer("127.0.0.1:9092", "greetings", start="earliest"):
    print(message.offset, message.value)
"""

from __future__ import annotations

from barnabas.client.aio.admin import AsyncAdmin as Admin
from barnabas.client.aio.consumer import AsyncConsumer as Consumer
from barnabas.client.aio.producer import AsyncProducer as Producer
from barnabas.client.aio.transactional import AsyncTransactionalProducer as TransactionalProducer

__all__ = ["Admin", "Consumer", "Producer", "TransactionalProducer"]
