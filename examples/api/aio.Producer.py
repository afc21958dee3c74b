import asyncio

from barnabas.aio import Producer


async def main() -> None:
    async with Producer("127.0.0.1:9092") as producer:
        deliveries = [await producer.send("clicks", b"%d" % number) for number in range(100)]
        print(max([(await delivery).offset for delivery in deliveries]))


asyncio.run(main())
