"""Settings that Apache Kafka 4.4.0 knows and this release does not use.

They are accepted with a warning, so that a `server.properties` of Kafka can be taken as it is.  Only read
when somebody sets one of them.  `security.protocol` is a client's: it stands in a node's file for tools that
are given that file, such as `quorum add-controller`.
"""

from __future__ import annotations

__all__ = ["REFUSED", "RETIRED", "TOPIC_SETTINGS_NOT_USED", "instead_of", "known_to_kafka"]

_FAMILIES = (
    "ssl.",
    "sasl.",
    "remote.",
    "share.",
    "group.share.",
    "group.streams.",
    "metrics.",
    "listener.name.",
    "config.providers.",
)
_TEXT = """
alter.config.policy.class.name alter.log.dirs.replication.quota.window.num
alter.log.dirs.replication.quota.window.size.seconds
background.threads broker.id client.quota.callback.class
config.providers
controlled.shutdown.enable controller.performance.always.log.threshold.ms
controller.performance.sample.period.ms controller.quorum.append.linger.ms
controller.socket.timeout.ms
create.topic.policy.class.name delete.records.purgatory.purge.interval.requests
early.start.listeners errors.deadletterqueue.auto.create.topics.enable
errors.deadletterqueue.topic.name.prefix fetch.purgatory.purge.interval.requests
follower.fetch.last.tiered.offset.enable
group.consumer.assignor.offload.enable
 group.coordinator.append.linger.ms
group.coordinator.background.threads group.coordinator.cached.buffer.max.bytes
 group.coordinator.threads
internal.metadata.delete.delay.millis internal.metadata.log.segment.bytes
internal.metadata.max.batch.size.in.bytes kafka.metrics.polling.interval.secs
kafka.metrics.reporters log.cleaner.io.buffer.size log.flush.scheduler.interval.ms
log.flush.start.offset.checkpoint.interval.ms log.initial.task.delay.ms
log.local.retention.bytes log.local.retention.ms log.preallocate log.remote.copy.lag.bytes
log.remote.copy.lag.ms
metric.reporters num.io.threads num.network.threads
num.recovery.threads.per.data.dir num.replica.alter.log.dirs.threads num.replica.fetchers
offsets.load.buffer.size offsets.topic.compression.codec principal.builder.class
producer.id.expiration.check.interval.ms producer.purgatory.purge.interval.requests
queued.max.requests
replica.socket.receive.buffer.bytes
replica.socket.timeout.ms replication.quota.window.num replication.quota.window.size.seconds
security.protocol security.providers server.max.startup.time.ms
socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms

transaction.state.log.load.buffer.size
unstable.feature.versions.enable
"""
_NAMES = frozenset(_TEXT.split())

REFUSED: dict[str, tuple[str, ...]] = {
    "principal.builder.class": (
        "",
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
    ),
    "ssl.cipher.suites": ("",),
    "ssl.engine.factory.class": ("",),
    "sasl.oauthbearer.jwt.validator.class": (
        "",
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        "org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator",
    ),
    "remote.log.storage.system.enable": ("false",),
}
"""Node setting -> the values that ask for nothing.  To ignore another value would leave somebody with less
protection, or fewer copies, than they believe they have; so it is refused."""

RETIRED: dict[str, str] = {
    "barnabas.fetch.memo": "every fetch is read from its bytes now; remove the line",
    "barnabas.produce.memo": "every request is read from its bytes now; remove the line",
    "barnabas.produce.check.records": "every record is checked now; remove the line",
}
"""Settings that an earlier release of ours had, and what became of them."""

_NO_ZOOKEEPER = "remove it: there is no ZooKeeper"
_REMOVED = {
    "inter.broker.protocol.version": "remove it: `barnabas features upgrade` sets the level of the whole cluster",
    "log.message.format.version": "remove it: records are always written in the newest format",
    "log.message.downconversion.enable": "remove it: records are never converted to an older format",
    "log.message.timestamp.difference.max.ms": "write log.message.timestamp.before.max.ms and "
    "log.message.timestamp.after.max.ms",
    "broker.id.generation.enable": _NO_ZOOKEEPER,
    "reserved.broker.max.id": _NO_ZOOKEEPER,
    "control.plane.listener.name": "remove it: controllers have controller.listener.names",
    "delegation.token.master.key": "write delegation.token.secret.key",
    "offsets.commit.required.acks": "remove it: commits are always acknowledged by all in-sync replicas",
    "group.coordinator.new.enable": "remove it: there is one group coordinator",
    "auto.include.jmx.reporter": "remove it: barnabas.http.listener serves metrics",
    "quota.producer.default": "remove it: `barnabas quotas` sets limits",
    "quota.consumer.default": "remove it: `barnabas quotas` sets limits",
    "port": "write listeners",
    "host.name": "write listeners",
    "advertised.port": "write advertised.listeners",
    "advertised.host.name": "write advertised.listeners",
}
_REMOVED_FAMILIES = {
    "zookeeper.": _NO_ZOOKEEPER,
    "password.encoder.": "remove it: it served passwords in ZooKeeper",
}

TOPIC_SETTINGS_NOT_USED: dict[str, tuple[str, ...]] = {
    "errors.deadletterqueue.group.enable": ("false",),
    "remote.copy.lag.bytes": ("-1",),
    "remote.copy.lag.ms": ("0",),
    "remote.storage.enable": ("false",),
}
"""Topic setting -> the values that ask for nothing; any other value is refused rather than ignored."""


def instead_of(name: str) -> str | None:
    """Return what to do about a setting that Kafka had and removed; None: it had none of this name."""
    families = (advice for family, advice in _REMOVED_FAMILIES.items() if name.startswith(family))
    return _REMOVED.get(name) or next(families, None)


def known_to_kafka(name: str) -> bool:
    """Whether Kafka has a node setting of this name."""
    return name in _NAMES or name.startswith(_FAMILIES)
