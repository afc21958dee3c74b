"""Run whole quorums by seed: virtual time, faults, membership changes, and every promise checked.

barnabas simulate --seed 17              one seed, with its story where a promise was broken
barnabas simulate --seed 17 --story      its whole timeline
barnabas simulate --seeds 200 --first 1  many seeds, and what they came to
barnabas simulate --seeds 200 --resume   the next ones that this code has not run; the ledger counts them
barnabas simulate --status               how many seeds the ledger counts, by code
barnabas simulate --cluster ...          the same with whole clusters: real nodes, clients, replication
barnabas simulate --cluster --transactions ...  whole clusters whose clients use transactions
barnabas simulate --beyond ...           quorums with one fault more than they can bear
barnabas simulate --moved ...            quorums that all move, and know one address
barnabas simulate --lies ...             quorums on disks that lie; whole clusters: --cluster --lies
"""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.cli.typed.numbers import count, whole
from barnabas.sim.cluster.clients.workloads import LIES, USUAL, WORKLOADS, flags_of, seed_runner

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.cli.simulate.many import Kind

__all__ = ["add_arguments", "run"]

LEDGER = Path("simulation") / "ledger.jsonl"
BEYOND_LEDGER = Path("simulation") / "beyond.jsonl"
MOVED_LEDGER = Path("simulation") / "moved.jsonl"
LYING_LEDGER = Path("simulation") / "lies.jsonl"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of this noun."""
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--cluster", action="store_true", help="whole clusters instead of quorums")
    kind.add_argument("--beyond", action="store_true", help="faults that a quorum cannot bear")
    kind.add_argument("--moved", action="store_true", help="all nodes move, and know one address")
    clients = parser.add_mutually_exclusive_group()
    for name, workload in WORKLOADS.items():
        if name:
            says = f"with --cluster: {workload.says} in place of the usual clients"
            clients.add_argument(
                f"--{name}", dest="workload", action="store_const", const=name, default=USUAL, help=says
            )
    parser.add_argument("--seed", type=count, metavar="N", help="live this one seed and tell of it")
    parser.add_argument("--story", action="store_true", help="with --seed: tell the whole timeline")
    parser.add_argument("--seeds", type=count, metavar="N", help="live so many seeds")
    parser.add_argument("--first", type=count, default=1, metavar="K", help="the first of them (default 1)")
    parser.add_argument("--jobs", type=whole(1, 4096), default=2, metavar="J", help="processes (default 2)")
    parser.add_argument("--ledger", action="store_true", help=f"write the seeds down in {LEDGER.parent}")
    parser.add_argument(
        "--resume", action="store_true", help="go on where the ledger ends for this code; implies --ledger"
    )
    parser.add_argument("--status", action="store_true", help="how many seeds the ledger counts, by code")
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """0 when every promise was kept, 1 when one was broken, 2 for wrong usage."""
    if sum((arguments.seed is not None, arguments.seeds is not None, arguments.status)) != 1:
        print(
            "error: give one of --seed, --seeds and --status\n  next: barnabas simulate --help",
            file=sys.stderr,
        )
        return 2
    if arguments.workload and not arguments.cluster and not _quorums_lie(arguments):
        wanted = flags_of(arguments.workload)
        print(f"error: only clusters have clients\n  next: barnabas simulate {wanted}", file=sys.stderr)
        return 2
    if arguments.seed is not None:
        return _one(arguments)
    return _many(arguments)


def _quorums_lie(arguments: argparse.Namespace) -> bool:
    """Return whether quorums on disks that lie are asked for: `--lies` means clusters only with `--cluster`."""
    return arguments.workload == LIES and not (arguments.cluster or arguments.beyond or arguments.moved)


def _one(arguments: argparse.Namespace) -> int:
    """One seed, told; what every kind of seed reports, and what only its own does."""
    run_seed, tell, own = _teller(arguments)
    report = run_seed(arguments.seed, story=True)
    if arguments.json:
        document = {
            "version": 1,
            "seed": report.seed,
            "promise": report.invariant,
            "error": report.error,
            "trace": report.digest,
            "setup": report.setup,
            "events": report.events,
            "virtual_seconds": round(report.virtual_seconds, 3),
            "cpu_seconds": round(report.cpu_seconds, 3),
            "faults": [str(fault) for fault in report.faults],
            **own(report),
        }
        print(json.dumps(document, indent=2))
    else:
        if report.ok and not arguments.story:
            report.story = []
        for line in tell(report, lines=0 if arguments.story else 60):
            print(line)
    return 0 if report.ok else 1


def _teller(
    arguments: argparse.Namespace,
) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """How a seed of the kind asked for is run and told, and what only that kind reports."""
    if arguments.beyond:
        from barnabas.sim.quorum.over_budget import seed_run as beyond

        return (
            beyond.run_seed,
            beyond.tell,
            lambda report: {
                "commits": report.commits,
                "fault": report.fault,
                "outcome": report.outcome,
                "refusals": dict(sorted(report.refusals.items())),
            },
        )
    if arguments.moved:
        from barnabas.sim.quorum import all_moved

        return (
            all_moved.run_seed,
            all_moved.tell,
            lambda report: {"commits": report.commits, "voters": report.voters, "seconds": report.seconds},
        )
    if _quorums_lie(arguments):
        from barnabas.sim.quorum.lying import seed_run as lying

        return (
            lying.run_seed,
            lying.tell,
            lambda report: {"commits": report.commits, "damaged": report.damaged},
        )
    if arguments.cluster:
        from barnabas.sim.cluster import seeds as cluster_seeds

        return (
            seed_runner(arguments.workload),
            cluster_seeds.tell,
            lambda report: {
                "records": report.counts,
                "operations": dict(sorted(report.operations.items())),
            },
        )
    from barnabas.sim.quorum import seed_run as life
    from barnabas.sim.quorum import story

    return (
        life.run_seed,
        story.tell,
        lambda report: {
            "commits": report.commits,
            "changes": report.changes,
            "outcomes": dict(sorted(report.outcomes.items())),
        },
    )


def _many(arguments: argparse.Namespace) -> int:
    from barnabas.cli.simulate.many import run_many, show_status

    if arguments.beyond:
        kind = _beyond()
    elif arguments.moved:
        kind = _moved()
    elif _quorums_lie(arguments):
        kind = _lying()
    else:
        kind = _clusters(arguments.workload) if arguments.cluster else _quorums()
    return show_status(kind.ledger, arguments.json) if arguments.status else run_many(arguments, kind)


def _quorums() -> Kind:
    from barnabas.cli.simulate.many import Kind
    from barnabas.sim.kernel.ledger import Ledger, code_hash
    from barnabas.sim.quorum import seeds, story

    return Kind(Ledger(LEDGER, code_hash()), code_hash, seeds.Summary, seeds.run_seeds, story.command)


def _clusters(workload: str) -> Kind:
    """Whole clusters with the clients of that workload."""
    from barnabas.cli.simulate.many import Kind
    from barnabas.sim.cluster import seeds
    from barnabas.sim.kernel.ledger import Ledger

    name = f"cluster-{workload}" if workload else "cluster"
    return Kind(
        Ledger(LEDGER.with_name(f"{name}.jsonl"), seeds.code_hash()),
        seeds.code_hash,
        seeds.Summary,
        partial(seeds.run_seeds, workload=workload),
        partial(seeds.command, workload=workload),
        flags_of(workload),
    )


def _moved() -> Kind:
    from barnabas.cli.simulate.many import Kind
    from barnabas.sim.kernel.ledger import Ledger, code_hash
    from barnabas.sim.quorum import all_moved

    ledger = Ledger(MOVED_LEDGER, code_hash())
    return Kind(
        ledger, code_hash, all_moved.AllMovedSummary, all_moved.run_seeds, all_moved.command, "--moved"
    )


def _lying() -> Kind:
    from barnabas.cli.simulate.many import Kind
    from barnabas.sim.kernel.ledger import Ledger, code_hash
    from barnabas.sim.quorum.lying import seed_run as lying

    ledger = Ledger(LYING_LEDGER, code_hash())
    return Kind(ledger, code_hash, lying.LyingSummary, lying.run_seeds, lying.command, "--lies")


def _beyond() -> Kind:
    from barnabas.cli.simulate.many import Kind
    from barnabas.sim.kernel.ledger import Ledger, code_hash
    from barnabas.sim.quorum.over_budget import seed_run as beyond

    ledger = Ledger(BEYOND_LEDGER, code_hash())
    return Kind(ledger, code_hash, beyond.OverBudgetSummary, beyond.run_seeds, beyond.command, "--beyond")
