"""The steps of docs/move-from-kafka.md, typed, and the same replacement of Apache Kafka by Apache Kafka."""

from __future__ import annotations

import signal
from collections.abc import Callable

from tests.compat.moving.nodes import FIRST, LATER, Six

from barnabas.client.admin.admin import Admin

__all__ = ["DIRECTIONS", "back", "beside", "there"]

_NOTHING: Callable[[], None] = lambda: None  # noqa: E731
_DRAIN = "--wait --timeout 300"


def there(six: Six, joined: Callable[[], None] = _NOTHING) -> None:
    """Replace nodes 1, 2, 3 of Apache Kafka by 4, 5, 6 of Barnabas; `joined` is called when those follow."""
    _replace(six, apache=False, joined=joined)


def beside(six: Six) -> None:
    """Replace nodes 1, 2, 3 of Apache Kafka by 4, 5, 6 of Apache Kafka, by the same requests."""
    _replace(six, apache=True, joined=_NOTHING)


def _replace(six: Six, *, apache: bool, joined: Callable[[], None]) -> None:
    for id_ in LATER:
        six.nodes[id_] = six.node(id_, f"n{id_}", (*FIRST, *LATER), apache=apache)
        six.nodes[id_].format("--no-initial-controllers")
        six.nodes[id_].start()
    six.serving(*FIRST, *LATER)
    joined()
    _learn(six)
    _controllers(six)
    for id_ in FIRST:
        six.typed(f"brokers drain {id_} {_DRAIN}")
    six.carried_by(*LATER)
    six.leave(*FIRST)
    six.serving(*LATER)


def _learn(six: Six) -> None:
    """Restart the first nodes with the new controllers in their files.

    They look for the quorum at the addresses of their files only: these have to be there before theirs go.
    """
    for id_ in FIRST:
        node = six.nodes[id_]
        node.kill(signal.SIGTERM)
        known = ",".join(f"127.0.0.1:{port}" for port in six.controllers((*LATER, *FIRST)))
        node.settings["controller.quorum.bootstrap.servers"] = known
        node.write_properties()
        node.start()
        six.serving(*FIRST, *LATER)


def _controllers(six: Six) -> None:
    """Add one voter and remove another, three times, the leader last."""
    leader = six.leader()
    now = list(FIRST)
    for new, old in zip(LATER, [*(id_ for id_ in FIRST if id_ != leader), leader], strict=True):
        six.typed(f"quorum --command-config {six.nodes[new].properties} add-controller")
        now = sorted([*now, new])
        six.voters(*now)
        six.typed(f"quorum remove-controller --controller-id {old}")
        now.remove(old)
        six.voters(*now)


def back(six: Six) -> None:
    """Replace nodes 4, 5, 6 of Barnabas by 1, 2, 3 of Apache Kafka, on empty disks."""
    for id_ in FIRST:
        six.nodes[id_] = six.node(id_, f"again-n{id_}", (*LATER, *FIRST), apache=True)
        six.nodes[id_].format("--no-initial-controllers")
        six.nodes[id_].start()
    six.serving(*FIRST, *LATER)
    six.typed(f"brokers add 1 2 3 {_DRAIN}")  # lifts the cordons that the drains had set
    for id_ in LATER:
        six.typed(f"brokers drain {id_} --keep-voter {_DRAIN}")
    six.carried_by(*FIRST)

    # Our leader goes all the way to a set in which it still is; then it is removed, and one of theirs leads.
    leader = six.leader()
    assert leader in LATER
    target = ",".join(map(str, [*FIRST, leader]))
    assert "controller.quorum.bootstrap.servers=" in six.typed(f"quorum reassign --target {target} --wait")
    six.voters(*FIRST, leader)
    six.typed(f"quorum remove-controller --controller-id {leader}")
    six.voters(*FIRST)
    with Admin(six.bootstrap) as admin:
        assert "barnabas.quorum.target" not in {setting.name for setting in admin.configs("broker", "")}
    six.leave(*LATER)
    six.serving(*FIRST)


DIRECTIONS: dict[str, Callable[[Six], None]] = {"there": there, "back": back, "beside": beside}
"""What one row of the table is about; "beside" is Apache Kafka's own replacement."""
