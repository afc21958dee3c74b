"""Make a topic, change a setting, look at the cluster, clean up.

python examples/administer.py 127.0.0.1:9092
"""

import sys

from barnabas import Admin, ErrorCode, KafkaError

bootstrap = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"

with Admin(bootstrap) as admin:
    cluster = admin.describe_cluster()
    print(f"cluster {cluster.cluster_id} with {len(cluster.brokers)} broker(s)")

    made = True
    try:
        topic = admin.create_topic("orders", partitions=3, configs={"retention.ms": "3600000"})
        print(f"made {topic.name} with {topic.partitions} partitions, id {topic.id}")
    except KafkaError as error:
        if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
        print("orders was there already, and is left as it is")
        made = False

    if made:
        admin.alter_configs("topic", "orders", {"segment.bytes": "1048576"})
    for setting in admin.configs("topic", "orders"):
        if setting.source == "topic":
            print(f"  {setting.name} = {setting.value}")

    quorum = admin.quorum()
    print(f"the controllers are led by node {quorum.leader}, epoch {quorum.epoch}")

    if made:
        admin.delete_topic("orders")
        print("deleted orders")
