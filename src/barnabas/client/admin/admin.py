"""Managing a cluster: `Admin("127.0.0.1:9092").create_topic("orders", partitions=6)`.

Requests for the controllers go to any broker, which passes them on.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import ClassVar, Literal

from barnabas.client.admin.methods import AdminMethods
from barnabas.client.cluster import Cluster
from barnabas.client.security.options import SecurityOptions

__all__ = ["Admin"]


class Admin(AdminMethods):
    """`with Admin("127.0.0.1:9092") as admin: admin.create_topic("orders", partitions=6)`.

    `timeout` (seconds) bounds every call.  Every method raises KafkaError when the cluster refuses and
    ConnectionFailed when nobody answers.
    """

    AWAITED: ClassVar[Literal[False]] = False
    """See `either_way`."""

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        *,
        client_id: str = "barnabas-admin",
        timeout: float = 30.0,
        security: SecurityOptions = None,
    ) -> None:
        self.cluster = Cluster(bootstrap, client_id=client_id, timeout=timeout, security=security)

    def __repr__(self) -> str:
        return f"<Admin {self.cluster!r}>"

    def __enter__(self) -> Admin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """`admin.close()`: close all connections."""
        self.cluster.close()
