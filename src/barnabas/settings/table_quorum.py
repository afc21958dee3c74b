"""The rows of the table of settings about the controller quorum, and about watching a node."""

from __future__ import annotations

from barnabas.settings.setting import MAX_INT, MAX_LONG, section

__all__: list[str] = []

# fmt: off
# One row is read as a whole; the formatter would give every argument a line of its own.
_s = section("The controller quorum")
_s("controller.quorum.voters", "list", (),
   "The first voters, as `id@host:port`. Only for a quorum whose members are fixed by this setting "
   "(kraft.version 0).")
_s("controller.quorum.bootstrap.servers", "list", (),
   "Controllers to ask who the leader is, as `host:port`.")
_s("controller.quorum.election.timeout.ms", "int", 1000,
   "How long a candidate waits for votes (once to twice this).", low=1, high=MAX_INT)
_s("controller.quorum.fetch.timeout.ms", "int", 2000,
   "How long a follower waits for the leader before it stands for election.", low=1, high=MAX_INT)
_s("controller.quorum.election.backoff.max.ms", "int", 1000,
   "Longest pause after a lost election.", low=0, high=MAX_INT)
_s("controller.quorum.request.timeout.ms", "int", 2000,
   "How long a quorum request may take.", low=1, high=MAX_INT)
_s("controller.quorum.retry.backoff.ms", "int", 20,
   "Pause before a quorum request is repeated.", low=0, high=MAX_INT)
_s("controller.quorum.fetch.max.bytes", "int", 1048576,
   "Most bytes of metadata records in one answer.", low=1, high=MAX_INT)
_s("controller.quorum.fetch.snapshot.max.bytes", "int", 1048576,
   "Most bytes of a snapshot in one answer.", low=1, high=MAX_INT)
_s("controller.quorum.auto.join.enable", "boolean", False,
   "A controller that is not a voter asks to become one.")
_s("barnabas.quorum.autopilot", "string", "off",
   "Whether the active controller changes the voters by itself: `on` promotes controllers that keep up until "
   "there are `barnabas.quorum.autopilot.voters`, and replaces a voter that is dead for long by another "
   "controller; `dry-run` only says in the log and the history what it would do. Set it alike on all "
   "controllers.", choices=("off", "dry-run", "on"))
_s("barnabas.quorum.autopilot.voters", "int", 3,
   "As many voters the autopilot promotes controllers to; it never makes an even number.", low=1, high=99)
_s("barnabas.quorum.autopilot.stability.ms", "int", 10000,
   "For so long a controller must have kept up before the autopilot makes it a voter.", low=1, high=MAX_INT)
_s("barnabas.quorum.autopilot.dead.ms", "int", 60000,
   "A voter that was silent for so long is replaced by the autopilot; longer than a restart takes.",
   low=3000, high=MAX_INT)
_s("metadata.log.segment.bytes", "int", 1073741824,
   "Segment size of the metadata log.", low=8388608, high=MAX_INT)
_s("metadata.log.segment.ms", "long", 604800000,
   "Segment age of the metadata log.", low=1, high=MAX_LONG)
_s("metadata.log.max.record.bytes.between.snapshots", "long", 20971520,
   "Bytes of metadata records after which a snapshot is written.", low=1, high=MAX_LONG)
_s("metadata.log.max.snapshot.interval.ms", "long", 3600000,
   "Time after which a snapshot is written; 0 never.", low=0, high=MAX_LONG)
_s("metadata.max.retention.bytes", "long", 104857600,
   "Size of the metadata log beyond which records that a snapshot covers are deleted.", low=-1, high=MAX_LONG)
_s("metadata.max.retention.ms", "long", 604800000,
   "Age beyond which such records are deleted.", low=-1, high=MAX_LONG)
_s("metadata.max.idle.interval.ms", "int", 500,
   "How often an idle active controller writes a record to show that it is alive; 0 never.", low=0, high=MAX_INT)
_s("broker.heartbeat.interval.ms", "int", 2000,
   "How often a broker reports to the controller.", low=1, high=MAX_INT)
_s("broker.session.timeout.ms", "int", 9000,
   "How long a broker may stay silent before it is fenced.", low=1, high=MAX_INT)
_s("barnabas.replica.placement", "string", "spread",
   "Where the active controller puts new partitions: `spread` over racks, hosts and brokers, from a start drawn "
   "by chance; `number`: partition i on the (i mod n)-th of n brokers, its other replicas on those after it, "
   "whatever their racks. Set it alike on all controllers.", choices=("spread", "number"))
_s("auto.leader.rebalance.enable", "boolean", True,
   "From time to time, move the leadership of a partition back to its first replica, if that is in sync.")
_s("leader.imbalance.check.interval.seconds", "int", 300,
   "How often the active controller looks for partitions whose first replica does not lead.",
   low=1, high=MAX_INT)
_s("unclean.leader.election.interval.ms", "long", 300000,
   "How often the active controller looks for partitions that have no leader and that any replica may "
   "lead.",
   low=1, high=MAX_LONG)
_s("barnabas.fast.fencing", "boolean", None,
   "Fence a dead broker before its session ends. The active controller fences a broker whose connection "
   "ended, or that missed a heartbeat, at once if every address on which it reached the broker before "
   "refuses connections. A live broker, however slow, refuses none. It also fences a broker that sends no "
   "heartbeat for an interval and a quarter and then leaves a question unanswered for 1.5 s: that broker "
   "hangs or is cut off.",
   ours=True, why="a killed broker is replaced in a fraction of a second, not after its session; one that hangs "
   "in 4 s")
_s("initial.broker.registration.timeout.ms", "int", 60000,
   "How long a starting broker tries to register before it gives up.", low=1, high=MAX_INT)

_s = section("Watching this node, and the process")
_s("barnabas.http.listener", "string", None,
   "`host:port` for `/metrics` (Prometheus), `/health/live` and `/health/ready`; not served when unset. Without a "
   "host it is 127.0.0.1; name an address, or 0.0.0.0, to let other machines in: there is no login.")
_s("telemetry.max.bytes", "int", 1048576,
   "Most bytes of metrics that a client may push at once, packed as well as unpacked.", low=1, high=MAX_INT)
_s("barnabas.telemetry.max.series", "int", None,
   "Time series that clients pushed (KIP-714) and `/metrics` shows, of all clients together, and 2000 of one; "
   "when there are more, the client heard longest ago makes room.",
   ours=10000, low=0, high=1000000, why="a scrape of so many takes some 40 ms")
_s("barnabas.loop", "string", "auto",
   "Event loop: `uvloop`, `asyncio`, or `auto` (uvloop where it is installed). BARNABAS_LOOP in the "
   "environment takes precedence.", choices=("auto", "uvloop", "asyncio"))
_s("barnabas.events.format", "string", "text",
   "How events are written to standard error: `text` (key=value) or `json`.", choices=("text", "json"))
_s("barnabas.events.level", "string", "info",
   "Least severity that is written.", choices=("debug", "info", "warning", "error"))
_s("barnabas.events.node", "boolean", False,
   "Whether each event names the node that wrote it, as `[3]` or `written_by`; `barnabas start --nodes` sets it.")
_s("barnabas.slow.request.ms", "int", 1000,
   "A request that keeps this node busy, or waiting for its disk, for longer than this gets a line with "
   "the time of each stage.", low=0, high=MAX_INT)
_s("barnabas.shutdown.timeout.ms", "int", 10000,
   "How long a clean stop may take before the node ends at once.", low=0, high=MAX_INT)

# fmt: on
