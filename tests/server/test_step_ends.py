"""While clients come one at a time a step ends where its read does; reads that come together share its end."""

from __future__ import annotations

from time import monotonic

import pytest
from tests.server.step_doubles import Loop, Node, end_of_a_step, started

from barnabas.model import Now
from barnabas.server.loop.loop_step import ALONE_STEPS, LoopStep

LATER_S = 1.0
"""A read that begins so much after the last end has not waited for it."""


class Client:
    """A connection."""

    def flush(self) -> None: ...
    def abort(self) -> None: ...


READER, OTHER = Client(), Client()


def read(step: LoopStep, received: float, client: Client | None = None) -> None:
    """A read of this client (None: of some client) has something for the end of the step."""
    step.end_of_read(client or Client(), received, Now(0.0, 0))


def alone() -> tuple[LoopStep, Loop, Node]:
    """After steps with one read each."""
    step, loop, node = started(reads_apart_s=LATER_S / 2)
    for _ in range(ALONE_STEPS):
        end_of_a_step(step, loop)
    node.ends = 0
    return step, loop, node


def later() -> float:
    return monotonic() + LATER_S


def test_the_step_of_a_client_that_is_alone_ends_where_its_read_does() -> None:
    step, loop, node = alone()
    for count in range(1, 5):
        read(step, later())
        assert node.ends == count
        assert not loop.soon


def test_a_read_that_waited_for_the_end_of_a_step_shares_the_next_ends_with_others() -> None:
    step, loop, node = alone()
    read(step, monotonic())  # close to the end of the last step
    assert node.ends == 0
    read(step, later())  # of another client, in the same turn of the loop
    loop.run()
    assert node.ends == 1
    for _ in range(ALONE_STEPS - 1):
        read(step, later())
        assert loop.soon
        loop.run()
    read(step, later())
    assert not loop.soon
    assert node.ends == ALONE_STEPS + 1


def test_reads_that_come_together_are_noticed_before_they_are_taken_to_be_alone() -> None:
    step, loop, node = started(reads_apart_s=LATER_S / 2)
    for _ in range(3 * ALONE_STEPS):
        read(step, later())
        read(step, later())
        assert len(loop.soon) == 1
        loop.run()
    assert node.ends == 3 * ALONE_STEPS


def test_what_an_end_at_once_answers_leaves_with_it() -> None:
    step, loop, node = alone()
    flushed = []

    class Answering(Client):
        def flush(self) -> None:
            flushed.append(node.ends)

    node.on_end = lambda: step.flush_later(Answering())
    read(step, later())
    assert flushed == [1]
    assert not loop.soon


def test_a_client_that_asks_again_at_once_after_its_answer_is_alone_still() -> None:
    step, loop, node = alone()
    client = Client()
    node.on_end = lambda: step.flush_later(client)
    read(step, later(), client)
    for count in range(2, 5):
        read(step, monotonic(), client)  # close to the end that answered it
        assert node.ends == count
        assert not loop.soon


@pytest.mark.parametrize("answered", [[OTHER], [], [OTHER, READER]])
def test_a_read_close_to_an_end_that_answered_somebody_else_has_waited(answered: list[Client]) -> None:
    step, loop, node = alone()
    node.on_end = lambda: [step.flush_later(client) for client in answered]
    read(step, later(), READER)
    read(step, monotonic(), READER)
    assert node.ends == 1
    assert loop.soon


def test_without_real_time_every_step_ends_when_the_loop_says_so() -> None:
    step, loop, node = started()
    for count in range(3 * ALONE_STEPS):
        read(step, later())
        assert node.ends == count
        loop.run()
