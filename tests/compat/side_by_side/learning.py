"""What a side is remembered to have said: ids, epochs, generations, what is owned, what was produced."""

from __future__ import annotations

from typing import Any

from tests.compat.side_by_side.side import Side
from tests.compat.side_by_side.steps import Step

from barnabas.errors import ErrorCode

__all__ = ["learn"]


def learn(side: Side, step: Step, request: Any, answer: Any) -> None:
    """Remember what later steps refer to."""
    match step.api:
        case "init" | "end":
            if not answer.error_code:
                side.producer(step.by).heard(answer.producer_id, answer.producer_epoch)
        case "produce":
            _produced(side, step, answer)
        case "join":
            _joined(side, step, answer)
        case "heartbeat":
            _beat(side, step, request, answer)


def _produced(side: Side, step: Step, answer: Any) -> None:
    partition = answer.responses[0].partition_responses[0]
    known = side.producer(step.by)
    if not partition.error_code and step.how["sequence"] in ("next", "gap", "zero"):
        place = (known.who(step.how["who"]), step.how["partition"])
        known.sequences[place] = known.sequences.get(place, 0) + step.how["count"]
        known.last_count = step.how["count"]


def _joined(side: Side, step: Step, answer: Any) -> None:
    name = step.how["member"]
    if answer.error_code not in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
        return
    side.learn_member_id(name, answer.member_id)
    if not answer.error_code:
        known = side.member(name)
        known.heard(answer.generation_id)
        known.members = [one.member_id for one in answer.members]
        known.protocol = answer.protocol_name


def _beat(side: Side, step: Step, request: Any, answer: Any) -> None:
    name = step.how["member"]
    if answer.error_code or step.how.get("who", "known") != "known":
        return
    if answer.member_id is not None:
        side.learn_member_id(name, answer.member_id)
    known = side.member(name)
    known.heard(answer.member_epoch)
    if answer.member_epoch < 0:
        known.owned = {}
    elif answer.assignment is not None:
        known.owned = {one.topic_id: sorted(one.partitions) for one in answer.assignment.topic_partitions}
