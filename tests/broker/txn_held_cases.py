"""What is asked of a transactional id while the markers of its last end are still on their way.

`txn_held_answers.json` holds what an Apache Kafka 4.3.1 answered whose broker could not reach itself, so that no
marker was written; `tests/compat/test_ends_under_way.py` asks one again, and records with BARNABAS_REWRITE=1.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.broker.txn_cases import LAST_EPOCH, PARTITIONS, Sequence, Step

from barnabas.errors import ErrorCode
from barnabas.wire.codec.message import Message

__all__ = ["record", "sequences"]


def asked() -> list[Step]:
    """Nothing of this changes an id whose end is under way."""
    found: list[Step] = [("describe", 0, {})]
    for version in (3, 5):
        for commit in (True, False):
            for who in ("now", "before", "next epoch", "another id"):
                found.append(("end", version, {"who": who, "commit": commit}))
    for who in ("now", "before"):
        found += [
            ("init", 5, {"who": who}),
            ("add", 3, {"who": who, "partitions": [0]}),
            ("add", 5, {"who": who, "partitions": [1]}),
            ("verify", 5, {"who": who, "partitions": [0]}),
            ("offsets", 4, {"who": who}),
        ]
    return [*found, ("init", 5, {}), ("describe", 0, {})]


def sequences() -> Iterator[tuple[str, list[Step]]]:
    """Every way in which an end begins, and then all that can be asked."""
    now: dict[str, Any] = {"who": "now"}
    for added in (3, 5):
        begin: list[Step] = [("init", 5, {}), ("add", added, {**now, "partitions": [0, 1]})]
        for version in (3, 5):
            for commit in (True, False):
                end: Step = ("end", version, {**now, "commit": commit})
                yield f"held: add {added}, end {version} {commit}", [*begin, end, *asked()]
        yield f"held: add {added}, another producer", [*begin, ("init", 5, {}), *asked()]
        yield f"held: add {added}, goes on", [*begin, ("init", 5, now), *asked()]
    used_up: list[Step] = [("init", 5, {}), ("use up", 0, {}), ("add", 5, {**now, "partitions": [0]})]
    for version in (3, 5):
        yield f"held: used up, end {version}", [*used_up, ("end", version, {**now, "commit": True}), *asked()]


def record(address: str, hold: Callable[[], None]) -> dict[str, list[str]]:
    """What a broker at `address` answers; after `hold` it writes no markers."""
    from barnabas.client.admin.admin import Admin
    from barnabas.client.blocking import BlockingConnection
    from barnabas.wire.schemas.groups import FindCoordinatorRequest
    from barnabas.wire.schemas.transactions import InitProducerIdRequest

    with Admin(address) as admin:
        admin.create_topic("t", partitions=PARTITIONS)
    host, _, port = address.rpartition(":")
    with BlockingConnection(host, int(port)) as connection:
        for kind in (0, 1):
            asked = FindCoordinatorRequest(key_type=kind, coordinator_keys=["g"])
            while connection.request(asked, 4).coordinators[0].error_code:
                time.sleep(0.1)

        def ask(request: Message, version: int) -> Any:
            while True:
                answer = connection.request(request, version)
                if getattr(answer, "error_code", 0) not in (
                    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                    ErrorCode.NOT_COORDINATOR,
                ):
                    return answer
                time.sleep(0.1)

        def use_up(id_: str) -> int:
            request = InitProducerIdRequest(transactional_id=id_, transaction_timeout_ms=60_000)
            while ask(request, 5).producer_epoch != LAST_EPOCH:
                pass
            return LAST_EPOCH

        hold()
        return {name: Sequence(name, ask, lambda id_: None, use_up).run(steps) for name, steps in sequences()}
