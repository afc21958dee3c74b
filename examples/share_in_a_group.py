"""Two workers share a topic; a third run goes on where they stopped.

python examples/share_in_a_group.py 127.0.0.1:9092
"""

import sys
import threading

from barnabas import Admin, Consumer, Producer

bootstrap = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"
done: list[str] = []


def work(name: str) -> None:
    with Consumer(bootstrap, "jobs", group="workers", start="earliest", idle=2.0) as consumer:
        for message in consumer:
            done.append(f"{name}: {message.value.decode()}")


with Admin(bootstrap) as admin:
    if "jobs" not in [topic.name for topic in admin.topics()]:
        admin.create_topic("jobs", partitions=4)

with Producer(bootstrap) as producer:
    for number in range(20):
        producer.send("jobs", f"job {number}", key=str(number))

workers = [threading.Thread(target=work, args=(name,)) for name in ("one", "two")]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()

print(f"{len(done)} jobs done")
with Admin(bootstrap) as admin:
    print(f"lag of the group: {sum(row.lag or 0 for row in admin.group_offsets('workers'))}")
