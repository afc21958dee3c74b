"""The authorizer of one node: it follows the ACLs of the metadata, and remembers whom it refused what."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from barnabas.broker.ports import Operation, RequestContext, ResourceType
from barnabas.config import Config
from barnabas.controller.image import ImageDelta, MetadataImage
from barnabas.ports import Clock
from barnabas.security.acl import CLUSTER_NAME
from barnabas.security.authorizer import Decision, StandardAuthorizer
from barnabas.security.refusals import Refusals, command_that_allows
from barnabas.server.observe import events
from barnabas.settings.table_access import super_users
from barnabas.wire.registry import API_NAMES

__all__ = ["NodeAuthorizer"]

SLICE = 500
"""ACLs that are taken over in one step of the loop: some milliseconds."""
MOST_REMEMBERED = 20_000
"""Decisions of one generation of the ACLs that are kept; more of them begin anew."""


class NodeAuthorizer:
    """Answers the broker and the guards; `changed` hears of each commit.

    What was decided is kept until the ACLs change, so that a producer costs a look into a dictionary.
    """

    __slots__ = ("_clock", "_image", "_known", "_on_change", "_unread", "refusals", "rules")

    def __init__(self, config: Config, image: MetadataImage, clock: Clock) -> None:
        self.rules = StandardAuthorizer(
            super_users(config.optional_str("super.users") or ""),
            allow_everyone=config.bool("allow.everyone.if.no.acl.found"),
        )
        self.refusals = Refusals()
        self._clock = clock
        self._known: dict[tuple[str, str, int, str], bool] = {}
        """Principal, host, operation and resource in one number (an enum's own hash is slow), name."""
        self._on_change: list[Callable[[], None]] = []
        self._image = image
        self._unread = set(image.acls)
        """Those that have to be taken over before any counts."""

    def __repr__(self) -> str:
        return f"<NodeAuthorizer {self.rules!r}>"

    @property
    def generation(self) -> int:
        """Grows with every change of the ACLs."""
        return self.rules.generation

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback` after the rights have changed."""
        self._on_change.append(callback)

    async def load(self) -> None:
        """The metadata is there: take its ACLs over in slices; then they count, and not super users only."""
        while self._unread:
            for _ in range(min(SLICE, len(self._unread))):
                self._take_over(self._unread.pop(), self._image)
            await asyncio.sleep(0)
        self.rules.loaded = True
        self._anew()

    def _take_over(self, id_: Any, image: MetadataImage) -> None:
        acl = image.acls.get(id_)
        if acl is not None:
            self.rules.put(id_, acl)
        elif id_ in self.rules:
            self.rules.remove(id_)

    def changed(self, delta: ImageDelta) -> None:
        """A commit was replayed: take over the ACLs that it touched."""
        if not delta.acls:
            return
        if not self.rules.loaded:
            self._unread |= delta.acls
            return
        for id_ in delta.acls:
            self._take_over(id_, delta.image)
        self._anew()

    def _anew(self) -> None:
        self._known.clear()
        for callback in self._on_change:
            callback()

    def authorize(
        self,
        context: RequestContext,
        operation: Operation,
        resource: ResourceType,
        name: str,
        *,
        asked: bool = True,
    ) -> bool:
        """Whether the sender may do that; a refusal of what it asked for is logged and remembered."""
        key = (context.principal, context.client_host, operation << 4 | resource, name)
        allowed = self._known.get(key)
        if allowed is None:
            decision = self._decide(context, operation, resource, name)
            allowed = decision.allowed
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            self._known[key] = allowed
            if allowed:
                events.emit(
                    events.ACCESS_ALLOWED,
                    reason=f"{context.principal} {operation} {resource}",
                    principal=context.principal,
                    host=context.client_host,
                    operation=operation.name,
                    resource=f"{resource.name}:{name}",
                    rule=decision,
                )
        if not allowed and asked:
            decision = self._decide(context, operation, resource, name)
            self._refuse(context, operation, resource, name, decision)
        return allowed

    def _decide(
        self, context: RequestContext, operation: Operation, resource: ResourceType, name: str
    ) -> Decision:
        return self.rules.decide(context.principal, context.client_host, operation, resource, name)

    def vouches(self, principal: str, host: str) -> bool:
        """Whether that is a node of the cluster, or a super user."""
        operation, cluster = Operation.CLUSTER_ACTION, ResourceType.CLUSTER
        return self.rules.decide(principal, host, operation, cluster, CLUSTER_NAME).allowed

    def authorize_any(self, context: RequestContext, operation: Operation, resource: ResourceType) -> bool:
        """Whether the sender may do that to any resource of the type at all."""
        return self.rules.decide_any(context.principal, context.client_host, operation, resource).allowed

    def _refuse(
        self,
        context: RequestContext,
        operation: Operation,
        resource: ResourceType,
        name: str,
        decision: Decision,
    ) -> None:
        api = getattr(context, "api_key", -1)
        self.refusals.note(
            context.principal,
            context.client_host,
            operation,
            resource,
            name,
            api=api,
            rule=str(decision),
            now_ms=self._clock.now().wall_ms,
        )
        events.emit(
            events.ACCESS_DENIED,
            reason=f"{context.principal} {operation} {resource}",
            principal=context.principal,
            host=context.client_host,
            operation=operation.name,
            resource=f"{resource.name}:{name}",
            api=API_NAMES.get(api, api),
            rule=decision,
            next=command_that_allows(context.principal, operation, resource, name),
        )
