import asyncio

from barnabas import ErrorCode, KafkaError
from barnabas.aio import Admin


async def main() -> None:
    async with Admin("127.0.0.1:9092") as admin:
        await admin.create_topic("steps", partitions=2)
        topic = await admin.describe_topic("steps")
        print(topic.name, len(topic.partitions))
        await admin.delete_topic("steps")
        try:
            await admin.describe_group("nobody")
        except KafkaError as error:
            print(error.code is ErrorCode.GROUP_ID_NOT_FOUND)


asyncio.run(main())
