import asyncio

from barnabas.aio import Consumer, TransactionalProducer


async def main() -> None:
    async with TransactionalProducer("127.0.0.1:9092", "parcels-1") as producer, producer.transaction():
        await producer.send("parcels", b"one")
        await producer.send_offsets({("clicks", 0): 42}, "packing")
    async with Consumer(
        "127.0.0.1:9092", "parcels", start="earliest", isolation="read_committed", idle=1.0
    ) as consumer:
        print([message.value async for message in consumer])


asyncio.run(main())
