"""Answers of a few bytes that leave before the end of the loop step, where nothing else would leave with them."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from barnabas.server.loop.memory import MemoryBudget
from barnabas.server.net.send_queue import SendQueue


class Sending:
    """A send queue on one end of a pair of sockets, and what came out at the other."""

    def __init__(self, near: socket.socket, far: socket.socket) -> None:
        self.far = far
        self.errors: list[Exception] = []
        self.writable: list[Callable[[], None]] = []
        self.budget = MemoryBudget(-1)
        loop = SimpleNamespace(
            add_writer=lambda fd, call: self.writable.append(call), remove_writer=lambda fd: None
        )
        self.queue = SendQueue(
            loop,  # type: ignore[arg-type]
            near.fileno(),
            self.budget.account(1, "here", lambda: None, lambda: None),
            sendfile_from=1,
            on_progress=lambda: None,
            on_error=self.errors.append,
        )

    def arrived(self) -> bytes:
        found = bytearray()
        try:
            while data := self.far.recv(1 << 20):
                found += data
        except BlockingIOError:
            pass
        return bytes(found)


@contextmanager
def sending() -> Iterator[Sending]:
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    one = Sending(near, far)
    yield one
    one.queue.close()
    assert not one.budget.used
    near.close()
    far.close()


def test_an_answer_that_is_alone_leaves_at_once() -> None:
    with sending() as one:
        one.queue.send_small(b"answer")
        assert one.arrived() == b"answer"
        assert (one.queue.pending, one.queue.sent) == (0, 6)


def test_an_answer_does_not_overtake_what_waits_for_the_end_of_the_step() -> None:
    with sending() as one:
        one.queue.add_small(b"first ")
        one.queue.send_small(b"second ")
        one.queue.add([b"third"], 5)
        assert one.arrived() == b""
        one.queue.flush()
        assert one.arrived() == b"first second third"


def test_what_the_socket_does_not_take_of_an_answer_leaves_before_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = os.write
    with sending() as one:
        with monkeypatch.context() as patched:
            patched.setattr(os, "write", lambda fd, data: real(fd, bytes(data)[:3]))
            one.queue.send_small(b"answer")
        assert one.queue.pending == 3
        one.queue.send_small(b", another")
        assert one.arrived() == b"ans"
        one.queue.flush()
        assert one.arrived() == b"wer, another"
        assert (one.queue.pending, one.queue.sent) == (0, 15)


def test_a_socket_that_is_full_gets_the_answer_when_it_is_writable() -> None:
    with sending() as one:
        one.queue.send_small(big := bytes(4 << 20))
        one.queue.flush()
        assert one.queue.blocked and one.queue.held == 4 << 20
        one.queue.send_small(b"behind it")
        found = bytearray()
        while one.queue.pending:
            found += one.arrived()
            one.writable[0]()
        found += one.arrived()
        assert found == big + b"behind it"
        assert not one.queue.blocked and not one.queue.held


def test_a_peer_that_is_gone_is_told_of_once() -> None:
    with sending() as one:
        one.far.close()
        one.queue.send_small(b"answer")
        assert [type(error) for error in one.errors] == [BrokenPipeError]


def test_a_queue_that_is_closed_sends_nothing() -> None:
    with sending() as one:
        one.queue.close()
        one.queue.send_small(b"answer")
        assert one.arrived() == b"" and not one.errors
