"""`python -m tests.compat.side_by_side`: many sequences, each difference in words, and what was heard in all.

--seeds 2000 --first 1      which sequences
--only SEED                 one, with all its steps
--plan SEED                 print what it asks; needs no node
--ports 21200               ports of Apache Kafka (two, from here on)
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.compat.conftest import KAFKA
from tests.compat.side_by_side.pair import pair_of_nodes
from tests.compat.side_by_side.plan import sequence
from tests.compat.side_by_side.running import Outcome, run_all

__all__ = ["main"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="side_by_side", description=__doc__)
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--only", type=int, nargs="*")
    parser.add_argument("--plan", type=int)
    parser.add_argument("--ports", type=int)
    parser.add_argument("--family")
    parser.add_argument("--keep", type=Path, help="where the nodes' directories and logs stay")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="settings of both nodes")
    options = parser.parse_args()
    if options.plan is not None:
        found = sequence(options.plan)
        print(found.family, *found.steps, sep="\n")
        return 0
    seeds = options.only or range(options.first, options.first + options.seeds)
    chosen = [seed for seed in seeds if not options.family or sequence(seed).family == options.family]
    ports = range(options.ports, options.ports + 2) if options.ports else None
    settings = dict(one.split("=", 1) for one in options.set)
    began = time.monotonic()
    with (
        contextlib.nullcontext(options.keep) if options.keep else tempfile.TemporaryDirectory() as folder,
        pair_of_nodes(Path(folder), KAFKA, ports, **settings) as sides,
    ):
        print(f"both run after {time.monotonic() - began:.0f} s", flush=True)
        outcome = run_all(*sides, chosen, lambda words: print(words, flush=True))
    say(outcome, time.monotonic() - began)
    return 1 if outcome.differences else 0


def say(outcome: Outcome, seconds: float) -> None:
    counts: Counter[str] = Counter()
    for (_, code), count in outcome.codes.items():
        counts[code] += count
    for name, count in counts.most_common():
        apis = sorted(api for api, code in outcome.codes if code == name)
        print(f"  {count:7} {name}: {', '.join(apis)}")
    print(
        f"{outcome.sequences} sequences, {outcome.answers} answers compared, {outcome.skipped} steps not sent, "
        f"{len(outcome.differences)} differences, {outcome.listed} listed ones, {seconds:.0f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
