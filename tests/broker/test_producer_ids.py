"""InitProducerId: ids come in blocks, nobody gets the same one."""

from __future__ import annotations

from tests.broker.harness import Answer, Node

from barnabas.errors import ErrorCode
from barnabas.wire.schemas.transactions import InitProducerIdRequest


def ask(node: Node, version: int = 5, transactional_id: str | None = None) -> Answer:
    return node.ask(InitProducerIdRequest(transactional_id=transactional_id), version)


def test_the_first_one_waits_for_a_block_and_the_next_do_not(node: Node) -> None:
    first = ask(node)
    second = ask(node)
    assert not first.here
    assert node.outside.blocks_asked == 1
    node.broker.producer_ids.allocated(5000, 1000, ErrorCode.NONE)
    assert (first.message.producer_id, first.message.producer_epoch) == (5000, 0)
    assert second.message.producer_id == 5001
    assert ask(node).message.producer_id == 5002


def test_the_next_block_is_asked_for_before_the_last_id_is_gone(node: Node) -> None:
    ask(node)
    node.broker.producer_ids.allocated(0, 1000, ErrorCode.NONE)
    ids = [ask(node).message.producer_id for _ in range(898)]
    assert node.outside.blocks_asked == 1
    ids.append(ask(node).message.producer_id)
    assert node.outside.blocks_asked == 2
    node.broker.producer_ids.allocated(7000, 1000, ErrorCode.NONE)
    ids += [ask(node).message.producer_id for _ in range(150)]
    assert len(set(ids)) == len(ids)
    assert ids[-1] >= 7000


def test_no_block_in_time_is_an_error_that_every_client_repeats(node: Node) -> None:
    waiting = ask(node)
    node.after(6)
    ask(node)
    assert node.outside.blocks_asked == 2, "asked again when no answer came"
    node.after(15)
    assert waiting.message.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert len(node.broker.producer_ids.waiting) == 1


def test_a_refused_block_is_asked_for_again(node: Node) -> None:
    waiting = ask(node)
    node.broker.producer_ids.allocated(-1, 0, ErrorCode.NOT_CONTROLLER)
    node.broker.maintain(node.now)
    assert node.outside.blocks_asked == 2
    other = ask(node)
    assert node.outside.blocks_asked == 2, "once is enough"
    node.broker.producer_ids.allocated(10, 1000, ErrorCode.NONE)
    assert (waiting.message.producer_id, other.message.producer_id) == (10, 11)
