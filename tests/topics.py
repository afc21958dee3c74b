"""Topics with settings, for tests that speak to a node by requests."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.wire.schemas.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

__all__ = ["creation_of"]


def creation_of(topics: Mapping[str, Mapping[str, str]], partitions: int = 1) -> CreateTopicsRequest:
    """The request for topics with one replica each, by name with their settings."""
    wanted = [
        CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in settings.items()],
        )
        for name, settings in topics.items()
    ]
    return CreateTopicsRequest(topics=wanted, timeout_ms=20_000)
