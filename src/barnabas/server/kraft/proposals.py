"""Requests on their way through the controller: decided, appended, committed, answered.

A request waits in the queue until the one before it is done.  It is decided on the leading image (committed
plus appended), and answered once the high watermark has passed its records.  A request that changes nothing
is answered when everything that its decision rests on is committed, so that no answer reports what may still
be lost.

A request of a node of another quorum (`raft.identity.origin`) is refused when its turn comes, and again when it
would be answered: this node may learn of which quorum it is with the commit that the answer waits for.

A decision about many partitions takes several loop steps; later requests wait, so that nothing changes under
it.  Its records are encoded in such steps too.  One loop step takes `STEPS` of them, whichever request they
belong to.  At the end the records are appended and replayed together, in a loop step of their own.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Generator

from barnabas.controller.controller import Controller
from barnabas.controller.feature_levels import METADATA_VERSION, NEWER_RELEASE, unknown_to
from barnabas.controller.versions import LATEST
from barnabas.controller.view import Decision
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import Epoch, Now, Offset
from barnabas.raft.effects import Accepted
from barnabas.server.kraft.records import Encoded, encoded
from barnabas.server.kraft.reserve import Reserve
from barnabas.server.observe import events
from barnabas.wire.codec.message import Message, MetadataRecord
from barnabas.wire.metadata import BrokerRegistrationChangeRecord, NoOpRecord
from barnabas.wire.schemas.brokers import BrokerRegistrationRequest, ControllerRegistrationRequest

__all__ = ["STEPS", "STRANGER", "Proposals", "Submission"]

STEPS = 100
"""Steps of a decision in one loop step: each is about one partition or one record, 5 to 15 us."""
STRANGER = "this node is not the active controller of the quorum that its sender is of"
_FENCED = 1

UNFIT = events.register(
    "controller.registration-refused",
    logging.WARNING,
    "a node does not know a level of this cluster, and cannot register",
)
_REGISTRATIONS = (BrokerRegistrationRequest, ControllerRegistrationRequest)
_MOST_TOLD = 100
SESSION_OVER = events.register(
    "controller.session-over", logging.WARNING, "a broker sent no heartbeat for its session: it is fenced"
)


class Submission:
    """One request, from its arrival to its answer.  `future` None: nobody waits."""

    __slots__ = (
        "decision",
        "due",
        "expected",
        "future",
        "last_offset",
        "payload",
        "request",
        "sender",
        "version",
    )

    def __init__(
        self,
        request: Message | None,
        version: int = 0,
        future: asyncio.Future[Message] | None = None,
        sender: str = "",
    ) -> None:
        self.request = request
        self.version = version
        self.future = future
        self.sender = sender
        self.decision: Decision | None = None
        self.due = False
        """Nobody's request: what is due when its turn comes."""
        self.payload: tuple[MetadataRecord, ...] = ()
        """The records to append, encoded already if there are many."""
        self.expected: Offset = -1
        """Offset for which it was decided: its first record must get this one."""
        self.last_offset: Offset = -1
        """It is answered once this offset is committed."""

    def __repr__(self) -> str:
        name = "records" if self.request is None else self.request.NAME
        return f"<Submission {name} at {self.last_offset}>"

    @property
    def records(self) -> list[MetadataRecord]:
        """What it wants to append."""
        return [] if self.decision is None else self.decision.records

    def answer(self) -> None:
        """Give the decision's answer to its caller."""
        if self.future is not None and not self.future.done() and self.decision is not None:
            self.future.set_result(self.decision.answer)

    def refuse(self, error: KafkaError) -> None:
        """Tell the caller why it is not done."""
        if self.future is not None and not self.future.done():
            self.future.set_exception(error)


class Proposals:
    """The line of requests, and the controller that decides them while this node leads (else None)."""

    __slots__ = (
        "_committing",
        "_deciding",
        "_end",
        "_is_stranger",
        "_left",
        "_line",
        "_most",
        "_told",
        "controller",
        "high_watermark",
        "reserve",
        "resting",
    )

    def __init__(
        self, steps: int = STEPS, is_stranger: Callable[[Message | None], bool] = lambda request: False
    ) -> None:
        """`steps` of decisions are taken in one loop step; `is_stranger`: a node of another quorum asks."""
        self._is_stranger = is_stranger
        self._most = self._left = steps
        self.controller: Controller | None = None
        self.high_watermark: Offset = 0
        self.reserve: Reserve | None = None
        """Says what is refused for want of room."""
        self.resting = False
        """The decision under way goes on in another loop step: whoever drives this sets it back."""
        self._deciding: Generator[None, None, None] | None = None
        """The decision of the first in line, under way."""
        self._told: set[str] = set()
        """Refused registrations of which an event tells already."""
        self._end: Offset = 0
        self._line: deque[Submission] = deque()
        self._committing: deque[Submission] = deque()

    def __repr__(self) -> str:
        return f"<Proposals line={len(self._line)} committing={len(self._committing)}>"

    def __len__(self) -> int:
        """Requests that are not answered yet."""
        return len(self._line) + len(self._committing)

    @property
    def waiting(self) -> bool:
        """Whether one waits to be decided now."""
        return bool(self._line) and not self.resting

    def begin_loop_step(self) -> None:
        """A loop step has begun: as many steps may be taken again."""
        if not self.resting:
            self._left = self._most

    def add(self, submission: Submission) -> None:
        """Put a request at the end of the line."""
        self._line.append(submission)

    def add_records(self, records: list[MetadataRecord]) -> None:
        """Put records that nobody asked for at the end of the line."""
        submission = Submission(None)
        submission.decision = Decision(NoOpRecord(), records)  # nobody waits for the answer
        submission.payload = tuple(records)
        self._line.append(submission)

    def add_due(self) -> None:
        """Have what is due without anybody asking be decided, once."""
        if not any(submission.due for submission in self._line):
            submission = Submission(None)
            submission.due = True
            self._line.append(submission)

    def decide_next(self, next_offset: Offset, epoch: Epoch, now: Now) -> Submission | None:
        """Take steps to decide the first in line.  Returns it when it has records to append, all at `next_offset`.

        When it needs more steps than one loop step has, `resting` is true afterwards.
        """
        submission = self._line[0]
        if self.controller is None:
            self._done()
            submission.refuse(KafkaError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller"))
            return None
        if submission.decision is None or submission.expected != next_offset:
            if not self._decide(submission, next_offset, now):
                return None
        self._done()
        if submission.records:
            return submission
        assert submission.decision is not None
        self.controller.accepted(submission.decision, next_offset, epoch, now)
        self._wait(submission, self._end - 1)
        return None

    def _decide(self, submission: Submission, next_offset: Offset, now: Now) -> bool:
        """Go on deciding it; whether that is done, and it is not refused."""
        # The offset moved when the quorum appended something itself: the decision begins again.
        if self._deciding is None or submission.expected != next_offset:
            submission.expected = next_offset
            if submission.request is None and not submission.due:
                return True  # its records are there
            refusal = self._refusal(submission)
            if refusal is not None:
                self._done()
                submission.refuse(refusal)
                return False
            self._deciding = self._steps(submission, now)
        try:
            while self._left > 0:
                next(self._deciding)
                self._left -= 1
        except StopIteration:
            self.resting = isinstance(
                submission.payload, Encoded
            )  # so many are appended in another loop step
            return not self.resting
        except KafkaError as error:
            self._done()
            if error.code is ErrorCode.UNSUPPORTED_VERSION:
                self._tell_unfit(submission.request, error)
            submission.refuse(error)
            return False
        except Exception as error:  # it touched nothing: no request, however odd, may end the node
            if submission.request is None:
                raise
            self._done()
            events.emit(events.REQUEST_FAILED, api=submission.request.NAME, error=error)
            submission.refuse(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
            return False
        self.resting = True
        return False

    def unfit(self, features: tuple[tuple[str, int, int], ...]) -> str | None:
        """Say which level of the cluster a node with these features does not know (`raft.settings`)."""
        return None if self.controller is None else unknown_to(features, self.controller.image.features)

    def _tell_unfit(self, request: Message | None, error: KafkaError) -> None:
        """Say once which node cannot register, where this node's operator looks, too; it asks again and again."""
        if isinstance(request, _REGISTRATIONS) and error.message not in self._told:
            self._told = {*self._told, error.message} if len(self._told) < _MOST_TOLD else {error.message}
            events.emit(UNFIT, reason=error.message, next=NEWER_RELEASE)

    def _refusal(self, submission: Submission) -> KafkaError | None:
        if self._is_stranger(submission.request):
            return KafkaError(ErrorCode.NOT_CONTROLLER, STRANGER)
        if self.reserve is None or submission.request is None:
            return None
        return self.reserve.refuse(submission.request.KEY)

    def _steps(self, submission: Submission, now: Now) -> Generator[None, None, None]:
        """Decide, then encode what is many."""
        controller = self.controller
        assert controller is not None
        if submission.request is None:
            decision = yield from controller.due_in_steps(now, submission.expected)
            for record in decision.records:
                if isinstance(record, BrokerRegistrationChangeRecord) and record.fenced == _FENCED:
                    events.emit(SESSION_OVER, broker=record.broker_id, epoch=record.broker_epoch)
        else:
            decision = yield from controller.decide_in_steps(
                submission.request, submission.version, now, submission.expected, submission.sender
            )
        if len(decision.records) > self._most:
            level = controller.image.feature(METADATA_VERSION) or LATEST
            submission.payload = yield from encoded(decision.records, level)
        else:
            submission.payload = tuple(decision.records)
        submission.decision = decision

    def _done(self) -> None:
        """The first in line is decided or refused."""
        self._line.popleft()
        self._deciding = None
        self.resting = self._left <= 0

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
            self._answer(submission)
        else:
            self._committing.append(submission)

    def _answer(self, submission: Submission) -> None:
        if self._is_stranger(submission.request):
            submission.refuse(KafkaError(ErrorCode.NOT_CONTROLLER, STRANGER))
        else:
            submission.answer()

    def committed(self, high_watermark: Offset) -> None:
        """Answer everything below the high watermark."""
        self.high_watermark = high_watermark
        while self._committing and self._committing[0].last_offset < high_watermark:
            self._answer(self._committing.popleft())

    def refuse_all(self, error: KafkaError) -> None:
        """Nobody is answered any more; what was appended may still be committed by the next leader."""
        self.controller = None
        self._deciding = None
        self._end = 0  # what was appended may be cut away; who leads again begins at what is committed
        for queue in (self._line, self._committing):
            while queue:
                queue.popleft().refuse(error)
