"""The stage of a drill: nodes that are real processes, and commands that are typed at them and printed.

    stage.form(1, 2, 3)                     three controllers, formatted and started as an operator does it
    stage.brokers(11)                       a broker; records flow from then on
    stage.type("quorum describe --status")  `$ barnabas quorum describe --status`, and its answer
    stage.voters_are(1, 2, 3)               waits, and ends the drill as failed if that does not come true

Everything lies in one temporary directory, which is the working directory of all commands.  Nothing that was
started outlives the drill.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from barnabas.cli.drill.node import StageNode
from barnabas.cli.drill.traffic import RATE, Proof, Traffic
from barnabas.errors import BarnabasError
from barnabas.interpreter import python_words
from barnabas.scratch import scratch_directory
from barnabas.testing.cluster import free_ports

if TYPE_CHECKING:
    from barnabas.client.admin.described import QuorumDescription

__all__ = ["WITHIN_S", "DrillError", "Stage"]

WITHIN_S = 25.0
COMMAND_S = 40.0
SHOWN_LINES = 14
_PREFIX, _KEPT_PREFIX = "barnabas-drilling-", "barnabas-drill-"


class DrillError(BarnabasError):
    """Something that the drill promises did not come true."""


class Stage:
    """A throwaway cluster; `say(kind, text)` prints: "why", "type", "answer", "see"."""

    def __init__(self, say: Callable[[str, str], None], rate: float = RATE) -> None:
        self.directory, self._held = scratch_directory(_PREFIX)
        self.nodes: dict[int, StageNode] = {}
        self.cluster_id = ""
        self.traffic: Traffic | None = None
        self._say = say
        self._rate = rate
        """Records a second."""
        self._bootstrap: list[int] = []
        self._told: dict[int, int] = {}
        """The length of a node's log when a bit of its disk flipped."""
        self.security: dict[str, str] | None = None
        """What clients log in with."""
        self.keep = False
        """Whether the directory, with the nodes' logs, outlives the drill."""

    def __repr__(self) -> str:
        return f"<Stage {list(self.nodes.values())}>"

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.traffic is not None:
            self.traffic.stop()
        for node in self.nodes.values():
            node.kill()
        interrupted = kind is not None and not issubclass(kind, Exception)
        if interrupted or not self.keep:
            shutil.rmtree(self.directory, ignore_errors=True)
        else:
            kept = self.directory.replace(_PREFIX, _KEPT_PREFIX)
            os.rename(self.directory, kept)  # (the next drill removes what is left under the other name)
            self.directory = kept
        os.close(self._held)

    # -- telling ---------------------------------------------------------------------------------

    def why(self, text: str) -> None:
        """Say what comes next and why."""
        self._say("why", text)

    def see(self, text: str) -> None:
        """Say what is seen now."""
        self._say("see", text)

    def type(
        self, line: str, *, code: int = 0, shows: str = "", quiet: bool = False, again: float = 0
    ) -> str:
        """Type `barnabas LINE`; its output.  Raises DrillError at another exit code, or where `shows` is missing.

        `again`: seconds for which a refused command is typed again, as what it says to do.
        """
        if not quiet:
            self._say("type", f"barnabas {line}")
        until = time.monotonic() + again
        while True:
            done = subprocess.run(
                python_words("barnabas", *shlex.split(line)),
                cwd=self.directory,
                env={**os.environ, "BARNABAS_BOOTSTRAP": self.bootstrap, "NO_COLOR": "1"},
                capture_output=True,
                text=True,
                timeout=COMMAND_S,
                check=False,
            )
            if done.returncode == code or time.monotonic() >= until:
                break
            time.sleep(0.2)
        text = (done.stdout + done.stderr).rstrip()
        if not quiet:
            self._answer(text)
        if done.returncode != code:
            raise DrillError(f"`barnabas {line}` ended with {done.returncode}, not {code}: {text[-800:]}")
        if shows not in text:
            raise DrillError(f"`barnabas {line}` does not say {shows!r}: {text[-800:]}")
        return done.stdout

    def _answer(self, text: str) -> None:
        lines = text.splitlines()
        for line in lines[:SHOWN_LINES]:
            self._say("answer", line)
        if len(lines) > SHOWN_LINES:
            self._say("answer", f"... {len(lines) - SHOWN_LINES} lines more")

    # -- nodes -----------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """The addresses that commands ask: brokers that run, else none."""
        return ",".join(self.nodes[id_].address for id_ in self._bootstrap if id_ in self.nodes)

    def node(self, id_: int, roles: str = "controller", **settings: str) -> StageNode:
        """A node of these roles; its file is `n{id}.properties`.  Settings with _ for dots."""
        port = free_ports(2)
        known = [f"127.0.0.1:{n.controller_port}" for n in self.nodes.values() if n.is_controller]
        own = [f"127.0.0.1:{port + 1}"] if "controller" in roles else []
        node = StageNode(
            id_,
            self.directory,
            roles,
            (port, port + 1),
            [*known, *own],
            {name.replace("_", "."): value for name, value in settings.items()},
        )
        self.nodes[id_] = node
        if "broker" in roles:
            self._bootstrap.append(id_)
        return node

    def form(
        self,
        *ids: int,
        roles: str = "controller",
        prepare: Callable[[StageNode], None] | None = None,
        **settings: str,
    ) -> None:
        """Controllers that are the first voters, all at once; `prepare` may change each before it is formatted."""
        self.cluster_id = self.type("storage random-uuid", quiet=True).strip()
        nodes = [self.node(id_, roles, **settings) for id_ in ids]
        if prepare is not None:
            for node in nodes:
                prepare(node)
        everybody = [f"127.0.0.1:{node.controller_port}" for node in nodes]
        initial = []
        for node in nodes:
            node.settings["controller.quorum.bootstrap.servers"] = ",".join(everybody)
            directory = self.type("storage random-uuid", quiet=True).strip()
            initial.append(f"{node.id}@127.0.0.1:{node.controller_port}:{directory}")
        for node in nodes:
            self.format(node.id, f"--initial-controllers {','.join(initial)}", quiet=node is not nodes[0])
        self.start(*ids)

    def alone(self, id_: int) -> None:
        """A controller that is a quorum of one."""
        self.cluster_id = self.type("storage random-uuid", quiet=True).strip()
        self.node(id_)
        self.format(id_, "--standalone")
        self.start(id_)

    def fixed(self, *ids: int) -> None:
        """Controllers with fixed voters: kraft.version 0."""
        self.cluster_id = self.type("storage random-uuid", quiet=True).strip()
        nodes = [self.node(id_) for id_ in ids]
        voters = ",".join(f"{node.id}@127.0.0.1:{node.controller_port}" for node in nodes)
        for node in nodes:
            node.settings["controller.quorum.voters"] = voters
            node.settings["controller.quorum.bootstrap.servers"] = ""
            self.format(node.id, quiet=node is not nodes[0])
        self.start(*ids)

    def format(
        self, id_: int, flags: str = "", *, quiet: bool = False, code: int = 0, shows: str = ""
    ) -> str:
        """`barnabas storage format` of one node."""
        node = self.nodes[id_]
        node.write()
        line = f"storage format -t {self.cluster_id} -c {node.file} {flags}".rstrip()
        return self.type(line, quiet=quiet, code=code, shows=shows)

    def start(self, *ids: int) -> None:
        """Start nodes on what they have; returns when all are ready."""
        self.launch(*ids)
        for id_ in ids:
            self.until(f"node {id_} is ready", self.nodes[id_].is_ready)

    def launch(self, *ids: int) -> None:
        """Start nodes that will not be ready (they wait for a quorum, or refuse)."""
        for id_ in ids:
            words = " ".join((self.nodes[id_].file, *self.nodes[id_].words))
            self._say("type", f"barnabas start {words} &")
            self.nodes[id_].start()

    def join(self, id_: int, roles: str = "controller", **settings: str) -> StageNode:
        """One node more, formatted to join and started: it follows and does not vote."""
        node = self.node(id_, roles, **settings)
        self.format(id_, "--no-initial-controllers" if "controller" in roles else "")
        self.start(id_)
        return node

    def join_all(self, *ids: int) -> None:
        """Controllers that join; returns when all of them follow."""
        for id_ in ids:
            self.node(id_)
            self.format(id_, "--no-initial-controllers")
        self.start(*ids)
        for id_ in ids:
            self.follows(id_)

    def brokers(
        self, *ids: int, replication: int | None = None, racks: str = "", partitions: int = 3, **settings: str
    ) -> None:
        """Brokers, and the traffic that flows through them until the end of the drill."""
        for place, id_ in enumerate(ids):
            rack = {"broker_rack": racks[place]} if racks else {}
            node = self.node(id_, "broker", **rack, **settings)
            self.format(id_, quiet=True)
            node.write()
        self.start(*ids)
        self.flow(replication or min(3, len(ids)), partitions, ids)

    def flow(self, copies: int, partitions: int, brokers: Collection[int]) -> None:
        """Records and topics from here on, once these brokers serve."""
        self.until("the brokers are unfenced", lambda: set(brokers) <= self.unfenced())
        self.traffic = Traffic(self.bootstrap, copies, partitions, self.security, self._rate)
        self._say("see", f"records flow to a topic with {copies} {'copy' if copies == 1 else 'copies'}")

    def kill(self, *ids: int) -> None:
        """kill -9."""
        for id_ in ids:
            self._say("type", f"kill -9 {self.nodes[id_].pid}        # node {id_}")
            self.nodes[id_].kill()

    def stop(self, *ids: int) -> None:
        """A clean stop (SIGTERM)."""
        for id_ in ids:
            self._say("type", f"kill {self.nodes[id_].pid}        # node {id_}, a clean stop")
            self.nodes[id_].stop()

    def hang(self, id_: int) -> None:
        """SIGSTOP: it answers nothing and does not know."""
        self._say("type", f"kill -STOP {self.nodes[id_].pid}        # node {id_}")
        self.nodes[id_].signal(signal.SIGSTOP)

    def wake(self, id_: int) -> None:
        """SIGCONT."""
        self._say("type", f"kill -CONT {self.nodes[id_].pid}        # node {id_}")
        self.nodes[id_].signal(signal.SIGCONT)

    def lose_disk(self, id_: int) -> None:
        """Its data are gone."""
        self._say("type", f"rm -r n{id_}        # the disk of node {id_}")
        shutil.rmtree(self.nodes[id_].data, ignore_errors=True)

    def segments(self, id_: int, log: str) -> list[str]:
        """The segment files of a partition that hold records, oldest first."""
        folder = os.path.join(self.nodes[id_].data, log)
        names = sorted(name for name in os.listdir(folder) if name.endswith(".log"))
        return [path for name in names if os.path.getsize(path := os.path.join(folder, name))]

    def flip(self, id_: int, log: str, *, sealed: bool) -> int:
        """Flip a bit of a record in the middle of the oldest segment of a partition, or of its newest one.

        Returns the offset of the batch that has it.
        """
        from barnabas.wire.records import batches

        path = self.segments(id_, log)[0 if sealed else -1]
        with open(path, "rb") as file:
            found = list(batches(file.read()))
        at, header = found[len(found) // 2]
        place = at + header.size - 2
        self._say("type", f"# a bit of byte {place} of {os.path.relpath(path, self.directory)} flips")
        with open(path, "r+b") as file:
            file.seek(place)
            byte = file.read(1)[0]
            file.seek(place)
            file.write(bytes([byte ^ 1]))
        self._told[id_] = len(self.nodes[id_].text())
        return header.base_offset

    def says(self, id_: int, event: str, name: str) -> None:
        """Wait until a node's log has such an event about `name`, after the last `flip` on its disk."""
        line = self.until(f"node {id_} says {event} of {name}", lambda: self._line(id_, event, name))
        self._say("see", f"node {id_}: {line}")

    def _line(self, id_: int, event: str, name: str) -> str | None:
        for line in self.nodes[id_].text()[self._told.get(id_, 0) :].splitlines():
            words = line.split(maxsplit=2)
            if len(words) == 3 and words[2].startswith(event) and name in line:
                return words[2]
        return None

    def replace(self, new: str, name: str, *, quiet: bool = False) -> None:
        """A file takes the place of another, at once."""
        if not quiet:
            self._say("type", f"mv {new} {name}")
        os.replace(os.path.join(self.directory, new), os.path.join(self.directory, name))

    # -- looking ---------------------------------------------------------------------------------

    def quorum(self) -> QuorumDescription:
        """The quorum as its leader sees it, asked at the brokers, or at any controller that runs."""
        from barnabas.client.admin.admin import Admin

        able = self.bootstrap or [f"127.0.0.1:{n.controller_port}" for n in self.nodes.values() if n.serves]
        with Admin(able, timeout=5.0, security=self.security) as admin:
            return admin.quorum()

    def leader(self, *, but: Collection[int] = ()) -> int:
        """Who leads; waits for one (other than `but`)."""
        found: QuorumDescription = self.until(
            "the quorum has a leader", lambda: q if (q := self.quorum()).leader not in (-1, *but) else None
        )
        return found.leader

    def leader_of(self, topic: str, partition: int) -> int:
        """The broker that leads a partition; waits for one."""
        from barnabas.client.admin.admin import Admin

        def look() -> int | None:
            with Admin(self.bootstrap, timeout=5.0, security=self.security) as admin:
                leader = admin.describe_topic(topic).partitions[partition].leader
            return leader if leader > 0 else None

        found: int = self.until(f"{topic}-{partition} has a leader", look)
        return found

    def unfenced(self) -> set[int]:
        """Brokers that serve."""
        from barnabas.client.admin.admin import Admin

        with Admin(self.bootstrap, timeout=5.0, security=self.security) as admin:
            return {broker.id for broker in admin.describe_cluster().brokers}

    def whole(self) -> bool:
        """Whether all that started serve, and each partition has all its replicas in sync."""
        from barnabas.client.admin.admin import Admin
        from barnabas.wire.schemas.cluster import MetadataRequest

        running = {node.id for node in self.nodes.values() if "broker" in node.roles and node.pid}
        with Admin(self.bootstrap, timeout=5.0, security=self.security) as admin:
            topics = admin.cluster.ask(MetadataRequest(topics=None)).topics
            short = [p for t in topics for p in t.partitions if len(p.isr_nodes) < len(p.replica_nodes)]
            return not short and running <= {broker.id for broker in admin.describe_cluster().brokers}

    def voters_are(self, *ids: int, within: float = WITHIN_S) -> None:
        """Wait until exactly these vote and the set is committed."""
        self.until(f"voters {sorted(ids)}", lambda: {v.id for v in self.quorum().voters} == set(ids), within)
        self._say("see", f"voters: {', '.join(map(str, sorted(ids)))}; node {self.leader()} leads")

    def follows(self, id_: int) -> None:
        """Wait until the leader has heard of this observer, with the disk that it has now."""
        directory = self.nodes[id_].directory_id
        self.until(
            f"node {id_} follows",
            lambda: any(str(o.directory_id) == directory for o in self.quorum().observers),
        )

    def add(self, id_: int) -> None:
        """Type `quorum add-controller` for a node that follows."""
        self.follows(id_)
        self.type(
            f"quorum --command-config {self.nodes[id_].file} add-controller",
            shows="Added controller",
            again=10,
        )

    def remove(self, id_: int, directory: str | None = None) -> None:
        """Type `quorum remove-controller` with the directory id that the quorum knows."""
        found = directory or next(str(v.directory_id) for v in self.quorum().voters if v.id == id_)
        self.type(
            f"quorum remove-controller --controller-id {id_} --controller-directory-id {found}", again=10
        )

    def flowing(self, *, metadata: bool = True) -> None:
        """Wait until records, and topics, are acknowledged again that were sent from now on."""
        traffic = self.traffic
        assert traffic is not None
        records, topics = traffic.acknowledged, traffic.made
        self.until(
            "records and topics are acknowledged",
            lambda: traffic.acknowledged > records + 20 and (not metadata or traffic.made > topics + 1),
        )
        self._say("see", f"records flow: {traffic.acknowledged} acknowledged, {traffic.made} topics made")

    def until(self, what: str, look: Callable[[], Any], within: float = WITHIN_S) -> Any:
        """What `look` returns once it is neither None nor False nor an error; DrillError after `within` s."""
        deadline = time.monotonic() + within
        last: object = None
        while time.monotonic() < deadline:
            try:
                if (found := look()) is not None and found is not False:
                    return found
            except (BarnabasError, OSError) as error:
                last = error
            for node in self.nodes.values():
                node.check()
            time.sleep(0.05)
        raise DrillError(f"not within {within:g} s: {what}{f' ({last})' if last else ''}")

    def prove(self) -> Proof:
        """End the traffic and compare what was acknowledged with what is there."""
        assert self.traffic is not None
        return self.traffic.prove()
