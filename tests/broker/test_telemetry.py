"""Telemetry of clients (KIP-714): who may ask and push when, what a push says, and how much of it is kept."""

from __future__ import annotations

import base64
import json
import random
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.telemetry.instances import LEAST_KEPT_S, MOST_INSTANCES, Instances, Sender
from barnabas.broker.telemetry.otlp import MOST_FIELDS, Labels, Point, Push, read_push
from barnabas.broker.telemetry.pushed import MOST_OF_ONE, PushedMetrics
from barnabas.broker.telemetry.telemetry import Telemetry
from barnabas.config import Config
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import ZERO_UUID, Now, Uuid
from barnabas.wire.compression import Codec, compress, decompress
from barnabas.wire.schemas.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest

PUSHES = json.loads((Path(__file__).parent / "telemetry_pushes.json").read_text())
"""What clients that we did not write pushed."""
EVERYBODY = {(16, "all"): {"metrics": "*", "interval.ms": "10000"}}
ME = Sender(1, "me", "apache-kafka-java", "4.3.1", "10.0.0.7", 4711)
THROTTLED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


class Numbered:
    """Ids one after the other."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def uuid(self) -> Uuid:
        return Uuid(b"n" * 8 + next(self._numbers).to_bytes(8, "big"))


class World:
    """A broker's telemetry, and a clock that the test moves."""

    def __init__(self, configs: Any = EVERYBODY, **settings: str) -> None:
        config = Config.load({name.replace("_", "."): value for name, value in settings.items()})
        self.telemetry = Telemetry(config, Numbered())  # type: ignore[arg-type]  # no other randomness
        self.telemetry.follow(configs)
        self.time = 1000.0
        self.subscriptions: dict[Uuid, int] = {}

    @property
    def now(self) -> Now:
        return Now(self.time, int(self.time * 1000))

    def ask(self, who: Uuid = ZERO_UUID, sender: Sender = ME) -> Any:
        answer = self.telemetry.ask(
            sender, GetTelemetrySubscriptionsRequest(client_instance_id=who), self.now
        )
        if not answer.error_code:
            self.subscriptions[answer.client_instance_id] = answer.subscription_id
        return answer

    def push(
        self, who: Uuid, metrics: bytes = b"", *, codec: int = 0, ending: bool = False, sender: Sender = ME
    ) -> int:
        request = PushTelemetryRequest(
            client_instance_id=who,
            subscription_id=self.subscriptions.get(who, 0),
            terminating=ending,
            compression_type=codec,
            metrics=metrics,
        )
        return self.telemetry.push(ME, request, self.now).error_code

    def shown(self) -> dict[str, float]:
        return {
            series.name: series.value for _, _, found in self.telemetry.clients(self.now) for series in found
        }


@pytest.fixture
def world() -> World:
    return World()


# -- protobuf, as short as a test needs it --


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def field(number: int, body: bytes | int) -> bytes:
    if isinstance(body, int):
        return varint(number << 3) + varint(body)
    return varint(number << 3 | 2) + varint(len(body)) + body


def pushed(*metrics: bytes) -> bytes:
    return field(1, field(2, b"".join(field(2, metric) for metric in metrics)))


def total(name: str, value: int, *, temporality: int = 2) -> bytes:
    point = varint(6 << 3 | 1) + value.to_bytes(8, "little")
    return field(1, name.encode()) + field(7, field(1, point) + field(2, temporality) + field(3, 1))


# -- who may ask and push when --


def test_who_asks_without_an_id_gets_one_and_may_push_at_once(world: World) -> None:
    answer = world.ask()
    assert answer.client_instance_id != ZERO_UUID
    assert (answer.requested_metrics, answer.push_interval_ms) == (["*"], 10_000)
    assert world.push(answer.client_instance_id) == 0


def test_a_client_that_comes_before_its_interval_is_over_is_throttled(world: World) -> None:
    who = world.ask().client_instance_id
    assert world.push(who) == 0
    world.time += 9.9
    assert (world.push(who), world.ask(who).error_code) == (THROTTLED, THROTTLED)
    world.time += 0.1
    assert world.push(who) == 0
    assert world.telemetry.instances.statistics().throttled == 2


def test_the_last_push_of_a_client_may_come_early_and_nothing_may_follow(world: World) -> None:
    who = world.ask().client_instance_id
    assert world.push(who) == 0
    assert world.push(who, ending=True) == 0
    world.time += 30
    assert world.push(who) == ErrorCode.INVALID_REQUEST


def test_a_client_whose_subscription_is_over_may_ask_at_once(world: World) -> None:
    who = world.ask().client_instance_id
    world.telemetry.follow({(16, "other"): {"metrics": "a.", "interval.ms": "20000"}})
    assert world.push(who) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    answer = world.ask(who)
    assert (answer.error_code, answer.requested_metrics, answer.push_interval_ms) == (0, ["a."], 20_000)


def test_the_same_subscription_has_the_same_number_on_every_broker(world: World) -> None:
    first = world.ask(Uuid(b"c" * 16))
    second = World().ask(Uuid(b"c" * 16))
    assert first.subscription_id == second.subscription_id
    assert World({(16, "x"): {"metrics": "a"}}).ask(Uuid(b"c" * 16)).subscription_id != first.subscription_id


def test_a_client_on_another_connection_begins_anew(world: World) -> None:
    who = world.ask().client_instance_id
    assert world.ask(who).error_code == THROTTLED
    assert world.ask(who, ME._replace(connection_id=2)).error_code == 0


def test_clients_are_forgotten_after_three_intervals_and_when_there_are_too_many(world: World) -> None:
    world.ask()
    world.time += LEAST_KEPT_S - 1
    world.ask()
    assert world.telemetry.instances.statistics().known == 2
    world.time += 1
    world.ask()
    assert world.telemetry.instances.statistics().known == 2
    for _ in range(MOST_INSTANCES + 5):
        world.ask()
    assert world.telemetry.instances.statistics().known == MOST_INSTANCES


@pytest.mark.parametrize(
    ("match", "fits"),
    [
        ("", True),
        ("client_id=me", True),
        ("client_id=m", False),
        ("client_id=.*,client_software_name=apache-kafka-java,client_software_version=4\\..*", True),
        ("client_source_address=10\\.0\\..*,client_source_port=47..", True),
        ("client_id=me,client_source_port=1", False),
    ],
)
def test_a_subscription_is_for_clients_of_which_every_attribute_matches(match: str, fits: bool) -> None:
    world = World({(16, "some"): {"metrics": "b,a", "match": match}})
    assert world.ask().requested_metrics == (["a", "b"] if fits else [])


def test_a_pattern_cannot_keep_the_broker_busy(world: World) -> None:
    configs = {(16, "slow"): {"metrics": "a", "match": "client_id=(a*)*b"}}
    assert World(configs).ask(sender=ME._replace(client_id="a" * 30_000)).requested_metrics == []


def test_a_subscription_that_cannot_be_read_is_none() -> None:
    world = World({(16, "bad"): {"metrics": "a", "interval.ms": "soon"}, (16, "good"): {"metrics": "b"}})
    assert world.ask().requested_metrics == ["b"]


# -- what a push says --


@pytest.mark.parametrize(
    ("client", "connections"),
    [
        ("librdkafka 2.16.0 producer", 1),
        ("librdkafka 2.16.0 consumer", 2),
        ("Apache Kafka 4.3.1 producer", 1),
        ("Apache Kafka 4.3.1 consumer", 3),
    ],
)
def test_what_real_clients_push_is_read_and_kept(world: World, client: str, connections: int) -> None:
    who = world.ask().client_instance_id
    push = PUSHES[client]
    assert world.push(who, base64.b64decode(push["metrics"]), codec=push["codec"]) == 0
    kind = client.rpartition(" ")[2]
    assert world.shown()[f"org_apache_kafka_{kind}_connection_creation_total"] == connections
    assert world.telemetry.statistics().left_out == 0


@pytest.mark.parametrize("codec", list(Codec))
def test_a_push_comes_packed_by_any_codec(world: World, codec: Codec) -> None:
    who = world.ask().client_instance_id
    assert world.push(who, compress(codec, pushed(total("t", 7))), codec=codec) == 0
    assert world.shown() == {"t": 7.0}


def test_sums_that_were_added_since_the_last_push_are_added_up(world: World) -> None:
    who = world.ask().client_instance_id
    for _ in range(3):
        assert world.push(who, pushed(total("added", 5, temporality=1), total("whole", 5))) == 0
        world.time += 10
    assert world.shown() == {"added": 15.0, "whole": 5.0}


def test_a_push_of_which_bytes_are_missing_changes_nothing(world: World) -> None:
    push = PUSHES["librdkafka 2.16.0 consumer"]
    whole = decompress(push["codec"], base64.b64decode(push["metrics"]))
    points = len(read_push(whole).points)
    for end in range(1, len(whole)):
        try:
            assert len(read_push(whole[:end]).points) < points
        except KafkaError as error:
            assert error.code is ErrorCode.INVALID_RECORD


def test_damaged_pushes_are_read_or_refused_and_nothing_else() -> None:
    push = PUSHES["librdkafka 2.16.0 consumer"]
    whole = decompress(push["codec"], base64.b64decode(push["metrics"]))
    chance = random.Random(714)
    refused = 0
    for _ in range(3000):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            read_push(bytes(damaged))
        except KafkaError as error:
            assert error.code is ErrorCode.INVALID_RECORD
            refused += 1
    assert 0 < refused < 3000


@pytest.mark.parametrize(
    "metrics",
    [
        b"\xff" * 20,
        field(1, b"") + b"\x0a\x7f",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
        pushed(field(1, b"\xff\xfe")),
        b"\x0b\x0c",
        field(1, 7),
    ],
)
def test_bytes_that_are_no_metrics_are_an_invalid_record(world: World, metrics: bytes) -> None:
    who = world.ask().client_instance_id
    assert world.push(who, metrics) == ErrorCode.INVALID_RECORD
    assert (world.telemetry.refused, world.shown()) == (1, {})


def test_too_many_fields_and_too_many_bytes_are_too_large(world: World) -> None:
    who = world.ask().client_instance_id
    assert world.push(who, field(9, 1) * (MOST_FIELDS + 1)) == ErrorCode.TELEMETRY_TOO_LARGE
    world.time += 10
    assert world.push(who, bytes(1_048_577)) == ErrorCode.TELEMETRY_TOO_LARGE


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_cve_2026_111073_a_push_that_unpacks_to_too_much_is_refused(world: World, codec: int) -> None:
    who = world.ask().client_instance_id
    assert world.push(who, compress(codec, bytes(3_000_000)), codec=codec) == ErrorCode.INVALID_RECORD


def test_histograms_long_names_and_many_attributes_are_left_out_and_counted(world: World) -> None:
    who = world.ask().client_instance_id
    pair = field(1, b"k") + field(2, field(1, b"v" * 1001))
    point = varint(6 << 3 | 1) + bytes(8)
    metrics = pushed(
        field(1, b"histogram") + field(9, b""),
        field(1, b"n" * 201) + field(5, field(1, point)),
        field(1, b"long") + field(5, field(1, point + field(7, pair))),
        field(1, b"many") + field(5, field(1, point + field(7, field(1, b"k")) * 17)),
        field(1, b"empty") + field(5, field(1, b"")),
        total("kept", 1),
    )
    assert world.push(who, metrics) == 0
    assert world.shown() == {"kept": 1.0}
    assert world.telemetry.statistics().left_out == 5


# -- how much is kept --


def series(names: int, labels: Labels = ()) -> Push:
    return Push((), [Point(f"m{number}", labels, 1.0, False, False) for number in range(names)], 0)


def test_the_client_heard_longest_ago_makes_room_for_another() -> None:
    kept, now = PushedMetrics(10), Now(0.0, 0)
    for number in range(3):
        kept.take(Uuid(bytes([number]) * 16), {"client_id": str(number)}, series(5), 60, now)
    assert [about for _, about, _ in kept.clients(now)] == [(("client_id", "1"),), (("client_id", "2"),)]
    assert kept.statistics().series == 10


def test_one_client_cannot_have_more_series_than_its_share() -> None:
    kept, now = PushedMetrics(1_000_000), Now(0.0, 0)
    kept.take(Uuid(b"a" * 16), {}, series(MOST_OF_ONE + 3), 60, now)
    assert (kept.statistics().series, kept.statistics().left_out) == (MOST_OF_ONE, 3)


def test_what_a_client_pushed_goes_when_it_is_silent_for_three_intervals(world: World) -> None:
    who = world.ask().client_instance_id
    world.push(who, pushed(total("t", 1)))
    world.time += LEAST_KEPT_S - 1
    assert world.shown() == {"t": 1.0}
    world.time += 1
    assert world.shown() == {}
    assert world.telemetry.statistics().series == 0


def test_what_is_known_of_clients_has_a_repr() -> None:
    assert repr(Instances(Numbered().uuid, 1)) == "<Instances 0 of 0 subscriptions>"
