"""Differences on purpose, each with its reason.  docs/compatibility.md lists the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.compat.side_by_side.lying import CLOSED
from tests.compat.side_by_side.plan import sequence
from tests.compat.side_by_side.walking import WAITS, Difference
from tools.peer import KAFKA_VERSION

__all__ = ["LISTED", "listed"]

LISTED: dict[str, Callable[[Difference], bool]] = {}


def listed(found: Difference) -> str | None:
    """The name of the listed difference that this is."""
    return next((name for name, holds in LISTED.items() if holds(found)), None)


def on_purpose(holds: Callable[[Difference], bool]) -> Callable[[Difference], bool]:
    LISTED[holds.__name__.replace("_", " ")] = holds
    return holds


def _code(answer: Any) -> Any:
    return answer.get("error_code") if isinstance(answer, dict) else answer


@on_purpose
def bytes_left_over(found: Difference) -> bool:
    """We end the connection; Kafka answers as if they were not there.  (Less than no topics is all of them.)"""
    if found.step.api != "lie":
        return False
    count, inner = found.step.how["count"], found.step.how["of"]
    fewer = count == "fewer" or (count in ("null", "negative") and inner.api == "fetch offsets")
    return fewer and found.ours == CLOSED and found.theirs != CLOSED


@on_purpose
def a_subscription_that_nobody_can_read(found: Difference) -> bool:
    """Kafka's coordinator fails on it."""
    said = [step.how.get("topics") for step in sequence(found.seed).steps[: found.number + 1]]
    fails = found.theirs == WAITS or _code(found.theirs) == "UNKNOWN_SERVER_ERROR"
    return "garbage" in said and found.step.api in ("join", "leave", "sync") and fails


@on_purpose
def a_group_as_kafka_4_3_has_it(found: Difference) -> bool:
    """Epochs and names go on as in 4.4 after an assignor was named, a member left, an instance id changed."""
    if KAFKA_VERSION >= "4.4" or found.family not in ("consumer groups", "mixed groups"):
        return False
    steps = sequence(found.seed).steps[: found.number + 1]
    said = [step.how for step in steps if step.api == "heartbeat"]
    instances = {(how["member"], how.get("instance")) for how in said}
    left = any(step.api == "leave" for step in steps) or any(how["epoch"] == "-1" for how in said)
    changed = len(instances) > len({member for member, _ in instances})
    return left or changed or any(how.get("assignor") for how in said)


@on_purpose
def a_pattern_that_takes_much_memory(found: Difference) -> bool:
    how = found.step.how
    large = "{100}){100}" in str(how.get("regex") or how.get("pattern"))
    return large and _code(found.ours) == "INVALID_REGULAR_EXPRESSION"


@on_purpose
def a_list_by_a_pattern_that_takes_long(found: Difference) -> bool:
    """How long depends on how many ids there are: those of all sequences before."""
    how = found.step.how
    long = found.step.api == "list transactions" and len(how.get("pattern") or "") >= 1000
    return long and _code(found.ours) == "INVALID_REGULAR_EXPRESSION" and _code(found.theirs) == "NONE"


@on_purpose
def a_prepared_transaction_is_kept(found: Difference) -> bool:
    """Kafka 4.4.0 does not serve it yet."""
    keeps = found.step.api == "init" and found.step.how.get("keep") and found.step.how["two_phases"]
    return bool(keeps) and _code(found.theirs) == "UNSUPPORTED_VERSION"


@on_purpose
def a_marker_of_no_producer(found: Difference) -> bool:
    nobody = found.step.api == "mark" and found.step.how["who"] in ("none", "epoch -1")
    return nobody and "UNKNOWN_SERVER_ERROR" in str(found.theirs)


@on_purpose
def a_member_that_joins_again_while_it_waits(found: Difference) -> bool:
    """We send the first of the two requests back to join; Kafka never answers it."""
    later = [step for step in sequence(found.seed).steps[found.number + 1 :] if step.api == "join"]
    again = any(step.how["who"] == "other" for step in later)
    first = found.step.api == "join" and found.theirs == WAITS
    return first and again and _code(found.ours) == "REBALANCE_IN_PROGRESS"
