"""`python -m tests.damage.matrix FILE...` adds up the runs of these files.  With --runs N it takes N seeds before.

    make damage N=300 SEED=1 NODES=3 RUNS=runs.jsonl    300 seeds; those that the file has already are not repeated
    make damage N=300 RUNS=apache.jsonl ARGS="--kind apache --spread 30"        30 of these seeds on Apache Kafka
    python -m tests.damage.matrix runs.jsonl            how often each value came, and what the runs came to
    python -m tests.damage.matrix runs.jsonl apache.jsonl --write       side by side, into docs/disks.md

Exit code 0: all runs of Barnabas are good.  1: some are not.  The data and logs of bad runs are kept.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from tests.damage.matrix.beside import write
from tests.damage.matrix.plan import row_of, spread
from tests.damage.matrix.run import KINDS, run
from tests.damage.matrix.tally import good, kept, lines
from tests.damage.matrix.verdict import AGAIN, BAD


def main() -> int:
    parser = argparse.ArgumentParser(prog="make damage", description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, help="files of runs; new ones are added to the first")
    parser.add_argument("--runs", type=int, default=0, help="seeds to take (0)")
    parser.add_argument("--seed", type=int, default=1, help="the first of them (1)")
    parser.add_argument("--nodes", type=int, default=3, choices=(1, 2, 3), help="nodes of the cluster (3)")
    parser.add_argument("--kind", default="barnabas", choices=KINDS, help="of the nodes (barnabas)")
    parser.add_argument("--spread", type=int, help="of the seeds only so many, of each value about as many")
    parser.add_argument("--write", action="store_true", help="put both kinds side by side into docs/disks.md")
    parser.add_argument("--again", action="store_true", help="also seeds that the files have already")
    parser.add_argument("--keep", action="store_true", help="keep the data and logs of good runs, too")
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # without byte code a node starts with twice the work
    known = set() if options.again else _known(options.files)
    seeds = range(options.seed, options.seed + options.runs)
    for seed in seeds if options.spread is None else spread(seeds, options.spread):
        if (options.kind, options.nodes, seed) not in known:
            _take(seed, options)
    runs = kept(options.files)
    print("\n".join(lines(runs)))
    if options.write:
        print(f"written: {write(runs)}")
    return 0 if good(runs) else 1


def _known(files: list[Path]) -> set[tuple[str, int, int]]:
    """Return the runs that need not be taken again."""
    return {(one["kind"], one["nodes"], one["seed"]) for one in kept(files) if one["verdict"] not in AGAIN}


def _take(seed: int, options: argparse.Namespace) -> None:
    """Run one seed and append its line to the first file."""
    kind, nodes = options.kind, options.nodes
    print(f"seed {seed}, {nodes} nodes of {kind}: {row_of(seed)}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix=f"barnabas-matrix-{nodes}-{seed}-"))
    found = None
    try:
        found = run(seed, nodes, folder, kind)
        with options.files[0].open("a") as kept_:
            kept_.write(json.dumps(found) + "\n")
        told = ", ".join(f"{count} x {event}" for event, count in found["told"].items()) or "nothing"
        print(
            f"  {found['verdict']}: {found['path']} of node {found['victim']}; acknowledged "
            f"{found['acknowledged']}, lost {found['lost']}, served {found['served_before']} + "
            f"{found['served_after']}; in sync after {found['healed_s']} s; told: {told}; "
            f"{found['seconds']} s{found['failed'] and '; ' + found['failed']}",
            flush=True,
        )
    finally:
        if found is None or options.keep or found["verdict"] in BAD:
            print(f"  data and logs: {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
