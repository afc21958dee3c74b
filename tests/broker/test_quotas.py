"""Rates measured in Kafka's windows, and who shares which quota."""

from __future__ import annotations

import pytest

from barnabas.broker.quotas import client_quotas
from barnabas.broker.quotas.client_quotas import CONNECTIONS, CONSUMER, PRODUCER, ClientQuotas
from barnabas.broker.quotas.rate import SampledRate

BOTH, USER, CLIENT = {"user": "u", "client-id": "c"}, {"user": "u"}, {"client-id": "c"}


def quotas(*rows: tuple[dict[str, str | None], float], key: str = PRODUCER) -> ClientQuotas:
    limits = ClientQuotas(11, 1)
    limits.follow({frozenset(entity.items()): {key: rate} for entity, rate in rows})
    return limits


def test_a_new_rate_may_use_all_full_windows_at_once() -> None:
    rate = SampledRate(11, 1.0)
    rate.record(1000, 100.0)
    assert rate.per_second(100.0) == 100
    assert rate.delay(100, 100.0) == 0
    rate.record(500, 100.0)
    assert rate.delay(100, 100.0) == pytest.approx(5.0)


def test_a_rate_is_the_amount_of_the_last_windows_and_the_time_since_the_oldest() -> None:
    """As Kafka's Rate: ten full windows at least, and the part of the present one."""
    rate = SampledRate(11, 1.0)
    for second in range(20):
        rate.record(100, 50.0 + second)
    assert rate.per_second(69.5) == pytest.approx(1100 / 10.5)
    assert rate.per_second(79.9) == pytest.approx(100 / 10.9)
    assert rate.per_second(80.0) == 0
    assert rate.idle(80.0)


def test_who_waits_each_time_gets_the_limit_on_average() -> None:
    """About: the measured time varies between ten and eleven windows, as in Kafka."""
    rate, now, sent = SampledRate(11, 1.0), 10.0, 0
    begun = now
    while now < begun + 200:
        rate.record(250, now)
        sent += 250
        now += max(rate.delay(100, now), 0.001)
    assert 85 < (sent - 1000) / (now - begun) < 115


@pytest.mark.parametrize(
    ("rows", "limit"),
    [
        ([(BOTH, 1), (USER, 9)], 1),
        ([({"user": "u", "client-id": None}, 1), (USER, 9)], 1),
        ([(USER, 1), ({"user": None, "client-id": "c"}, 9)], 1),
        ([({"user": None, "client-id": "c"}, 1), ({"user": None, "client-id": None}, 9)], 1),
        ([({"user": None, "client-id": None}, 1), ({"user": None}, 9)], 1),
        ([({"user": None}, 1), (CLIENT, 9)], 1),
        ([(CLIENT, 1), ({"client-id": None}, 9)], 1),
        ([({"client-id": None}, 1)], 1),
        ([({"user": "other"}, 1), ({"client-id": "other"}, 1)], None),
    ],
)
def test_the_most_specific_entity_counts(
    rows: list[tuple[dict[str, str | None], float]], limit: int | None
) -> None:
    most = quotas(*rows).most_at_once(PRODUCER, "u", "c")
    assert most == (None if limit is None else limit * 10)


def test_an_entity_without_that_quota_does_not_hide_a_wider_one() -> None:
    limits = ClientQuotas(11, 1)
    limits.follow({frozenset(USER.items()): {CONSUMER: 1.0}, frozenset({("user", None)}): {PRODUCER: 2.0}})
    assert limits.most_at_once(PRODUCER, "u", "c") == 20


def test_who_is_named_shares_one_rate_and_a_default_is_one_for_each() -> None:
    named = quotas((USER, 100))
    assert named.record(PRODUCER, "u", "a", 1000, 1.0) == 0
    assert named.record(PRODUCER, "u", "b", 100, 1.0) == pytest.approx(1.0)
    each = quotas(({"client-id": None}, 100))
    assert each.record(PRODUCER, "u", "a", 1000, 1.0) == 0
    assert each.record(PRODUCER, "u", "b", 1000, 1.0) == 0
    assert each.record(PRODUCER, "v", "a", 100, 1.0) == pytest.approx(1.0)


def test_a_changed_quota_counts_at_once_and_a_removed_one_no_more() -> None:
    limits = quotas((USER, 100))
    limits.record(PRODUCER, "u", "c", 1000, 1.0)
    limits.follow({frozenset(USER.items()): {PRODUCER: 50.0}})
    assert limits.record(PRODUCER, "u", "c", 0, 1.0) == pytest.approx(10.0)
    limits.follow({})
    assert not limits.active and limits.record(PRODUCER, "u", "c", 10**9, 1.0) == 0


def test_a_connection_that_comes_too_often_does_not_count() -> None:
    limits = quotas(({"ip": None}, 2), ({"ip": "10.0.0.1"}, 1), key=CONNECTIONS)
    assert [limits.connected("10.0.0.1", 5.0) > 0 for _ in range(12)] == [False] * 10 + [True] * 2
    assert limits.connected("10.0.0.2", 5.0) == 0
    assert limits.connected("10.0.0.1", 16.5) == 0


def test_idle_rates_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_quotas, "MOST_RATES", 5)
    limits = quotas(({"client-id": None}, 1))
    for n in range(50):
        limits.record(PRODUCER, "u", f"c{n}", 1, n * 5.0)
    assert len(limits._rates) <= 5 and len(limits._found) <= 5


def test_what_is_used_of_quotas_is_told_with_the_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = quotas((USER, 100), ({"user": None}, 1000))
    assert limits.record(PRODUCER, "u", "a", 1500, 50.0) == pytest.approx(5.0)
    assert limits.record(PRODUCER, "u", "b", 500, 50.0) == pytest.approx(10.0)
    assert limits.record(PRODUCER, "other", "c", 100, 50.0) == 0
    used = {(use.user, use.client): use[3:] for use in limits.uses(10, 50.0)}
    assert used == {("u", None): (200.0, 2, pytest.approx(15.0)), ("other", None): (10.0, 0, 0.0)}
    assert [use.user for use in limits.uses(1, 50.0)] == ["u"], "who waits comes first"
    monkeypatch.setattr(client_quotas, "MOST_RATES", 3)
    for number in range(20):
        limits.record(PRODUCER, f"user-{number}", "", 100_000, 60.0 + number * 100)
    assert len(list(limits.uses(100, 2000.0))) <= 4
