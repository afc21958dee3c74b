import asyncio

from barnabas.aio import Consumer


async def main() -> None:
    async with Consumer(
        "127.0.0.1:9092", "clicks", group="counting", group_protocol="consumer", start="earliest"
    ) as consumer:
        count = 0
        async for message in consumer:
            count += 1
            if message.offset == 99:
                break
        await consumer.commit()
        print(count, await consumer.assignment())


asyncio.run(main())
