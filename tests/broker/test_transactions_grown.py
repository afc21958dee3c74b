"""__transaction_state that gets a second partition: what becomes of a transactional id that belongs there now."""

from __future__ import annotations

from tests.broker.transacting import StatePartition, TransactionWorld

from barnabas.errors import ErrorCode
from barnabas.model import TRANSACTIONS_TOPIC

STAYS, MOVES = "x", "a"
"""By their hashes: of two partitions the first has the one id, the second the other."""


def grow(world: TransactionWorld) -> None:
    new = StatePartition()
    new.index = 1
    world.broker.image.topics_by_name[TRANSACTIONS_TOPIC].partitions = {0: None, 1: None}
    world.broker.lead(new, True, 5)
    world.run()


def test_an_id_that_stays_goes_on() -> None:
    world = TransactionWorld()
    producer = world.init(STAYS)
    world.add(producer, 0, id_=STAYS)
    grow(world)
    assert world.add(producer, 1, id_=STAYS) == ErrorCode.NONE


def test_what_is_open_under_an_id_that_moved_can_only_be_aborted_and_is_when_its_time_is_over() -> None:
    world = TransactionWorld()
    producer = world.init(MOVES)
    world.add(producer, 0, id_=MOVES)
    grow(world)
    assert world.end(producer, id_=MOVES) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert world.add(producer, 1, id_=MOVES) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    later = world.init(MOVES)
    assert later[0] != producer[0]
    assert world.end(producer, id_=MOVES) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    world.run(61)
    assert world.timed_out == [f"{MOVES} 1"]
    [marker] = [marker for request in world.mark() for marker in request.markers]
    assert (marker.producer_id, marker.transaction_result) == (producer[0], False)
