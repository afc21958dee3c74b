"""One node of a `Cluster` of several: what `barnabas start` runs, on a loop whose links can be cut.

    python -m barnabas.testing.child --cluster-id ID [--voters VOTERS] --override NAME=VALUE ...

It formats its directories where they are empty: with the first voters, or, without them, as a disk that replaces a
lost one.  Then it says in a line of JSON that it is ready.  Each line it reads is the whole list of addresses that
it cannot reach from now on; it answers `{"cut": N}`.  It stops when its input ends, also while it starts, so
that no node outlives its test.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from typing import TYPE_CHECKING

from barnabas.client.metadata import parse_bootstrap
from barnabas.testing.links import LinkedLoop

if TYPE_CHECKING:
    from barnabas.config import Config
    from barnabas.server.node.process import ServerNode

__all__ = ["main"]


def main(words: list[str] | None = None) -> int:
    """Run the node until a signal or the end of its input; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m barnabas.testing.child")
    parser.add_argument("--cluster-id", required=True)
    parser.add_argument("--voters", help="id@host:port:directory-id,... of an empty cluster")
    parser.add_argument(
        "--cut", default="", help="addresses out of reach from the start, with spaces between"
    )
    parser.add_argument("--override", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args(words)
    from barnabas.config import Config

    config = Config.load(dict(word.split("=", 1) for word in options.override))
    _format(config, options.cluster_id, options.voters)
    from barnabas.server.node.run import run

    loop = LinkedLoop()
    loop.cut(parse_bootstrap(options.cut.split()))
    _listen(loop)
    return run(config, format_new=False, on_ready=_tell, loop=lambda: loop)


def _format(config: Config, cluster_id: str, voters: str | None) -> None:
    from barnabas.log.files.disk import OsDisk
    from barnabas.server.loop.system import SystemClock, SystemRandomness
    from barnabas.server.node.format import FormatPlan, format_directories

    plan = FormatPlan.of(
        config,
        cluster_id,
        initial_controllers=voters,
        no_initial_controllers=voters is None,
        ignore_formatted=True,
    )
    format_directories(OsDisk(), SystemClock(), SystemRandomness(), plan)


def _tell(node: ServerNode) -> None:
    """Say that the node is ready."""
    from barnabas.server.node.run import about

    sys.stdout.write(json.dumps({"node": about(node)}) + "\n")
    sys.stdout.flush()


def _listen(loop: LinkedLoop) -> None:
    """Hear on standard input which links are cut, and that the test has ended."""
    heard = bytearray()

    def hear() -> None:
        data = os.read(sys.stdin.fileno(), 65536)
        if not data:
            loop.remove_reader(sys.stdin.fileno())
            os.kill(os.getpid(), signal.SIGTERM)
            return
        heard.extend(data)
        while (end := heard.find(b"\n")) >= 0:
            line = heard[:end].decode()
            del heard[: end + 1]
            found = parse_bootstrap(line.split())
            loop.cut(found)
            os.write(sys.stdout.fileno(), b'{"cut": %d}\n' % len(found))

    loop.add_reader(sys.stdin.fileno(), hear)


if __name__ == "__main__":
    sys.exit(main())
