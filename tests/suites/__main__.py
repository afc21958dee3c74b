"""`make suites`: run them, say what failed, and write the tables of docs/compatibility.md.

    make suites                                    each suite against the cluster it wants
    make suites ARGS="franz-go --nodes 3 --kills 20"
    make suites ARGS="librdkafka --against 127.0.0.1:9092 --nodes 3"   an Apache Kafka that runs there
    make suites ARGS="librdkafka --apache --kills 20"   an Apache Kafka that this command starts
    make suites ARGS="apps"                        each application of Apache Kafka for a minute through kills
    make suites ARGS="streams --minutes 10"

Exit code 1 if a test failed that no known reason explains, or if an application lost or doubled a record.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.suites import page
from tests.suites.apache import APACHE, OURS, ApacheUnavailableError
from tests.suites.apps import run as app_run
from tests.suites.apps.declared import APPS, app
from tests.suites.apps.java import JavaUnavailableError
from tests.suites.declared import SUITES, Suite, suite
from tests.suites.run import Result, SuiteUnavailableError, against, run

ALL_APPS = "apps"
APP_NODES, APP_KILLS = 3, 15.0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make suites", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    suites, applications = [each.name for each in SUITES], [each.name for each in APPS]
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"of {', '.join(suites)} (all of these), or of {', '.join(applications)} ({ALL_APPS}: all of these)",
    )
    parser.add_argument(
        "--nodes", type=int, help="nodes of the cluster (what the suite wants; applications: 3)"
    )
    parser.add_argument(
        "--kills",
        type=float,
        metavar="SECONDS",
        help=f"kill -9 a node this often (suites: never, applications: {APP_KILLS:g}; 0: never)",
    )
    parser.add_argument(
        "--minutes", type=float, default=1.0, help="how long numbers go into an application (1)"
    )
    parser.add_argument("--rate", type=int, default=300, help="numbers a second (300)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--against", metavar="HOST:PORT", help=f"run against {APACHE}, which runs there")
    where.add_argument(
        "--apache", action="store_true", help=f"run against a cluster of {APACHE}, started here"
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep an application's files and logs here")
    parser.add_argument("--no-write", action="store_true", help="leave docs/ as it is")
    options = parser.parse_args()
    if unknown := set(options.names) - {*suites, *applications, ALL_APPS}:
        parser.error(f"no suite or application {', '.join(sorted(unknown))}")
    if ALL_APPS in options.names:
        options.names = [name for name in options.names if name != ALL_APPS] + applications
    if options.kills and options.against:
        parser.error("--kills is for clusters that this command starts")
    if options.kills and options.kills < 5:
        parser.error("--kills: at least 5 seconds, for a node to come back")
    return options


def main() -> int:
    options = arguments()
    unexplained = 0
    for name in options.names or [each.name for each in SUITES]:
        try:
            if any(name == each.name for each in APPS):
                unexplained += run_app(name, options)
            else:
                unexplained += run_suite(suite(name), options)
        except (SuiteUnavailableError, JavaUnavailableError, ApacheUnavailableError) as error:
            print(f"  could not be fetched, built or run: {error}", flush=True)
            unexplained += 1
    return 1 if unexplained else 0


def run_suite(chosen: Suite, options: argparse.Namespace) -> int:
    """Run one suite; returns how many failures no known reason explains."""
    nodes = options.nodes or chosen.nodes
    print(f"{chosen.title}: {nodes} node(s) ...", flush=True)
    if options.against:
        result = against(chosen, options.against, nodes=nodes, peer=APACHE)
    else:
        peer = APACHE if options.apache else OURS
        result = run(chosen, nodes=nodes, kills_every=options.kills or 0.0, peer=peer)
    if not options.no_write:
        page.keep(result)
    return say(result)


def run_app(name: str, options: argparse.Namespace) -> int:
    """Run one application; returns 1 unless every number came exactly once."""
    chosen = app(name)
    nodes = options.nodes or APP_NODES
    kills_every = APP_KILLS if options.kills is None else options.kills
    print(f"{chosen.title}: {nodes} node(s), {options.minutes:g} min ...", flush=True)
    common = {"nodes": nodes, "minutes": options.minutes, "rate": options.rate, "keep": options.keep}
    if options.against:
        result = app_run.against(chosen, options.against, peer=APACHE, **common)
    else:
        peer = APACHE if options.apache else OURS
        result = app_run.run(chosen, kills_every=kills_every, peer=peer, **common)
    if not options.no_write:
        page.keep(result)
    print(
        f"  {result.numbers} numbers, {result.kills} kills: {result.lost} lost, {result.twice} twice", end=""
    )
    print(f", {result.seconds} s; {'; '.join(result.seen)}")
    for what in result.wrong:
        print(f"  WRONG {what}")
    return 0 if result.good else 1


def say(result: Result) -> int:
    """Print one result; returns how many failures no known reason explains."""
    print(f"  {result.passed} passed, {result.failed} failed, {result.skipped} skipped, {result.seconds} s")
    reasons = {name: page.why_it_fails(result, name, None) for name in result.failures}
    for name, why in reasons.items():
        print(f"  FAILED {name}: {why}")
    return result.failed - sum(why != page.NOT_EXPLAINED for why in reasons.values())


if __name__ == "__main__":
    sys.exit(main())
