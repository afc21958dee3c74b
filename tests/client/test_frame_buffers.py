"""Memory for large answers: used again, but never while somebody looks at what is in it."""

from __future__ import annotations

import pytest

from barnabas.client.blocking import FrameBuffers

LARGE = 1 << 20


def test_a_buffer_is_used_again_when_nobody_looks_at_it() -> None:
    buffers = FrameBuffers()
    first = buffers.take(LARGE)
    memory = id(first.obj)
    del first
    again = buffers.take(LARGE - 5)
    assert id(again.obj) == memory and len(again) == LARGE - 5


@pytest.mark.parametrize(
    "keep", [lambda view: view, lambda view: view[7:9], lambda view: view[3:].toreadonly()]
)
def test_what_somebody_looks_at_stays_as_it_is(keep) -> None:  # type: ignore[no-untyped-def]
    buffers = FrameBuffers()
    frame = buffers.take(LARGE)
    frame[:] = b"x" * LARGE
    kept = keep(frame)
    before = bytes(kept)
    del frame
    for _ in range(4):
        other = buffers.take(LARGE)
        other[:] = bytes(LARGE)
        del other
    assert bytes(kept) == before


def test_an_array_over_a_frame_keeps_it() -> None:
    numpy = pytest.importorskip("numpy")
    buffers = FrameBuffers()
    array = numpy.frombuffer(buffers.take(LARGE)[10:], dtype=numpy.uint8)
    assert id(buffers.take(LARGE).obj) != id(array.base.obj)


def test_no_more_than_two_are_kept_and_small_ones_never() -> None:
    buffers = FrameBuffers()
    held = [buffers.take(LARGE) for _ in range(5)]
    assert len(held) == 5 and repr(buffers).count(",") == 1
    assert len(FrameBuffers().take(10)) == 10
    assert repr(FrameBuffers()) == "<FrameBuffers []>"
