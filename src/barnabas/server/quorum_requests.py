"""Requests on their way through the controller: decided, appended, committed, answered.

A request waits in line until the turn before it is over, is decided on the leading image (committed plus
appended), and is answered once the high watermark has passed its records.  One that changes nothing is
answered when everything it was decided upon is committed, so that no answer tells of what may still be
lost.
"""

from __future__ import annotations

import asyncio
from collections import deque

from barnabas.controller.controller import Controller
from barnabas.controller.view import Decision
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import Epoch, Now, Offset
from barnabas.raft.messages import Accepted
from barnabas.server import events
from barnabas.server.quorum_reserve import Reserve
from barnabas.wire.message import Message, Record
from barnabas.wire.metadata import NoOpRecord

__all__ = ["Requests", "Submission"]


class Submission:
    """One request, from its arrival to its answer.  `future` None: nobody waits."""

    __slots__ = ("decision", "expected", "future", "last_offset", "request", "version")

    def __init__(
        self, request: Message | None, version: int = 0, future: asyncio.Future[Message] | None = None
    ) -> None:
        self.request = request
        self.version = version
        self.future = future
        self.decision: Decision | None = None
        self.expected: Offset = -1
        """Offset for which it was decided: its first record must get this one."""
        self.last_offset: Offset = -1
        """It is answered once this offset is committed."""

    def __repr__(self) -> str:
        name = "records" if self.request is None else self.request.NAME
        return f"<Submission {name} at {self.last_offset}>"

    @property
    def records(self) -> list[Record]:
        """What it wants to append."""
        return [] if self.decision is None else self.decision.records

    def answer(self) -> None:
        """Give the decision's answer to whoever waits."""
        if self.future is not None and not self.future.done() and self.decision is not None:
            self.future.set_result(self.decision.answer)

    def refuse(self, error: KafkaError) -> None:
        """Tell whoever waits why it is not done."""
        if self.future is not None and not self.future.done():
            self.future.set_exception(error)


class Requests:
    """The line of requests, and the controller that decides them while this node leads (else None)."""

    __slots__ = ("_committing", "_end", "_line", "controller", "high_watermark", "reserve")

    def __init__(self) -> None:
        self.controller: Controller | None = None
        self.high_watermark: Offset = 0
        self.reserve: Reserve | None = None
        """Says what is refused for want of room."""
        self._end: Offset = 0
        self._line: deque[Submission] = deque()
        self._committing: deque[Submission] = deque()

    def __repr__(self) -> str:
        return f"<Requests line={len(self._line)} committing={len(self._committing)}>"

    def __len__(self) -> int:
        """Requests that are not answered yet."""
        return len(self._line) + len(self._committing)

    @property
    def waiting(self) -> bool:
        """Whether one waits to be decided."""
        return bool(self._line)

    def add(self, submission: Submission) -> None:
        """Put a request at the end of the line."""
        self._line.append(submission)

    def add_records(self, records: list[Record]) -> None:
        """Put records that nobody asked for at the end of the line."""
        submission = Submission(None)
        submission.decision = Decision(NoOpRecord(), records)  # nobody waits for the answer
        self._line.append(submission)

    def decide_next(self, next_offset: Offset, epoch: Epoch, now: Now) -> Submission | None:
        """Decide the first in line.  Returns it when it has records to append, all at `next_offset`."""
        submission = self._line.popleft()
        if self.controller is None:
            submission.refuse(KafkaError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller"))
            return None
        submission.expected = next_offset
        if submission.request is not None:
            refusal = self.reserve.refuse(submission.request.KEY) if self.reserve is not None else None
            if refusal is not None:
                submission.refuse(refusal)
                return None
            try:
                submission.decision = self.controller.decide(
                    submission.request, submission.version, now, next_offset
                )
            except KafkaError as error:
                submission.refuse(error)
                return None
            except Exception as error:  # it touched nothing: no request, however odd, may end the node
                events.emit(events.REQUEST_FAILED, api=submission.request.NAME, error=error)
                submission.refuse(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
                return None
        if submission.records:
            return submission
        assert submission.decision is not None
        self.controller.accepted(submission.decision, next_offset, epoch, now)
        self._wait(submission, self._end - 1)
        return None

    def accepted(self, effect: Accepted, now: Now) -> None:
        """The records of a submission were appended; they lead the image from now on."""
        submission = effect.token
        assert isinstance(submission, Submission)
        assert submission.decision is not None and self.controller is not None
        if effect.base_offset != submission.expected:
            raise AssertionError(f"decided for {submission.expected}, appended at {effect.base_offset}")
        self.controller.accepted(submission.decision, effect.base_offset, effect.epoch, now)
        self._end = effect.last_offset + 1
        self._wait(submission, effect.last_offset)

    def _wait(self, submission: Submission, last_offset: Offset) -> None:
        submission.last_offset = last_offset
        if last_offset < self.high_watermark:
            submission.answer()
        else:
            self._committing.append(submission)

    def committed(self, high_watermark: Offset) -> None:
        """Answer everything below the high watermark."""
        self.high_watermark = high_watermark
        while self._committing and self._committing[0].last_offset < high_watermark:
            self._committing.popleft().answer()

    def refuse_all(self, error: KafkaError) -> None:
        """Nobody is answered any more; what was appended may still be committed by the next leader."""
        self.controller = None
        self._end = 0  # what was appended may be cut away; who leads again begins at what is committed
        for queue in (self._line, self._committing):
            while queue:
                queue.popleft().refuse(error)
