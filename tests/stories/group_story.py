"""Stories of one consumer group and its coordinator, in the words of the classic protocol."""

from __future__ import annotations

from typing import Any

from tests.broker.test_groups import World
from tests.stories.transcript import Transcript, options, plain

from barnabas.broker.purgatory import Waiting
from barnabas.errors import ErrorCode
from barnabas.wire.schemas.groups import HeartbeatRequest, LeaveGroupRequest, MemberIdentity


class GroupStory(Transcript):
    """Consumers have letters for names; the ids that the coordinator gives them are told once."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.ids: dict[str, str] = {}
        self.generations: dict[str, int] = {}
        self.waiting: list[tuple[str, str, Waiting]] = []

    def _name(self, member_id: str) -> str:
        return next((name for name, id_ in self.ids.items() if id_ == member_id), member_id)

    def _tell(self, what: str, who: str, answer: Any) -> None:
        if isinstance(answer, Waiting):
            self.waiting.append((what, who, answer))
            self.say(f"{who}: {what} waits")
            return
        error = ErrorCode(answer.error_code)
        if error is not ErrorCode.NONE:
            self.say(f"{who}: {what} {error.name}")
        elif what == "join":
            self.generations[who] = answer.generation_id
            self.ids[who] = answer.member_id
            members = " ".join(sorted(self._name(each.member_id) for each in answer.members))
            leads = f", leads {members}" if members else ""
            self.say(f"{who}: generation {answer.generation_id} {answer.protocol_name}{leads}")
        elif what == "sync":
            self.say(f"{who}: assigned {answer.assignment.decode() or 'nothing'}")
        else:
            self.say(f"{who}: {what} ok")

    def _settle(self) -> None:
        """Tell the answers that have arrived meanwhile."""
        waited, self.waiting = self.waiting, []
        for what, who, waiting in waited:
            if waiting.response is None:
                self.waiting.append((what, who, waiting))
            else:
                self._tell(what, who, waiting.response)

    # ------------------------------------------------------------ what members do

    def do_group(self, *words: str) -> None:
        """A coordinator with these settings."""
        self.world = World(**{name.replace(".", "_"): value for name, value in options(words).items()})

    def do_join(self, who: str, *words: str) -> None:
        """`protocols=range,sticky`, `instance=` a static member's name, `session=` seconds."""
        given = options(words)
        how: dict[str, Any] = {
            "instance": given.get("instance"),
            "protocols": tuple(given.get("protocols", "range").split(",")),
            "session_ms": int(given.get("session", "10")) * 1000,
        }
        answer = self.world.join(self.ids.get(who, ""), **how)
        if not isinstance(answer, Waiting) and answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.ids[who] = answer.member_id
            self.say(f"{who}: gets an id and joins with it")
            answer = self.world.join(answer.member_id, **how)
        self._tell("join", who, answer)
        self._settle()

    def do_reborn(self, who: str) -> None:
        """The process of a member ends without a word and starts anew; its former self goes by `old-NAME`."""
        self.ids[f"old-{who}"] = self.ids.pop(who)
        self.generations[f"old-{who}"] = self.generations[who]

    def do_sync(self, who: str, *words: str) -> None:
        """The leader adds what each gets: `a=0,1 b=2`."""
        given = {self.ids[name]: value.encode() for name, value in options(words).items()}
        self._tell("sync", who, self.world.sync(self.ids[who], self.generations[who], given))
        self._settle()

    def do_heartbeat(self, *words: str) -> None:
        """`instance=` the name that a static member gives."""
        for who in plain(words):
            request = HeartbeatRequest(
                group_id="g",
                generation_id=self.generations[who],
                member_id=self.ids[who],
                group_instance_id=options(words).get("instance"),
            )
            answer = self.world.groups.heartbeat(self.world.context(4), request, self.world.now)
            self.say(f"{who}: heartbeat {ErrorCode(answer.error_code).name}")

    def do_leave(self, *names: str) -> None:
        for who in names:
            request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=self.ids[who])])
            answer = self.world.groups.leave(self.world.context(5), request, self.world.now)
            self.say(f"{who}: leave {ErrorCode(answer.members[0].error_code).name}")
            del self.ids[who]
        self._settle()

    def do_commit(self, who: str, offset: str, *words: str) -> None:
        """`generation=` another than the member's own; `-` is somebody outside the group's protocol."""
        generation = int(options(words).get("generation", self.generations.get(who, -1)))
        error = self.world.commit(int(offset), self.ids.get(who, ""), generation)
        self.say(f"{who}: commit {offset} {ErrorCode(error).name}")

    def do_position(self) -> None:
        self.say(f"committed offset {self.world.position()}")

    # ------------------------------------------------------------ what happens to them

    def do_wait(self, seconds: str, *names: str) -> None:
        """Time passes; those named here send their heartbeats meanwhile."""
        left = float(seconds)
        while left > 0:
            step = min(left, 1.0)
            self.world.run(step)
            left -= step
            for who in plain(names):
                self.world.beat(self.ids[who], self.generations[who])
        self._settle()

    def do_restart(self) -> None:
        """Another coordinator takes over and reads what the first one wrote."""
        self.world = World(self.world.partition)
        self.do_show()

    def do_show(self) -> None:
        group = self.world.groups.groups.get("g")
        if group is None:
            self.say("no such group")
            return
        members = " ".join(sorted(self._name(id_) for id_ in group.members)) or "nobody"
        self.say(f"{group.state.value}, generation {group.generation}: {members}")
