"""Real controllers that all come back at new addresses, over and over: the quorum must form again each time.

    python -m tools.moved_quorum --voters 3,4,5 --times 20 --ports 23000-23999

Of each set of voters every node stops (or is killed), gets a new port, and starts again with one address in
`controller.quorum.bootstrap.servers`: the new one of one node, drawn anew each time.  Sometimes that node
comes last, sometimes it stays up and only the others move.  Printed are the seconds from the start of the last
process to a leader, and until every voter follows it and its set names where they are.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from barnabas.cli.drill.node import StageNode
from barnabas.client.admin.admin import Admin
from barnabas.client.admin.described import QuorumDescription
from barnabas.errors import BarnabasError

PATIENCE_S = 30.0


class Controllers:
    """Controllers of one quorum, in a directory of their own."""

    def __init__(self, count: int, ports: Iterator[int]) -> None:
        self.directory = tempfile.mkdtemp(prefix="barnabas-moved-")
        self.ports = ports
        self.nodes = [
            StageNode(id_, self.directory, "controller", (0, next(ports)), [], {})
            for id_ in range(1, count + 1)
        ]

    def barnabas(self, *words: str) -> str:
        command = [sys.executable, "-m", "barnabas", *words]
        done = subprocess.run(command, cwd=self.directory, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BarnabasError(f"{' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout.strip()

    def form(self) -> None:
        everybody = ",".join(f"127.0.0.1:{node.controller_port}" for node in self.nodes)
        cluster, initial = self.barnabas("storage", "random-uuid"), []
        for node in self.nodes:
            node.settings["controller.quorum.bootstrap.servers"] = everybody
            node.write()
            directory = self.barnabas("storage", "random-uuid")
            initial.append(f"{node.id}@127.0.0.1:{node.controller_port}:{directory}")
        for node in self.nodes:
            flags = ("-t", cluster, "-c", node.file, "--initial-controllers", ",".join(initial))
            self.barnabas("storage", "format", *flags)
            node.start()
        self.wait()

    def move(self, rng: random.Random) -> tuple[str, float, float]:
        """One move of all: what was done, and the seconds until there was a leader, and until all was in order."""
        known = rng.choice(self.nodes)
        stays, killed = rng.random() < 0.25, rng.random() < 0.5
        moving = [node for node in self.nodes if node is not known or not stays]
        for node in moving:
            if killed:
                node.kill()
        for node in moving:
            node.stop()
            node.controller_port = next(self.ports)
        for node in self.nodes:
            node.settings["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{known.controller_port}"
            node.write()
        rng.shuffle(moving)
        for node in moving:
            node.start()
            time.sleep(rng.choice((0.0, 0.0, 0.5)))
        began = time.monotonic()
        self.wait(only_leader=True)
        led = time.monotonic() - began
        self.wait()
        how = f"node {known.id} is known{' and stays' if stays else ''}, {'killed' if killed else 'stopped'}"
        return f"{how}, started {[node.id for node in moving]}", led, time.monotonic() - began

    def wait(self, *, only_leader: bool = False) -> None:
        until = time.monotonic() + PATIENCE_S
        while not self._is_there(only_leader):
            if time.monotonic() > until:
                raise BarnabasError(f"no quorum after {PATIENCE_S:g} s: see {self.directory}")
            time.sleep(0.05)

    def _is_there(self, only_leader: bool) -> bool:
        """Whether somebody leads, or moreover every voter follows, and the set names where they listen now."""
        try:
            with Admin([f"127.0.0.1:{node.controller_port}" for node in self.nodes], timeout=2.0) as admin:
                quorum = admin.quorum()
        except BarnabasError:
            return False
        return quorum.leader >= 0 and (only_leader or self._complete(quorum))

    def _complete(self, quorum: QuorumDescription) -> bool:
        ports = {node.id: node.controller_port for node in self.nodes}
        named = {voter.id: voter.endpoints for voter in quorum.voters}
        fresh = [voter for voter in quorum.voters if voter.log_end_offset >= quorum.high_watermark > 0]
        return len(fresh) == len(ports) and all(
            any(str(endpoint).endswith(f":{port}") for endpoint in named.get(id_, ()))
            for id_, port in ports.items()
        )

    def end(self, *, keep: bool) -> None:
        for node in self.nodes:
            node.kill()
        if not keep:
            shutil.rmtree(self.directory, ignore_errors=True)


def ports_of(text: str) -> Iterator[int]:
    """Ports of a range, over and over."""
    first, last = map(int, text.split("-"))
    while True:
        yield from range(first, last + 1)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--voters", default="3,4,5")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--ports", default="23000-23999")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    ports, failed = ports_of(args.ports), False
    for count in map(int, args.voters.split(",")):
        controllers, took = Controllers(count, ports), []
        rng = random.Random(f"{args.seed}/{count}")
        try:
            controllers.form()
            for number in range(1, args.times + 1):
                how, led, settled = controllers.move(rng)
                took.append(led)
                print(
                    f"{count} voters, move {number}: led after {led:5.2f} s, settled {settled:5.2f} s  {how}",
                    flush=True,
                )
        except BarnabasError as error:
            failed = True
            print(f"{count} voters: {error}", flush=True)
        finally:
            controllers.end(keep=failed)
        if took:
            print(
                f"{count} voters: {len(took)} of {args.times} moves; median {statistics.median(took):.2f} s, "
                f"longest {max(took):.2f} s",
                flush=True,
            )
        if failed:
            return 1
    return 0


if __name__ == "__main__":
    os.environ.setdefault("NO_COLOR", "1")
    sys.exit(main())
