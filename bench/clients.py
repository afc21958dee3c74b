"""A broker measured through librdkafka: `python -m bench.clients throughput|e2e|gap HOST:PORT PID`.

The last line printed is a JSON object of figures.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.processes import cpu_seconds

Figures = dict[str, float]


def create(bootstrap: str, partitions: int = 1) -> str:
    topic = f"client-{time.time_ns()}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(timeout=30)
    time.sleep(0.5)
    return topic


def quantile(ordered: list[float], q: float) -> float:
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else float("nan")


def throughput(bootstrap: str, pid: int, records: int = 200_000, size: int = 1000) -> Figures:
    """Produce and then consume `records` of `size` bytes, as fast as the client goes."""
    topic, value = create(bootstrap), os.urandom(size)
    acknowledged = 0

    def delivered(error: object, _message: object) -> None:
        nonlocal acknowledged
        acknowledged += error is None

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "linger.ms": 5,
            "enable.idempotence": True,
            "queue.buffering.max.kbytes": 1 << 20,
        }
    )
    producer.list_topics(topic, timeout=20)
    cpu, start = cpu_seconds(pid), time.monotonic()
    for number in range(records):
        while True:
            try:
                producer.produce(topic, value, partition=0, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.01)
        if not number & 255:
            producer.poll(0)
    producer.flush(120)
    gigabytes = records * size / 1e9
    written = time.monotonic() - start
    produce_cpu = cpu_seconds(pid) - cpu
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    cpu, start, found = cpu_seconds(pid), time.monotonic(), 0
    while found < acknowledged and time.monotonic() - start < 120:
        found += sum(1 for message in consumer.consume(5000, 1.0) if message.error() is None)
    read = time.monotonic() - start
    consume_cpu = cpu_seconds(pid) - cpu
    consumer.close()
    assert found == acknowledged == records, (found, acknowledged, records)
    return {
        "produce_cpu_s_per_GB": produce_cpu / gigabytes,
        "produce_MBps": gigabytes * 1000 / written,
        "consume_cpu_s_per_GB": consume_cpu / gigabytes,
        "consume_MBps": gigabytes * 1000 / read,
        "cpu_s_per_GB": (produce_cpu + consume_cpu) / gigabytes,
    }


def e2e(bootstrap: str, pid: int, rate: float = 500.0, seconds: float = 10.0) -> Figures:
    """Time from produce() to the consumer's poll at a steady rate; the first two seconds do not count."""
    topic = create(bootstrap)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, "enable.idempotence": True}
    )
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    producer.list_topics(topic, timeout=20)
    total, delays, stopped = int(rate * seconds), [], threading.Event()

    def consume() -> None:
        while len(delays) < total and not stopped.is_set():
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                delays.append((time.perf_counter_ns() - int(message.value()[:20])) / 1e6)

    reader = threading.Thread(target=consume)
    reader.start()
    cpu, start = cpu_seconds(pid), time.perf_counter()
    for number in range(total):
        while (wait := start + number / rate - time.perf_counter()) > 0:
            producer.poll(min(wait, 0.01))
        producer.produce(topic, b"%020d" % time.perf_counter_ns() + b"x" * 80, partition=0)
        producer.poll(0)
    producer.flush(30)
    reader.join(timeout=5)
    stopped.set()
    reader.join()
    consumer.close()
    ordered = sorted(delays[int(rate * 2) :])
    return {
        "p50_ms": quantile(ordered, 0.5),
        "p99_ms": quantile(ordered, 0.99),
        "p999_ms": quantile(ordered, 0.999),
        "cores": (cpu_seconds(pid) - cpu) / seconds,
        "received": float(len(delays)),
    }


def main() -> int:
    mode, bootstrap, pid = sys.argv[1], sys.argv[2], int(sys.argv[3])
    print(json.dumps({"throughput": throughput, "e2e": e2e}[mode](bootstrap, pid)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
