"""`python -m tests.jobs_proof --records 5000000`: a topic through everything that PySpark does with it here.

source -> aggregation -> sink -> archive -> audit -> restore -> audit, on three nodes.  Every step is the command
that a user types, or a query as in docs/pipeline.md.  Printed are the seconds and the most memory of each step's
processes: the command, Spark's Java and its Python workers (resident, added up; sampled every half second).

--records N   in the topic (5000000)
--rows N      of a micro-batch of archive and restore (500000)
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.sink_kills.ground import ours
from tests.sink_kills.processes import of_the_query

from barnabas.client.admin.admin import Admin
from barnabas.client.consumer import Consumer
from barnabas.client.producer import Producer

__all__ = ["main"]

PARTITIONS = 4
KEYS = 500
WINDOW_MS = 500_000
LATE_MS = 1_000_000
"""How far apart in time partitions are read at most."""
AGGREGATE = "aggregate"
"""The word that starts this module as the aggregation's process."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="jobs_proof", description=__doc__)
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--rows", type=int, default=500_000)
    options = parser.parse_args()
    allowed = {"transaction.two.phase.commit.enable": "true", "unstable.api.versions.enable": "true"}
    with tempfile.TemporaryDirectory() as folder, ours(allowed, moving=False) as kafka:
        archive, rows = os.path.join(folder, "archive"), str(options.rows)
        expected = fill(kafka.bootstrap, options.records)
        step("aggregation", sys.executable, "-m", __spec__.name, AGGREGATE, kafka.bootstrap, folder)
        found = totals(kafka.bootstrap)
        print(
            f"totals of {len(expected):,} windows and keys: {'equal' if found == expected else 'NOT EQUAL'}",
            flush=True,
        )
        topics = f"{kafka.bootstrap}/records,totals"
        step("archive", *job("archive", topics, archive, "--rows", rows))
        step("audit", *job("audit", topics, archive))
        renamed = ("--rename", "records=records2", "--rename", "totals=totals2")
        step("restore", *job("restore", archive, kafka.bootstrap, *renamed, "--rows", rows))
        step("audit of both", *job("audit", topics, archive, f"{kafka.bootstrap}/records2,totals2", *renamed))
    return 0 if found == expected else 1


def job(name: str, *words: str) -> list[str]:
    return [sys.executable, "-m", "barnabas", "pipeline", "run", name, *words]


def fill(bootstrap: str, records: int) -> Counter[tuple[int, str]]:
    """Send the records, a millisecond apart; how many each window has of each key."""
    rng, began = random.Random(records), time.monotonic()
    first = (int(time.time()) - 4 * 3600) * 1000 // WINDOW_MS * WINDOW_MS
    expected: Counter[tuple[int, str]] = Counter()
    with Admin(bootstrap) as admin:
        for topic in ("records", "totals"):
            admin.create_topic(topic, partitions=PARTITIONS)
    with Producer(bootstrap, compression="lz4") as producer:
        for number in range(records):
            key, stamp = f"customer-{rng.randrange(KEYS)}", first + number
            expected[stamp // WINDOW_MS * WINDOW_MS, key] += 1
            value = {"id": number, "note": f"{rng.getrandbits(160):x}"}
            producer.send("records", json.dumps(value), key, timestamp=stamp)
        # The windows before are over once these are read.
        for partition in range(PARTITIONS):
            stamp = first + records + LATE_MS + 2 * WINDOW_MS
            producer.send("records", "{}", "end", partition=partition, timestamp=stamp)
    print(f"sent {records:,} records in {time.monotonic() - began:.0f} s", flush=True)
    return expected


def step(title: str, *command: str) -> None:
    """Run a command, show what it prints, measure its processes.  Ends everything where it fails."""
    print(f"--- {title}", flush=True)
    began, most = time.monotonic(), dict.fromkeys(("driver", "jvm", "worker", "executor"), 0)
    child = subprocess.Popen(command, cwd=Path(__file__).parents[1])
    while child.poll() is None:
        for kind, mib in memory_of(child.pid).items():
            most[kind] = max(most[kind], mib)
        time.sleep(0.5)
    used = ", ".join(f"{kind} {mib} MiB" for kind, mib in most.items())
    print(
        f"--- {title}: exit {child.returncode}, {time.monotonic() - began:.0f} s, at most {used}", flush=True
    )
    if child.returncode:
        sys.exit(f"{title} failed")


def memory_of(command: int) -> dict[str, int]:
    """Resident MiB of a command's processes, by kind."""
    return {kind: sum(map(resident, processes)) for kind, processes in of_the_query([command]).items()}


def resident(process: int) -> int:
    """MiB; 0 where it has ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) // 1024 for line in status.splitlines() if line.startswith("VmRSS")), 0)


def aggregate(bootstrap: str, folder: str) -> None:
    """The query: how many records each window has of each key, to the topic `totals`, exactly once.

    Append is the one output mode that Spark has for a sink in Python: so it counts windows that are over.
    """
    from pyspark.sql import functions as f

    from barnabas.pipeline.jobs.progress import Progress, run_to_end
    from barnabas.pipeline.session import session

    spark = session("aggregation", "local[*]")

    def start():  # type: ignore[no-untyped-def]  # pyspark is imported here alone
        records = (
            spark.readStream.format("barnabas")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", "records")
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", "500000")
            .load()
        )
        windows = f.window("timestamp", f"{WINDOW_MS} milliseconds")
        counts = records.withWatermark("timestamp", f"{LATE_MS} milliseconds").groupBy(windows, "key").count()
        window = f.unix_millis(f.col("window.start")).alias("window")
        return (
            counts.select("key", f.to_json(f.struct(window, "count")).alias("value"))
            .writeStream.format("barnabas")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", "totals")
            .option("checkpointLocation", os.path.join(folder, "aggregation"))
            .trigger(availableNow=True)
            .start()
        )

    with Progress("aggregation") as progress:
        run_to_end(start, progress, goal={}, again="run it again")
    spark.stop()


def totals(bootstrap: str) -> Counter[tuple[int, str]]:
    """What the topic `totals` says; a window and key that is there twice counts twice."""
    found: Counter[tuple[int, str]] = Counter()
    with Consumer(bootstrap, "totals", start="earliest", isolation="read_committed", idle=3.0) as consumer:
        for message in consumer:
            value = json.loads(message.value or b"{}")
            found[value["window"], (message.key or b"").decode()] += value["count"]
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == [AGGREGATE]:
        aggregate(*sys.argv[2:4])
    else:
        sys.exit(main())
