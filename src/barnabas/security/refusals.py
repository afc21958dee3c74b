"""Who was refused what, lately: a bounded memory, so that an operator can ask why."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.security.acl import CLUSTER_NAME, Operation, ResourceType

__all__ = ["MOST_REFUSALS", "Refusal", "Refusals", "command_that_allows"]

MOST_REFUSALS = 1000
"""Kinds of refusals that are remembered; the one that was longest not repeated goes first."""
_LONGEST_NAME = 256

_Key = tuple[str, str, int, int, str]

_FLAGS = {
    ResourceType.TOPIC: "--topic",
    ResourceType.GROUP: "--group",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id",
    ResourceType.DELEGATION_TOKEN: "--delegation-token",
    ResourceType.USER: "--user-principal",
}


class Refusal(NamedTuple):
    """One kind of refusal: how often, when last (wall clock, ms), in which API and by which rule."""

    principal: str
    host: str
    operation: int
    resource: int
    name: str
    times: int
    last_ms: int
    api: int
    rule: str


class Refusals:
    """`note` each refusal; `latest()` has the newest first."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[_Key, tuple[int, int, int, str]] = {}

    def note(
        self,
        principal: str,
        host: str,
        operation: int,
        resource: int,
        name: str,
        *,
        api: int,
        rule: str,
        now_ms: int,
    ) -> None:
        """Somebody was refused something."""
        key = (principal[:_LONGEST_NAME], host, operation, resource, name[:_LONGEST_NAME])
        times = self._kept.pop(key, (0, 0, 0, ""))[0]
        while len(self._kept) >= MOST_REFUSALS:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = (times + 1, now_ms, api, rule[: 2 * _LONGEST_NAME])

    def latest(self) -> list[Refusal]:
        """Everything that is remembered, the newest first."""
        return [Refusal(*key, *kept) for key, kept in reversed(self._kept.items())]

    def __repr__(self) -> str:
        return f"<Refusals {len(self._kept)}>"


def command_that_allows(principal: str, operation: int, resource: int, name: str) -> str:
    """What an administrator types to allow it."""
    import shlex  # only where somebody asks

    flag = _FLAGS.get(ResourceType(resource))
    where = "--cluster" if flag is None or name == CLUSTER_NAME else f"{flag} {shlex.quote(name)}"
    word = "".join(part.capitalize() for part in Operation(operation).name.split("_"))
    return f"barnabas acls add --allow-principal {shlex.quote(principal)} --operation {word} {where}"
