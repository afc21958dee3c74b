"""`make chaos SEED=7`: a cluster of real processes under traffic, through faults drawn by a seed.

Exit code 0: everything acknowledged is there once, in order, and nothing was refused.  1: it is not, and
the data and logs are kept.  Whatever happens is told as it happens.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from tests.chaos.story import Report, document, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, help="which story (default: a new one, which is told)")
    parser.add_argument("--faults", type=int, default=60, help="how many (60)")
    parser.add_argument("--nodes", type=int, default=0, choices=(0, 3, 4, 5), help="3 to 5 (drawn)")
    parser.add_argument("--no-java", action="store_true", help="only librdkafka's traffic")
    parser.add_argument("--json", action="store_true", help="the verdict as one JSON document")
    parser.add_argument("--keep", action="store_true", help="keep data and logs")
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    seed = random.SystemRandom().randrange(1, 10**6) if options.seed is None else options.seed
    folder = Path(tempfile.mkdtemp(prefix=f"barnabas-chaos-{seed}-"))
    log = sys.stderr if options.json else sys.stdout
    report: Report | None = None
    try:
        report = run(
            seed,
            options.faults,
            folder,
            lambda line: print(line, file=log, flush=True),
            java=not options.no_java,
            nodes=options.nodes,
        )
        if options.json:
            print(json.dumps(document(report)))
        else:
            tell(report)
        return 0 if report.ok else 1
    except KeyboardInterrupt:
        print("interrupted; everything that was started is ended", file=sys.stderr)
        return 130
    finally:
        if options.keep or report is None or not report.ok:
            print(f"data and logs: {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def tell(report: Report) -> None:
    """The verdict, for people."""
    print(f"\nseed {report.seed}: {sum(report.faults.values())} faults in {report.seconds:.0f} s")
    for kind, count in sorted(report.faults.items(), key=lambda item: -item[1]):
        print(f"  {count:3} x {kind}")
    print(
        f"acknowledged {report.acknowledged:,} of {report.sent:,} sent, read {report.read:,}: lost {report.lost}, "
        f"twice {report.twice}, reordered {report.reordered}, refused {report.failed}, "
        f"longest gap {report.longest_gap:.1f} s; longest sync of this disk {report.longest_sync:.1f} s"
    )
    print(
        f"copied in transactions by a KIP-848 group: {report.copied:,}; aborted {report.aborted} transactions, "
        f"began anew {report.renewed} times ({report.stuck} because librdkafka was stuck)"
    )
    for line in (*([report.problem] if report.problem else []), *report.anomalies):
        print(f"  {line}")
    proven = "PROVEN: nothing acknowledged is lost, twice or out of order, and the copy is exact"
    print(proven if report.ok else "NOT PROVEN")


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # librdkafka may wait for ever where it frees a consumer (`copying.SILENT_S`)
