"""`make suites`: run them, say what failed, and write the table of docs/compatibility.md.

    make suites                                    each against the cluster it wants
    make suites ARGS="franz-go --nodes 3 --kills 20"
    make suites ARGS="librdkafka --against 127.0.0.1:9092 --nodes 3"   an Apache Kafka that runs there

Exit code 1 if a test failed that no known reason explains.
"""

from __future__ import annotations

import argparse
import sys

from tests.suites import page
from tests.suites.declared import SUITES, suite
from tests.suites.run import Result, SuiteUnavailableError, against, run

APACHE = "Apache Kafka 4.3.1"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make suites", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [each.name for each in SUITES]
    parser.add_argument("names", nargs="*", metavar="SUITE", help=f"of {', '.join(names)} (all)")
    parser.add_argument("--nodes", type=int, help="nodes of the cluster (what the suite wants)")
    parser.add_argument(
        "--kills", type=float, default=0.0, metavar="SECONDS", help="kill -9 a node this often"
    )
    parser.add_argument("--against", metavar="HOST:PORT", help=f"run against {APACHE}, which runs there")
    parser.add_argument("--no-write", action="store_true", help="leave docs/ as it is")
    options = parser.parse_args()
    if unknown := set(options.names) - set(names):
        parser.error(f"no suite {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    if options.kills and options.against:
        parser.error("--kills is for clusters that this command starts")
    if options.kills and options.kills < 5:
        parser.error("--kills: at least 5 seconds, for a node to come back")
    return options


def main() -> int:
    options = arguments()
    unexplained = 0
    for name in options.names or [each.name for each in SUITES]:
        chosen = suite(name)
        nodes = options.nodes or chosen.nodes
        print(f"{chosen.title}: {nodes} node(s) ...", flush=True)
        try:
            if options.against:
                result = against(chosen, options.against, nodes=nodes, peer=APACHE)
            else:
                result = run(chosen, nodes=nodes, kills_every=options.kills)
        except SuiteUnavailableError as error:
            print(f"  could not be fetched, built or run: {error}", flush=True)
            unexplained += 1
            continue
        unexplained += say(result)
        if not options.no_write:
            page.keep(result)
    return 1 if unexplained else 0


def say(result: Result) -> int:
    """Print one result; returns how many failures no known reason explains."""
    known = suite(result.suite).known
    print(f"  {result.passed} passed, {result.failed} failed, {result.skipped} skipped, {result.seconds} s")
    for name in result.failures:
        print(f"  FAILED {name}: {known.get(name, 'not explained')}")
    return result.failed - sum(name in known for name in result.failures)


if __name__ == "__main__":
    sys.exit(main())
