"""`python -m bench hang`: how long are clients of ours without answers when a broker hangs, or is cut off?

Three nodes, three replicas.  One client works without a pause while the node that it needs stands still (SIGSTOP),
or is cut off from the other nodes (`--cut`: clients still reach it):

  producer, aio      an idempotent producer, blocking and asyncio: the partition's leader
  consumer           a consumer without a group: the partition's leader
  group              commits of a member of a classic group: the group's coordinator
  consumer-group     the same with KIP-848
  transaction        transactions: the coordinator of the transactional id
  source             ranges of offsets, as Spark's tasks fetch them: the partition's leader
  admin              descriptions of the cluster and of a topic's settings: the node that was asked so far

A gap is the longest time between two answers.  librdkafka with default settings waits 61 to 71 s for the same
(socket.timeout.ms, whoever leads by then).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

from barnabas import Admin, Consumer, Producer, TransactionalProducer
from barnabas.aio import Producer as AsyncProducer
from barnabas.client.cluster import Cluster as View
from barnabas.client.fetching import fetch_range
from barnabas.testing.cluster import Cluster
from bench.processes import load, machine
from bench.report import revision

KINDS = ("producer", "aio", "consumer", "group", "consumer-group", "transaction", "source", "admin")
LONGEST = 90.0
"""Seconds after which a client that got no answer is given up."""


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench hang", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10, help="of each kind (10)")
    parser.add_argument("--only", default=",".join(KINDS), help="kinds, separated by commas")
    parser.add_argument("--cut", action="store_true", help="cut the node off instead of stopping it")
    options = parser.parse_args(words)
    print(f"{revision()}; {machine()}; load before {load():.1f}", flush=True)
    worst = 0.0
    for kind in options.only.split(","):
        with Cluster(nodes=3) as kafka:
            gaps = [one_round(kafka, kind, number, cut=options.cut) for number in range(options.rounds)]
        median = statistics.median(gaps)
        worst = max(worst, median)
        print(
            f"{kind:<15} median {median:.1f} s, {min(gaps):.1f} to {max(gaps):.1f}, {len(gaps)} times",
            flush=True,
        )
    return int(worst > 8.0)


class Work:
    """A client at work in a thread: `answers` are the moments at which it got one."""

    def __init__(self, work: Iterator[None]) -> None:
        self.answers: list[float] = []
        self.failure: BaseException | None = None
        self._work = work
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for _ in self._work:
                self.answers.append(time.monotonic())
                if self._ended.is_set():
                    return
        except BaseException as error:
            self.failure = error
        finally:
            with contextlib.suppress(Exception):
                self._work.close()  # type: ignore[attr-defined]

    def answered(self, since: float, times: int) -> None:
        """Wait for so many answers since that moment."""
        until = time.monotonic() + LONGEST
        while sum(at > since for at in self.answers[-times - 1 :]) < times:
            if self.failure is not None:
                raise self.failure
            if time.monotonic() > until:
                raise TimeoutError(f"no answer for {LONGEST:g} s")
            time.sleep(0.02)

    def gap(self, since: float) -> float:
        """The longest time without an answer since that moment, in seconds."""
        moments = [max(at for at in self.answers if at <= since), *(at for at in self.answers if at > since)]
        return max(later - earlier for earlier, later in pairwise(moments))

    def end(self) -> None:
        self._ended.set()
        self._thread.join(LONGEST)


def one_round(kafka: Cluster, kind: str, number: int, *, cut: bool) -> float:
    """Return the gap (s) of one client."""
    name = f"hang-{kind}-{number}"
    with Admin(kafka.bootstrap) as admin:
        admin.create_topic(name, partitions=1, replication=3, configs={"min.insync.replicas": "2"})
        work = Work(WORK[kind](kafka.bootstrap, name))
        work.answered(time.monotonic(), 3)
        victim = needed(admin, kind, name)
    moment = time.monotonic()
    if cut:
        kafka.cut(victim)
    else:
        kafka.pause(victim)
    try:
        work.answered(moment + 0.2, 20)  # (what was under way may still come)
        gap = work.gap(moment)
    finally:
        kafka.heal()
        work.end()
    with Admin(kafka.bootstrap) as admin:
        until = time.monotonic() + LONGEST
        while any(len(p.isr) < 3 for p in admin.describe_topic(name).partitions.values()):
            if time.monotonic() > until:
                raise TimeoutError("the replicas do not get in sync")
            time.sleep(0.1)
    print(f"  {kind} {number}: {gap:.2f} s", flush=True)
    return gap


def needed(admin: Admin, kind: str, name: str) -> int:
    """Return the node that the client cannot do without."""
    if kind in ("group", "consumer-group", "transaction"):
        line = admin.cluster.coordinator(name, transaction=kind == "transaction")
        return next(b.id for b in admin.cluster.metadata.brokers.values() if b.port == line.port)
    if kind == "admin":
        return 1  # the first of the addresses, which it asks
    return admin.describe_topic(name).partitions[0].leader


# -- the clients: each yields after an answer ----------------------------------------------------


def produce(bootstrap: str, topic: str) -> Iterator[None]:
    with Producer(bootstrap) as producer:
        while True:
            producer.send(topic, b"value").result(LONGEST)
            yield
            time.sleep(0.01)


def produce_aio(bootstrap: str, topic: str) -> Iterator[None]:
    loop = asyncio.new_event_loop()
    producer = loop.run_until_complete(_made(bootstrap))
    try:
        while True:
            loop.run_until_complete(_sent(producer, topic))
            yield
            time.sleep(0.01)
    finally:
        loop.run_until_complete(producer.close())
        loop.close()


async def _made(bootstrap: str) -> AsyncProducer:
    return AsyncProducer(bootstrap)


async def _sent(producer: AsyncProducer, topic: str) -> None:
    await (await producer.send(topic, b"value"))


def consume(
    bootstrap: str, topic: str, group: str | None = None, protocol: str = "classic"
) -> Iterator[None]:
    """Read what a producer of its own sends; with a group each poll is committed."""
    ended = threading.Event()

    def feed() -> None:
        with Producer(bootstrap) as producer:
            while not ended.wait(0.02):
                producer.send(topic, b"value")

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    options = {"group": group, "group_protocol": protocol} if group else {}
    consumer = Consumer(bootstrap, topic, start="earliest", **options)  # type: ignore[arg-type]
    try:
        while True:
            if consumer.poll(1.0):
                if group:
                    consumer.commit()
                yield
    finally:
        ended.set()
        feeder.join()
        consumer.close()


def transact(bootstrap: str, topic: str) -> Iterator[None]:
    with TransactionalProducer(bootstrap, topic) as producer:
        while True:
            with producer.transaction():
                producer.send(topic, b"value")
            yield


def fetch(bootstrap: str, topic: str) -> Iterator[None]:
    with Producer(bootstrap) as producer:
        for _ in range(100):
            producer.send(topic, b"value")
    with View(bootstrap) as view:
        while True:
            for _ in fetch_range(view, topic, 0, 0, 100):
                pass
            yield
            time.sleep(0.01)


def administer(bootstrap: str, topic: str) -> Iterator[None]:
    with Admin(bootstrap) as admin:
        while True:
            admin.configs("topic", topic)
            admin.describe_cluster()
            yield
            time.sleep(0.01)


WORK: dict[str, Callable[[str, str], Iterator[None]]] = {
    "producer": produce,
    "aio": produce_aio,
    "consumer": consume,
    "group": lambda bootstrap, topic: consume(bootstrap, topic, topic),
    "consumer-group": lambda bootstrap, topic: consume(bootstrap, topic, topic, "consumer"),
    "transaction": transact,
    "source": fetch,
    "admin": administer,
}
