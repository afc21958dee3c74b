"""`barnabas start --nodes`, as it is typed: processes, signals, what stands on the terminal."""

from __future__ import annotations

import itertools
import os
import signal

from tests.patience import PATIENCE_S
from tests.server.host.hosts import Host, bootstrap, gone

from barnabas.client.admin.admin import Admin
from barnabas.client.consumer import Consumer
from barnabas.client.producer import Producer


def test_a_cluster_of_this_machine_keeps_everything_when_processes_of_it_are_killed(host: Host) -> None:
    about = host.about(4)
    assert [node["node_id"] for node in about["nodes"]] == [1, 2, 3, 4]
    servers = bootstrap(about)
    sent = 0
    with Admin(servers) as admin:
        admin.create_topic("t", partitions=8)
        for killed in (about["nodes"][0], about["nodes"][3]):
            with Producer(servers) as producer:
                for _ in range(100):
                    producer.send("t", b"%d" % sent, partition=sent % 8)
                    sent += 1
                producer.flush(PATIENCE_S)
                os.kill(killed["pid"], signal.SIGKILL)
                for _ in range(100):
                    producer.send("t", b"%d" % sent, partition=sent % 8)
                    sent += 1
                producer.flush(PATIENCE_S)
    with Consumer(servers, "t", start="earliest") as consumer:
        read = [int(record.value or b"") for record in itertools.islice(consumer, sent)]
    assert sorted(read) == list(range(sent))
    assert host.end() == 0
    said = host.log()
    assert said.count("host.node-died") == 2
    assert "[4] node.stopped" in said


def test_the_second_start_is_the_same_cluster_and_a_node_more_joins(host: Host) -> None:
    first = host.about(3)
    assert host.end() == 0
    again = host.about(4)
    assert again["cluster_id"] == first["cluster_id"]
    assert [node["formatted"] for node in again["nodes"]] == [False, False, False, True]
    with Admin(bootstrap(again)) as admin:
        assert {broker.id for broker in admin.describe_cluster().brokers} <= {1, 2, 3, 4}
    assert host.end(signal.SIGTERM) == 0


def test_no_node_outlives_the_process_that_started_them_even_when_that_is_killed(host: Host) -> None:
    about = host.about(2)
    host.end(signal.SIGKILL)
    for node in about["nodes"]:
        gone(node["pid"])
    assert host.log().count("node.stopped") == 2


def test_people_read_a_line_for_each_node_and_a_node_that_cannot_start_ends_them_all(host: Host) -> None:
    assert "2 nodes are ready" in host.start(2)
    other = Host(host.directory, host.first_port)
    assert other.start(2) == ""
    assert other.process is not None
    assert other.process.wait(PATIENCE_S) == 1
    assert "before it served" in host.log()
    assert host.end() == 0
