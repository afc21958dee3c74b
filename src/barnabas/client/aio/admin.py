"""Managing a cluster with asyncio: `async with Admin("127.0.0.1:9092") as a: await a.create_topic("orders")`.

What is asked, and what an answer means, are the functions of `client.admin`, as for `barnabas.Admin` (`for_both`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterable
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from barnabas.client.admin import groups as of_groups
from barnabas.client.admin import topics as of_topics
from barnabas.client.admin.acls import acls_of, create_acls, delete_acls
from barnabas.client.admin.log_dirs import eligible_replicas, log_dirs
from barnabas.client.admin.overview import describe_cluster, features
from barnabas.client.admin.quotas import alter_quotas, quotas_of
from barnabas.client.admin.resources import resources_of
from barnabas.client.admin.settings import alter_configs, configs
from barnabas.client.admin.users import remove_user, set_password, users_of
from barnabas.client.aio.cluster import AsyncCluster
from barnabas.client.for_both import for_both
from barnabas.client.security.options import SecurityOptions

__all__ = ["AsyncAdmin"]

T = TypeVar("T")
P = ParamSpec("P")


def _asked(name: str, work: for_both[P, T]) -> Callable[Concatenate[AsyncAdmin, P], Coroutine[Any, Any, T]]:
    """Return the function as a method of this name, whose cluster is that of the admin."""

    async def method(self: AsyncAdmin, /, *given: P.args, **options: P.kwargs) -> T:
        return await work(self.cluster, *given, **options)

    said = work.__doc__ or ""
    for written in (f"`{work.__name__}(cluster, ", f"`{work.__name__}(cluster"):
        said = said.replace(written, f"`await admin.{name}(")
    taken = inspect.signature(work.__wrapped__)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signature = taken.replace(parameters=[own, *list(taken.parameters.values())[1:]])
    method.__name__, method.__qualname__, method.__doc__ = name, f"AsyncAdmin.{name}", said
    method.__dict__["__signature__"] = signature
    return method


class AsyncAdmin:
    """`async with Admin("127.0.0.1:9092") as admin: await admin.create_topic("orders", partitions=6)`.

    Options and methods are those of `barnabas.Admin`; of its methods those for moves, transactions and the quorum
    are missing.
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        *,
        client_id: str = "barnabas-admin",
        timeout: float = 30.0,
        security: SecurityOptions = None,
    ) -> None:
        self.cluster = AsyncCluster(bootstrap, client_id=client_id, timeout=timeout, security=security)

    def __repr__(self) -> str:
        return f"<AsyncAdmin {self.cluster!r}>"

    async def __aenter__(self) -> AsyncAdmin:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """`await admin.close()`: close all connections."""
        await self.cluster.close()

    create_topic = _asked("create_topic", of_topics.create_topic)
    delete_topic = _asked("delete_topic", of_topics.delete_topic)
    add_partitions = _asked("add_partitions", of_topics.add_partitions)
    topics = _asked("topics", of_topics.topics)
    describe_topic = _asked("describe_topic", of_topics.describe_topic)
    offsets = _asked("offsets", of_topics.offsets)
    delete_records = _asked("delete_records", of_topics.delete_records)

    configs = _asked("configs", configs)
    alter_configs = _asked("alter_configs", alter_configs)
    resources = _asked("resources", resources_of)

    describe_cluster = _asked("describe_cluster", describe_cluster)
    features = _asked("features", features)
    log_dirs = _asked("log_dirs", log_dirs)
    eligible_replicas = _asked("eligible_replicas", eligible_replicas)

    groups = _asked("groups", of_groups.list_groups)
    describe_group = _asked("describe_group", of_groups.describe_group)
    group_offsets = _asked("group_offsets", of_groups.group_offsets)
    set_group_offsets = _asked("set_group_offsets", of_groups.set_group_offsets)
    delete_group = _asked("delete_group", of_groups.delete_group)
    delete_group_offsets = _asked("delete_group_offsets", of_groups.delete_group_offsets)

    users = _asked("users", users_of)
    set_password = _asked("set_password", set_password)
    remove_user = _asked("remove_user", remove_user)
    acls = _asked("acls", acls_of)
    create_acls = _asked("create_acls", create_acls)
    delete_acls = _asked("delete_acls", delete_acls)

    quotas = _asked("quotas", quotas_of)
    set_quotas = _asked("set_quotas", alter_quotas)
