"""Stories of one consumer group of KIP-848: heartbeats, and what each member owns after them."""

from __future__ import annotations

from tests.broker.consumer_world import ConsumerWorld, Owned
from tests.stories.transcript import Transcript, options, plain

from barnabas.errors import ErrorCode
from barnabas.wire.schemas.consumer_groups import ConsumerGroupHeartbeatResponse


class ConsumerStory(Transcript):
    """Members have letters for names; each owns what it was told to, as soon as it says so."""

    def __init__(self) -> None:
        super().__init__()
        self.world = ConsumerWorld()
        self.instances: dict[str, str] = {}

    def _tell(self, who: str, answer: ConsumerGroupHeartbeatResponse) -> None:
        error = ErrorCode(answer.error_code)
        if error is not ErrorCode.NONE:
            self.say(f"{who}: {error.name}")
            return
        owns = "" if answer.assignment is None else f", owns {_words(self.world.told(answer))}"
        self.say(f"{who}: epoch {answer.member_epoch}{owns}")

    # ------------------------------------------------------------ what members do

    def do_topics(self, *words: str) -> None:
        """Topics with their numbers of partitions: `flights=4`."""
        self.world = ConsumerWorld({name: int(count) for name, count in options(words).items()})

    def do_join(self, who: str, *words: str) -> None:
        """The topics, or `pattern=`; `instance=` a static member's name, `rebalance=` seconds, `assignor=`."""
        given = options(words)
        if "instance" in given:
            self.instances[who] = given["instance"]
        pattern = given.get("pattern")
        answer = self.world.beat(
            who,
            epoch=0,
            instance=given.get("instance"),
            rebalance_timeout_ms=int(given.get("rebalance", "60")) * 1000,
            subscribed_topic_names=plain(words) or (["flights"] if pattern is None else None),
            subscribed_topic_regex=pattern,
            server_assignor=given.get("assignor"),
        )
        self._tell(who, answer)

    def do_beat(self, who: str, *words: str) -> None:
        """A heartbeat that reports what the member was told to own; `keeps=0,1` of flights: more than that;
        `epoch=` another than it has."""
        given = options(words)
        owns = dict(self.world.owned.get(who, {}))
        if "keeps" in given:
            owns["flights"] = [int(index) for index in given["keeps"].split(",")]
        epoch = int(given.get("epoch", self.world.epochs.get(who, 0)))
        self._tell(who, self.world.beat(who, epoch=epoch, owns=owns, instance=self.instances.get(who)))

    def do_leave(self, who: str, *words: str) -> None:
        """`for-now`: a static member that will be back."""
        epoch = -2 if "for-now" in words else -1
        self._tell(who, self.world.beat(who, epoch=epoch, instance=self.instances.get(who)))

    # ------------------------------------------------------------ what happens to them

    def do_wait(self, seconds: str, *names: str) -> None:
        """Time passes; those named here send heartbeats meanwhile, and follow what they are told."""
        left = float(seconds)
        while left > 0:
            step = min(left, 5.0)
            self.world.run(step)
            left -= step
            for who in names:
                self.world.beat(who, owns=self.world.owned[who], instance=self.instances.get(who))

    def do_restart(self) -> None:
        """Another coordinator takes over and reads what the first one wrote."""
        self.world = self.world.reloaded()
        self.do_show()

    def do_show(self) -> None:
        group = self.world.groups.consumer_groups.get("g")
        if group is None:
            self.say("no such group")
            return
        self.say(f"{group.state.value}, group epoch {group.epoch}, assignment epoch {group.assignment_epoch}")
        names = {topic.id: name for name, topic in self.world.topics.items()}
        for id, member in sorted(group.members.items()):
            owned = {names[topic]: sorted(indexes) for topic, indexes in member.assigned.items()}
            gives = {names[topic]: sorted(indexes) for topic, indexes in member.revoking.items()}
            target = {names[topic]: sorted(indexes) for topic, indexes in group.target[id].items()}
            more = f", gives up {_words(gives)}" if gives else ""
            self.say(
                f"{id}: epoch {member.epoch} {member.state.name}, owns {_words(owned)}{more}, "
                f"shall own {_words(target)}"
            )


def _words(owned: Owned) -> str:
    return (
        " ".join(f"{name} {','.join(map(str, sorted(indexes)))}" for name, indexes in sorted(owned.items()))
        or "nothing"
    )
