"""The task that registers a controller: no error ends it before the metadata names this process."""

from __future__ import annotations

import asyncio

import pytest
from tests.controller.cluster import Chance
from tests.server.quorum_node import run

from barnabas.controller.image import ControllerState, MetadataImage
from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.model import Uuid
from barnabas.server.kraft import registration
from barnabas.server.observe import events
from barnabas.wire.codec.message import Message


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (KafkaError(ErrorCode.NOT_CONTROLLER, "elsewhere"), "quorum.registration-waits"),
        (BarnabasError("no line"), "quorum.registration-waits"),
        (RuntimeError("a defect"), "node.task-failed"),
    ],
    ids=["refused", "not reached", "a defect"],
)
def test_registering_goes_on_after_an_error_and_tells_it(
    error: Exception, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    emitted: list[tuple[str, object]] = []
    monkeypatch.setattr(events, "emit", lambda event, **said: emitted.append((event.name, said["error"])))
    monkeypatch.setattr(registration, "_PAUSE_S", 0.0)
    attempts: list[Message] = []
    tried_again = asyncio.Event()

    async def send(request: Message) -> Message:
        attempts.append(request)
        if len(attempts) == 1:
            raise error
        tried_again.set()
        return request

    async def story() -> None:
        subject = registration.Registration(1, (), 0, Chance())
        subject.begin(send, MetadataImage)
        await asyncio.wait_for(tried_again.wait(), 20)
        subject.stop()

    run(story)
    assert emitted == [(told, error)]


def test_a_controller_that_runs_registers_again_where_its_registration_is_removed_and_a_twin_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As Apache Kafka's controllers do; two processes of one id would overwrite each other for ever."""
    emitted: list[str] = []
    monkeypatch.setattr(events, "emit", lambda event, **said: emitted.append(event.name))
    subject, image = registration.Registration(1, (), 0, Chance()), MetadataImage()
    assert not subject.look(image), "it has not been registered yet"
    own = ControllerState(1, subject.incarnation, (), {})
    image.controllers[1] = own
    assert not subject.look(image)
    del image.controllers[1]
    assert subject.look(image)
    assert not subject.look(image), "once is enough"
    image.controllers[1] = own
    assert not subject.look(image)
    image.controllers[1] = own._replace(incarnation=Uuid.of(9, 9))
    assert not subject.look(image)
    assert emitted == ["quorum.registration-removed", "quorum.twin"]
