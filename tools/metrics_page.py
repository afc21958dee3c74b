"""docs/metrics.md, written from what a real node answers: `python -m tools.metrics_page` prints the page.

A node of its own is started, used by a producer, a consumer with a group and an administrator, and scraped; so the
page has the series that such a node has, and not those of clients' pushed metrics or of quotas.
"""

from __future__ import annotations

import sys
import urllib.request
from collections.abc import Mapping

from barnabas import Consumer, Producer
from barnabas.client.admin.admin import Admin
from barnabas.testing.cluster import Cluster, free_ports

__all__ = ["families", "page", "scraped"]

HEAD = """# Metrics

`barnabas.http.listener=127.0.0.1:9644` serves them at `/metrics`, in Prometheus' text. The names are Kafka's:
domain, type and name of the MBean. `/metrics?names=jmx` gives the names that the usual rules of the JMX exporter
make of them, for dashboards that expect those: `kafka_server_brokertopicmetrics_messagesin_total`. Durations are
histograms in seconds. An API that nobody has called has no series, nor has a duration that was not measured yet.

[monitoring/dashboard.json](monitoring/dashboard.json) is a Grafana dashboard, and
[monitoring/alerts.yml](monitoring/alerts.yml) has alert rules; both use the names below.
`python -m tools.metrics_page > docs/metrics.md` writes this page.

`/health/live` answers 200 while the event loop runs. `/health/ready` answers 200 once the node serves, knows a
leader of the quorum, and has every log directory that it needs; else 503 and the reason.

The lag of a group is known where its coordinator also has the partition. Elsewhere subtract: the largest
`kafka_log_Log_LogEndOffset` of the partition less `kafka_consumergroup_current_offset`, as the dashboard does.
"""


def scraped(query: str = "") -> str:
    """The answer of a node that was used a little."""
    port = free_ports()
    with Cluster({"barnabas.http.listener": f"127.0.0.1:{port}"}) as kafka:
        with Admin(kafka.bootstrap) as admin:
            admin.create_topic("orders", partitions=1)
        with Producer(kafka.bootstrap) as producer:
            producer.send("orders", b"one").result()
        with Consumer(kafka.bootstrap, "orders", group="billing", start="earliest") as consumer:
            while not consumer.poll(0.2):
                pass
            consumer.commit()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics{query}") as answer:
            return str(answer.read().decode())


def families(text: str) -> dict[str, tuple[str, str, str]]:
    """Name -> (type, labels, meaning) of a scrape."""
    meanings: dict[str, str] = {}
    kinds: dict[str, str] = {}
    labels: dict[str, set[str]] = {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name, _, meanings[name] = line.removeprefix("# HELP ").partition(" ")
        elif line.startswith("# TYPE "):
            name, _, kinds[name] = line.removeprefix("# TYPE ").partition(" ")
        elif "{" in line:
            found = {word.partition("=")[0] for word in line.partition("{")[2].partition("}")[0].split(",")}
            labels.setdefault(name, set()).update(found - {"le"})
    return {
        name: (kinds[name], ", ".join(sorted(labels.get(name, ()))), meanings[name]) for name in sorted(kinds)
    }


def page(found: Mapping[str, tuple[str, str, str]]) -> str:
    """The page of these families."""
    rows = [
        f"| `{name}` | {kind} | {labels} | {meaning} |" for name, (kind, labels, meaning) in found.items()
    ]
    return "\n".join([HEAD, "| name | type | labels | meaning |", "|---|---|---|---|", *rows, ""])


if __name__ == "__main__":
    sys.stdout.write(page(families(scraped())))
