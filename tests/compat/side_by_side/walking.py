"""A sequence at both sides, step by step: both are asked the same, and their answers are compared.

A step is over when both have answered. Only JoinGroup and SyncGroup may wait for others: where neither side
answers, their answers are compared when they come. A side that is only completing something (FOR_A_MOMENT) is
asked again when the other has answered.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from tests.compat.side_by_side.forms import form, named_code
from tests.compat.side_by_side.learning import learn
from tests.compat.side_by_side.lying import CLOSED, SILENT, ask_lying, falsified
from tests.compat.side_by_side.plan import Sequence
from tests.compat.side_by_side.requests import message
from tests.compat.side_by_side.side import Side
from tests.compat.side_by_side.steps import Step

from barnabas.client.blocking import ConnectionFailed, RequestTimedOut
from barnabas.wire.codec.message import Message
from barnabas.wire.records import batches, read_records
from barnabas.wire.schemas.consumer_groups import ConsumerGroupDescribeRequest
from barnabas.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.schemas.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.wire.schemas.transactions import DescribeTransactionsRequest

__all__ = ["Difference", "Walk", "codes"]

FOR_A_MOMENT = (
    "CONCURRENT_TRANSACTIONS",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_LEADER_OR_FOLLOWER",
)
MAY_WAIT = ("join", "sync")
WAITS_S = 0.06
"""So long neither answers: the request waits for others."""
OTHER_S = 5.0
"""So long the other is given when one has answered."""
LOOKED_UP_S = 0.15
"""So long after a heartbeat with a pattern both have looked it up, each in a thread of its own."""
SOON_S = 0.03
"""So long after another step of the same group, which may have a pattern looked up that came before."""
WAITS = "waits"
SHOWN = 12
"""Steps before a difference that are printed."""


class Difference(NamedTuple):
    seed: int
    family: str
    number: int
    step: Step
    ours: Any
    theirs: Any
    before: list[tuple[Step, Any]]
    """The steps until then, with what both answered."""

    def __str__(self) -> str:
        lines = [f"seed {self.seed} ({self.family}), step {self.number}: {self.step}"]
        lines += [
            f"    before: {step}\n            {_short(answer)}" for step, answer in self.before[-SHOWN:]
        ]
        return "\n".join([*lines, f"    ours:   {self.ours}", f"    theirs: {self.theirs}"])


def _short(answer: Any) -> str:
    text = str(answer)
    return text if len(text) < 400 else text[:400] + "..."


class _Waiting(NamedTuple):
    number: int
    step: Step
    requests: tuple[Message, ...]
    tickets: tuple[int, ...]


class Walk:
    """`ours` and `theirs` walk through sequences; `answers` counts what was compared, `codes` what it was."""

    def __init__(self, ours: Side, theirs: Side) -> None:
        self.sides = (ours, theirs)
        self.answers = 0
        self.skipped = 0
        self.codes: dict[tuple[str, str], int] = {}
        self._waiting: dict[str, _Waiting] = {}
        self._done: list[tuple[Step, Any]] = []
        self._patterns = False
        """Whether the sequence has had one."""

    def run(self, sequence: Sequence, prefix: str) -> Difference | None:
        """The first difference, or None.  A topic `prefix`-t is there."""
        self._done, self._patterns = [], False
        for side in self.sides:
            side.begin(prefix, own_ids=sequence.family in ("consumer groups", "mixed groups"))
            side.topics[f"{prefix}-t"] = side.made[f"{prefix}-t"]
        try:
            for number, step in enumerate(sequence.steps):
                found = self._collect() or self._take(number, step) or self._collect(after=step)
                if found is not None:
                    at, wrong, ours, theirs = found
                    return Difference(*sequence[:2], at, wrong, ours, theirs, self._done)
            return None
        finally:
            for by in list(self._waiting):
                for side in self.sides:
                    side.forget(by)
            self._waiting.clear()

    # -- one step ----------------------------------------------------------------------------------------

    def _take(self, number: int, step: Step) -> tuple[int, Step, Any, Any] | None:
        if step.by in self._waiting:
            self.skipped += 1
            return None
        if _makes_kafka_forget(self.sides[1], step):
            self.skipped += 1
            return None
        if step.api in ("look", "lie"):
            ask = _look if step.api == "look" else _lie
            ours, theirs = (ask(side, step) for side in self.sides)
            return self._compare(number, step, ours, theirs)
        requests = tuple(message(side, step) for side in self.sides)
        tickets = tuple(
            side.connection(step.by).post(request, step.version)
            for side, request in zip(self.sides, requests, strict=True)
        )
        waiting = _Waiting(number, step, requests, tickets)
        if step.api in MAY_WAIT:
            until = time.monotonic() + WAITS_S
            while not (came := [side.arrived(step.by, 0.002) for side in self.sides]) or not any(came):
                if time.monotonic() > until:
                    self._waiting[step.by] = waiting
                    return None
            if not all(came) and (lonely := self._lonely(waiting)):
                return lonely
        return self._hear(waiting)

    def _collect(self, after: Step | None = None) -> tuple[int, Step, Any, Any] | None:
        """What had to wait and has come meanwhile.  After a step it is given some milliseconds to come."""
        if after is not None and self._waiting:
            until = time.monotonic() + 0.02
            while time.monotonic() < until and not any(
                side.arrived(by, 0.001) for side in self.sides for by in self._waiting
            ):
                pass
        for by, waiting in list(self._waiting.items()):
            if any(side.arrived(by, 0) for side in self.sides):
                found = self._lonely(waiting)
                del self._waiting[by]
                if found := found or self._hear(waiting):
                    return found
        return None

    def _lonely(self, waiting: _Waiting) -> tuple[int, Step, Any, Any] | None:
        """A difference when one side answers and the other does not."""
        by = waiting.step.by
        said: list[Any] = [WAITS, WAITS]
        if all(side.arrived(by, OTHER_S) for side in self.sides):
            return None
        for place, side in enumerate(self.sides):
            if side.arrived(by, 0):
                answer = _collected(side, by, waiting.tickets[place])
                said[place] = answer if isinstance(answer, str) else form(answer, side)
            else:
                side.forget(by)
        return (waiting.number, waiting.step, *said)

    def _hear(self, waiting: _Waiting) -> tuple[int, Step, Any, Any] | None:
        step = waiting.step
        answers = [
            _collected(side, step.by, ticket)
            for side, ticket in zip(self.sides, waiting.tickets, strict=True)
        ]
        forms = self._forms(step, waiting.requests, answers)
        until = time.monotonic() + 3
        while forms[0] != forms[1] and time.monotonic() < until:
            momentary = [_for_a_moment(one) for one in forms]
            if momentary[0] == momentary[1]:
                break
            time.sleep(0.02)
            place = momentary.index(True)
            side = self.sides[place]
            answers[place] = side.ask(waiting.requests[place], step.version, step.by)
            forms = self._forms(step, waiting.requests, answers)
        self._settle(step)
        return self._compare(waiting.number, step, *forms)

    def _forms(self, step: Step, requests: tuple[Message, ...], answers: list[Any]) -> list[Any]:
        found = []
        for side, request, answer in zip(self.sides, requests, answers, strict=True):
            if isinstance(answer, str):
                found.append(answer)
            else:
                learn(side, step, request, answer)
                found.append(form(answer, side))
        return found

    def _compare(self, number: int, step: Step, ours: Any, theirs: Any) -> tuple[int, Step, Any, Any] | None:
        self.answers += 1
        for code in codes(theirs):
            key = (step.api, code)
            self.codes[key] = self.codes.get(key, 0) + 1
        if ours != theirs:
            return number, step, ours, theirs
        self._done.append((step, ours))
        return None

    # -- what goes on after an answer --------------------------------------------------------------------

    def _settle(self, step: Step) -> None:
        """Return when markers are written, and patterns looked up."""
        if step.api in ("init", "end"):
            for side in self.sides:
                _until_ended(side)
        self._patterns = self._patterns or bool(step.how.get("regex"))
        if self._patterns and step.api in ("heartbeat", "join"):
            deadline = time.monotonic() + 1
            time.sleep(LOOKED_UP_S if step.how.get("regex") else SOON_S)
            while time.monotonic() < deadline and not _alike([_group_epoch(side) for side in self.sides]):
                time.sleep(0.02)


def _collected(side: Side, by: str, ticket: int) -> Any:
    try:
        return side.connections[by].collect(ticket, 20)
    except RequestTimedOut:
        return SILENT
    except ConnectionFailed:
        return CLOSED


def _alike(values: list[Any]) -> bool:
    return all(value == values[0] for value in values)


def _group_epoch(side: Side) -> tuple[int, int, str]:
    answer = side.ask(ConsumerGroupDescribeRequest(group_ids=[side.named("g0") or ""]), 1)
    found = answer.groups[0]
    return found.error_code, found.group_epoch, found.group_state


def _makes_kafka_forget(theirs: Side, step: Step) -> bool:
    """Whether a member that nobody knows wants to join an empty group of KIP-848.

    Apache Kafka refuses it and forgets the group, which makes all that follows differ.  So no sequence has it;
    `test_an_empty_group_that_a_stranger_wants_to_join_stays` shows what both do.
    """
    join: Step = step.how["of"] if step.api == "lie" else step
    if join.api != "join":
        return False
    request: Any = message(theirs, join)
    if not request.member_id:
        return False
    found = theirs.ask(ConsumerGroupDescribeRequest(group_ids=[request.group_id]), 1).groups[0]
    return not found.error_code and bool(found.group_state == "Empty")


def _until_ended(side: Side) -> None:
    request = DescribeTransactionsRequest(transactional_ids=[side.named("x0") or "", side.named("x1") or ""])
    deadline = time.monotonic() + 10
    while any(one.transaction_state.startswith("Prepare") for one in side.ask(request).transaction_states):
        assert time.monotonic() < deadline, f"{side.name}: markers are not written"
        time.sleep(0.002)


def _for_a_moment(found: Any) -> bool:
    return bool(set(FOR_A_MOMENT) & set(codes(found)))


def codes(found: Any) -> list[str]:
    """All codes in an answer."""
    if isinstance(found, dict):
        own = [value for name, value in found.items() if name.endswith("error_code")]
        return own + [code for value in found.values() for code in codes(value)]
    if isinstance(found, list):
        return [code for one in found for code in codes(one)]
    return [found] if found in (CLOSED, SILENT) else []


# -- steps that are not one request -------------------------------------------------------------------------


def _lie(side: Side, step: Step) -> Any:
    inner: Step = step.how["of"]
    request = message(side, inner)
    raw = falsified(request, inner.version, step.how["which"], step.how["count"])
    if raw is None:
        return "nothing to lie about"
    try:
        answer = ask_lying(side.port, request, inner.version, raw)
    except ConnectionFailed as error:
        return str(error)
    if inner.api in ("init", "end"):
        _until_ended(side)
    return answer if isinstance(answer, str) else form(answer, side)


def _look(side: Side, step: Step) -> Any:
    """Both ends of a partition, and what readers of both levels see."""
    topic, partition = side.named("t") or "", step.how["partition"]
    said: list[Any] = []
    for level in (0, 1):
        wanted = ListOffsetsTopic(
            name=topic, partitions=[ListOffsetsPartition(partition_index=partition, timestamp=-1)]
        )
        ends = side.ask(ListOffsetsRequest(replica_id=-1, isolation_level=level, topics=[wanted]), 7)
        fetch = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 20,
            isolation_level=level,
            topics=[
                FetchTopic(
                    topic=topic, partitions=[FetchPartition(partition=partition, partition_max_bytes=1 << 20)]
                )
            ],
        )
        found = side.ask(fetch, 12).responses[0].partitions[0]
        records = bytes(found.records or b"")
        seen = [
            (
                header.attributes & 0x30,
                header.producer_epoch,
                header.base_sequence,
                one.offset,
                one.value,
                one.key,
            )
            for position, header in batches(records)
            for one in read_records(records, position, header)
        ]
        aborted = sorted(one.first_offset for one in found.aborted_transactions or ())
        end = ends.topics[0].partitions[0].offset
        said.append(
            [
                level,
                named_code(found.error_code),
                end,
                found.high_watermark,
                found.last_stable_offset,
                seen,
                aborted,
            ]
        )
    return said
