from barnabas import Admin, ErrorCode, KafkaError

with Admin("127.0.0.1:9092") as admin:
    admin.create_topic("visits", partitions=3, configs={"retention.ms": "3600000"})
    admin.alter_configs("topic", "visits", {"max.message.bytes": "65536"}, reset=["retention.ms"])
    changed = {
        setting.name: setting.value
        for setting in admin.configs("topic", "visits")
        if setting.source == "topic"
    }
    print(changed)
    admin.set_quotas({"client-id": "etl"}, {"producer_byte_rate": 1048576})
    print(admin.quotas({"client-id": "etl"})[0].quotas)
    print([listing.id for listing in admin.transactions()], admin.hanging_transactions())
    print([resource.name for resource in admin.resources("group")], admin.quorum().leader)
    try:
        admin.describe_group("nobody")
    except KafkaError as error:
        print(error.code is ErrorCode.GROUP_ID_NOT_FOUND)
    admin.delete_topic("visits")
