"""Registration, heartbeats, sessions, controlled shutdown, and who leads meanwhile.

Scenarios: K188, K189, K190, K191, K195, K196, K200.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.controller.cluster import Chance, Cluster, directory, registration

from barnabas.controller.controller import Controller
from barnabas.controller.decisions.brokers import presumed_contacts
from barnabas.controller.feature_levels import supported
from barnabas.controller.replay import Replay
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import NO_NODE, Uuid
from barnabas.wire.codec.message import Message
from barnabas.wire.metadata import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
)
from barnabas.wire.schemas.brokers import (
    ControllerRegistrationRequest,
    ControllerRegistrationRequestFeature,
    ControllerRegistrationResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)
from barnabas.wire.schemas.transactions import AllocateProducerIdsRequest, AllocateProducerIdsResponse


def refused(cluster: Cluster, request: Message) -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        cluster.decide(request)
    return error.value.code


# Registration.


def test_a_broker_registers_fenced_with_the_offset_of_its_record_as_its_epoch() -> None:
    cluster = Cluster()
    offset = cluster.offset
    answer = cluster.register(1, rack="r")
    assert answer.broker_epoch == offset
    broker = cluster.image.brokers[1]
    assert (broker.fenced, broker.rack, broker.epoch) == (True, "r", offset)
    endpoint = broker.endpoint("PLAINTEXT")
    assert endpoint is not None
    assert (endpoint.host, endpoint.port) == ("b1", 9092)


def test_the_same_incarnation_registers_again_and_keeps_its_epoch_and_stays_unfenced() -> None:
    cluster = Cluster(1)
    epoch = cluster.epochs[1]
    assert cluster.register(1).broker_epoch == epoch
    assert not cluster.image.brokers[1].fenced


def test_another_incarnation_is_refused_while_the_first_one_is_heard() -> None:
    cluster = Cluster(1)
    assert refused(cluster, registration(1, incarnation=2)) == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.time += 9.1
    assert cluster.register(1, incarnation=2).broker_epoch == cluster.offset - 1
    assert cluster.image.brokers[1].fenced


def test_a_broker_that_was_only_presumed_alive_may_register_anew_at_once() -> None:
    cluster = Cluster(1)
    again = Controller(cluster.controller.config, Chance(), Replay(cluster.image), cluster.now)
    decision = again.decide(registration(1, incarnation=2), 4, cluster.now, cluster.offset)
    assert isinstance(decision.records[-1], RegisterBrokerRecord)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"cluster_id": "other"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"log_dirs": []}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [directory(2), directory(2)]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [Uuid.of(0, 1)]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [directory(1)]}, ErrorCode.INVALID_REGISTRATION),
        ({"features": []}, ErrorCode.INVALID_REGISTRATION),
        ({"is_migrating_zk_broker": True}, ErrorCode.BROKER_ID_NOT_REGISTERED),
    ],
    ids=str,
)
def test_a_registration_that_cannot_be_is_refused(fields: dict[str, Any], code: ErrorCode) -> None:
    assert refused(Cluster(1), registration(2, **fields)) == code


def test_a_broker_that_lacks_a_finalized_feature_is_refused() -> None:
    request = registration(2)
    kept = [feature for feature in request.features if feature.name != "transaction.version"]
    assert refused(Cluster(1), registration(2, features=kept)) == ErrorCode.UNSUPPORTED_VERSION


# Heartbeats.


def test_a_broker_is_unfenced_once_it_has_seen_its_own_registration() -> None:
    cluster = Cluster()
    cluster.register(1)
    early = cluster.beat(1, current_metadata_offset=cluster.epochs[1] - 1)
    assert (early.is_caught_up, early.is_fenced) == (False, True)
    waiting = cluster.beat(1, want_fence=True)
    assert (waiting.is_caught_up, waiting.is_fenced) == (True, True)
    ready = cluster.beat(1)
    assert (ready.is_caught_up, ready.is_fenced) == (True, False)
    assert cluster.image.brokers[1].active


def test_a_heartbeat_of_an_earlier_life_is_refused() -> None:
    cluster = Cluster(1)
    with pytest.raises(KafkaError) as error:
        cluster.beat(1, broker_epoch=cluster.epochs[1] - 1)
    assert error.value.code == ErrorCode.STALE_BROKER_EPOCH


def test_a_heartbeat_in_a_quiet_cluster_writes_nothing() -> None:
    cluster = Cluster(1)
    offset = cluster.offset
    cluster.beat(1)
    assert cluster.offset == offset


def test_a_silent_broker_is_fenced_after_its_session_and_one_that_is_heard_is_not() -> None:
    cluster = Cluster(1, 2)
    cluster.assign([1, 2])
    cluster.time += 5
    cluster.beat(2)
    assert cluster.controller.due_records(cluster.now, cluster.offset) == []
    cluster.time += 4.5
    records = cluster.controller.due_records(cluster.now, cluster.offset)
    cluster.append(records)
    assert cluster.image.brokers[1].fenced
    assert not cluster.image.brokers[2].fenced
    assert (cluster.state().leader, cluster.state().isr) == (2, (2,))
    assert cluster.controller.due_records(cluster.now, cluster.offset) == []


def test_a_new_controller_presumes_that_every_unfenced_broker_was_heard_this_moment() -> None:
    cluster = Cluster(1)
    cluster.register(2)
    contacts = presumed_contacts(cluster.image, cluster.now)
    assert list(contacts) == [1]
    assert contacts[1].heard == cluster.time


# Leaving.


def test_a_broker_that_leaves_hands_its_partitions_over_and_may_stop_when_the_others_have_seen_it() -> None:
    cluster = Cluster(1, 2)
    cluster.assign([1, 2], [2, 1])
    leaving = cluster.beat(1, want_shut_down=True)
    assert not leaving.should_shut_down
    assert (cluster.state().leader, cluster.state().isr) == (2, (2,))
    assert cluster.image.brokers[1].in_controlled_shutdown
    assert not cluster.beat(1, want_shut_down=True).should_shut_down
    cluster.beat(2)
    assert cluster.beat(1, want_shut_down=True).should_shut_down
    assert cluster.image.brokers[1].fenced


def test_a_broker_that_leaves_waits_for_the_others_though_the_controller_changes_meanwhile() -> None:
    cluster = Cluster(1, 2)
    cluster.assign([1, 2])
    behind = cluster.offset - 1
    assert not cluster.beat(1, want_shut_down=True).should_shut_down
    cluster.new_controller()
    cluster.beat(2, current_metadata_offset=behind)
    assert not cluster.beat(1, want_shut_down=True).should_shut_down, "2 does not know yet that it leads"
    cluster.beat(2)
    assert cluster.beat(1, want_shut_down=True).should_shut_down


def test_a_broker_that_leads_nothing_may_stop_at_once() -> None:
    cluster = Cluster(1)
    answer = cluster.beat(1, want_shut_down=True)
    assert (answer.should_shut_down, answer.is_fenced) == (True, True)


def test_the_only_broker_may_leave_and_leads_again_when_it_is_back() -> None:
    cluster = Cluster(1)
    cluster.create(partitions=2)
    cluster.beat(1, want_shut_down=True)
    assert cluster.beat(1, want_shut_down=True).should_shut_down
    assert cluster.state().leader == NO_NODE
    assert cluster.state().elr == (1,)
    cluster.register(1, incarnation=2, previous_broker_epoch=cluster.epochs[1])
    cluster.beat(1)
    state = cluster.state()
    assert (state.leader, state.isr, state.elr, state.recovering) == (1, (1,), (), False)


def test_the_only_broker_leads_again_after_it_was_killed() -> None:
    cluster = Cluster(1)
    cluster.create()
    epoch = cluster.state().leader_epoch
    cluster.time += 10
    cluster.register(1, incarnation=2, previous_broker_epoch=-1)
    assert cluster.state().leader == NO_NODE
    assert cluster.state().last_known_elr == (1,)
    cluster.beat(1)
    state = cluster.state()
    assert (state.leader, state.isr, state.last_known_elr) == (1, (1,), ())
    assert state.leader_epoch > epoch


def test_without_elr_the_last_member_stays_in_the_isr_while_nobody_leads() -> None:
    cluster = Cluster(1, elr=False)
    cluster.create()
    cluster.time += 10
    cluster.append(cluster.controller.due_records(cluster.now, cluster.offset))
    assert (cluster.state().leader, cluster.state().isr) == (NO_NODE, (1,))
    cluster.beat(1)
    assert (cluster.state().leader, cluster.state().isr) == (1, (1,))


def test_replicas_that_leave_below_min_insync_become_eligible_and_a_crashed_one_does_not() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.assign([1, 2, 3], min_insync_replicas="2")
    cluster.beat(3, want_fence=True)
    assert (cluster.state().isr, cluster.state().elr) == ((1, 2), ())
    cluster.beat(2, want_fence=True)
    assert (cluster.state().isr, cluster.state().elr) == ((1,), (2,))
    cluster.time += 10
    cluster.register(1, incarnation=2)  # an unclean restart of the last one
    state = cluster.state()
    assert (state.leader, state.isr, state.elr) == (NO_NODE, (), (2,))
    cluster.beat(2)
    state = cluster.state()
    assert (state.leader, state.isr, state.elr) == (2, (2,), ())


def test_an_unclean_election_where_it_is_allowed_marks_the_partition_as_recovering() -> None:
    cluster = Cluster(1, 2, elr=False)
    cluster.assign([1, 2], unclean_leader_election_enable="true")
    cluster.beat(2, want_fence=True)
    assert cluster.state().isr == (1,)
    cluster.beat(1, want_fence=True)
    cluster.beat(2)
    state = cluster.state()
    assert (state.leader, state.isr, state.recovering) == (2, (2,), True)


def test_a_failed_disk_moves_only_the_partitions_that_were_on_it() -> None:
    cluster = Cluster(2)
    cluster.register(1, log_dirs=[directory(1), Uuid.of(1, 2000)])
    cluster.beat(1)
    cluster.assign([1, 2], name="a")
    cluster.assign([1, 2], name="b")
    topic = cluster.image.topics_by_name["a"]
    cluster.append(
        [
            PartitionChangeRecord(
                partition_id=0, topic_id=topic.id, directories=[directory(1), directory(2)]
            ),
        ]
    )
    cluster.beat(1, offline_log_dirs=[directory(1)])
    assert cluster.image.brokers[1].directories == (Uuid.of(1, 2000),)
    assert (cluster.state("a").leader, cluster.state("a").isr) == (2, (2,))
    assert cluster.state("a").directories[0] == directory(1), "it may come back"
    assert cluster.state("b").leader == 1


@pytest.mark.parametrize("elr", [True, False])
def test_a_disk_that_comes_back_with_its_broker_is_led_again_and_one_that_does_not_is_not(elr: bool) -> None:
    """A full disk: the broker stops, gets room, and starts again on the same directory (KIP-858, KIP-966)."""
    cluster = Cluster(1, elr=elr)
    cluster.assign([1])
    cluster.beat(1, offline_log_dirs=[directory(1)])
    assert cluster.state().leader == NO_NODE
    cluster.time += 60
    other = Uuid.of(1, 2000)
    cluster.register(1, incarnation=2, log_dirs=[other])
    cluster.beat(1)
    assert cluster.state().leader == NO_NODE, "its records lie in the other directory"
    cluster.time += 60
    cluster.register(1, incarnation=3, log_dirs=[directory(1), other])
    cluster.beat(1)
    state = cluster.state()
    assert (state.leader, state.isr, state.directories) == (1, (1,), (directory(1),))


def test_an_unregistered_broker_is_forgotten_and_leaves_all_isrs() -> None:
    cluster = Cluster(1, 2)
    cluster.assign([1, 2])
    answer = cluster.answer(UnregisterBrokerResponse, UnregisterBrokerRequest(broker_id=1))
    assert answer.error_code == 0
    assert list(cluster.image.brokers) == [2]
    assert (cluster.state().leader, cluster.state().isr) == (2, (2,))
    assert refused(cluster, UnregisterBrokerRequest(broker_id=1)) == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_a_controller_that_left_is_forgotten_from_the_level_on_that_has_a_record_for_it() -> None:
    cluster = Cluster(1)
    ranges = [
        ControllerRegistrationRequestFeature(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in supported().items()
    ]
    cluster.answer(
        ControllerRegistrationResponse, ControllerRegistrationRequest(controller_id=5, features=ranges)
    )
    assert list(cluster.image.controllers) == [5]
    asked = UnregisterControllerRequest(controller_id=5)
    for level, code in ((32, ErrorCode.UNSUPPORTED_VERSION), (33, 0)):
        for image in (cluster.image, cluster.controller.image):
            image.features["metadata.version"] = level
        if code:
            assert refused(cluster, asked) == code
        else:
            assert cluster.answer(UnregisterControllerResponse, asked).error_code == 0
    assert not cluster.image.controllers
    assert refused(cluster, asked) == ErrorCode.CONTROLLER_ID_NOT_REGISTERED
    itself = UnregisterControllerRequest(controller_id=cluster.controller.config.node_id)
    assert refused(cluster, itself) == ErrorCode.INVALID_REQUEST


def test_unfencing_is_written_before_the_elections_it_allows_and_fencing_after() -> None:
    cluster = Cluster(1)
    cluster.create()
    cluster.time += 10
    fencing = cluster.controller.due_records(cluster.now, cluster.offset)
    assert [type(r) for r in fencing] == [PartitionChangeRecord, BrokerRegistrationChangeRecord]


# Producer ids.


def test_producer_ids_are_given_out_in_blocks_once() -> None:
    cluster = Cluster(1)
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=cluster.epochs[1])
    blocks = [cluster.answer(AllocateProducerIdsResponse, request) for _ in range(2)]
    assert [(b.producer_id_start, b.producer_id_len) for b in blocks] == [(0, 1000), (1000, 1000)]
    [record] = cluster.decide(request).records
    assert isinstance(record, ProducerIdsRecord)
    assert record.next_producer_id == 3000
    stale = AllocateProducerIdsRequest(broker_id=1, broker_epoch=-1)
    assert refused(cluster, stale) == ErrorCode.STALE_BROKER_EPOCH
    unknown = AllocateProducerIdsRequest(broker_id=9, broker_epoch=1)
    assert refused(cluster, unknown) == ErrorCode.BROKER_ID_NOT_REGISTERED
