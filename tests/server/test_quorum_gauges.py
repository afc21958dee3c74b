"""Gauges of the quorum: what an operator's graphs read, on a controller that leads."""

from __future__ import annotations

from tests.server.quorum_node import formatted, run, running

from barnabas.controller.image import ImageDelta, MetadataImage, PartitionState, Topic
from barnabas.model import Uuid
from barnabas.server.node.quorum_gauges import STATES, _unclean_elections, register_quorum_gauges
from barnabas.server.observe.metrics import Gauge, Metrics


def test_a_leader_alone_tells_its_role_its_voters_and_that_it_is_active() -> None:
    async def story() -> None:
        async with running(formatted()) as node:
            metrics = Metrics()
            register_quorum_gauges(metrics, node.quorum)
            read = {
                metric.name.rsplit("name=", 1)[1]: metric.read()
                for metric in metrics
                if isinstance(metric, Gauge)
            }
            assert read["current-state"] == STATES.index("leader")
            assert (read["current-leader"], read["current-epoch"]) == (1, node.quorum.epoch)
            assert read["number-of-voters"] == 1 and read["number-of-observers"] == 0
            assert read["pending-add-voter"] == read["pending-remove-voter"] == 0
            assert read["number-of-possible-voters"] == 0
            assert read["uncommitted-voter-change"] == 0 and read["ActiveControllerCount"] == 1
            assert read["high-watermark"] == read["log-end-offset"] == read["LastAppliedRecordOffset"] + 1

    run(story)


def test_a_partition_that_begins_to_recover_is_one_unclean_election() -> None:
    topic_id = Uuid(bytes(15) + b"\1")
    before = PartitionState(0, replicas=(1, 2), isr=(1,), leader=1)
    counted = []
    for was, is_ in ((False, True), (True, True), (True, False), (False, False)):
        image = MetadataImage()
        state = before._replace(recovering=is_)
        image.topics[topic_id] = Topic("t", topic_id, {0: state})
        delta = ImageDelta(image)
        delta.partitions[topic_id] = {0: before._replace(recovering=was)}
        counted.append(_unclean_elections(delta))
    assert counted == [1, 0, 0, 0]
