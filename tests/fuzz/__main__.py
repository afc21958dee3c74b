"""`make fuzz`: bytes that nobody would send, at every door that bytes come in by.

    make fuzz                                        each target for a minute of processor time, then the node
    make fuzz ARGS="--target sasl --minutes 15"      one of them
    make fuzz ARGS=--short                           all but the node, a second each: what CI runs
    make fuzz SEED=1 FRAMES=300000                   the node: frames against a process, beside a good client
    make fuzz ARGS="--target sasl --input FILE"      one input again, with its traceback
    make fuzz ARGS=--ledger                          what ran so far

Exit code 0: no finding.  1: the report says which, and where its input lies.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.fuzz.engine import corpus
from tests.fuzz.engine.ledger import Ledger, code_hash
from tests.fuzz.engine.runs import HAS_ATHERIS, Run, guided, plain, replay, save
from tests.fuzz.engine.target import Judge
from tests.fuzz.targets import NAMES, target_of

NODE = "node"
SHORT_S, SHORT_RUNS = 0.4, 2000


def main() -> int:
    options = _options()
    if options.ledger:
        return _show_ledger()
    names = options.target or ([*NAMES] if options.short or options.replay else [*NAMES, NODE])
    if options.input:
        return _again(names[0], options.input)
    if not HAS_ATHERIS and not (options.short or options.replay):
        print("atheris is not installed (pip install -e .[fuzz]): our own mutator runs, without coverage")
    failed = 0
    for name in names:
        if name == NODE:
            from tests.fuzz.node import main as fuzz_node

            failed |= fuzz_node(options.seed, options.frames, as_json=options.json, untimed=options.untimed)
            continue
        run = _one(name, options)
        failed |= bool(run.findings)
    return int(failed)


def _options() -> argparse.Namespace:
    about, _, examples = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="make fuzz",
        description=about,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--target", action="append", choices=[*NAMES, NODE], help="which one; may be given again (all)")
    add("--minutes", type=float, default=1.0, help="processor time for each (1)")
    add("--short", action="store_true", help="kept inputs and a second of new ones, for each but the node")
    add("--replay", action="store_true", help="the kept inputs, nothing new")
    add("--seed", type=int, default=1, help="which inputs (1)")
    add("--plain", action="store_true", help="our own mutator, also where atheris is")
    add("--keep", action="store_true", help="write the inputs that reach new lines into tests/fuzz/corpus")
    add("--no-ledger", action="store_true", help="do not write the run into tests/fuzz/ledger.jsonl")
    add("--ledger", action="store_true", help="show what ran so far")
    add("--input", type=Path, help="one input again, from a file")
    add("--frames", type=int, default=300_000, help="node: how many frames (300,000)")
    add("--json", action="store_true", help="node: the report as one JSON document")
    add("--untimed", action="store_true", help="node: the machine is busy, no verdict about waiting")
    return parser.parse_args()


def _one(name: str, options: argparse.Namespace) -> Run:
    target = target_of(name)
    if options.short or options.replay:
        judge = Judge(target)
        run = replay(judge)
        if options.short:
            run.add(plain(judge, SHORT_S, options.seed, SHORT_RUNS))
    else:
        code = code_hash()
        if HAS_ATHERIS and not options.plain:
            run = guided(target, options.minutes * 60, options.seed, lambda status: None)
        else:
            run = plain(Judge(target), options.minutes * 60, options.seed)
        if not options.no_ledger:
            Ledger().add(run, code)
    _tell(run)
    if options.keep:
        _keep(name)
    return run


def _tell(run: Run) -> None:
    verdict = f"{len(run.findings)} FINDINGS" if run.findings else "passed"
    print(
        f"{run.target:<14} {run.how:<7} {run.cpu_s:6.1f} s cpu  {run.runs:>10,} runs  "
        f"coverage {run.coverage:>5}  corpus {run.corpus:>5}  {verdict}",
        flush=True,
    )
    folder = Path(tempfile.gettempdir()) / "barnabas-fuzz-findings"
    for finding in run.findings:
        path = save(finding, folder)
        print(f"  {finding.kind}: {finding.key}\n    input: {path}")
        print(
            "".join(f"    {line}\n" for line in finding.text.rstrip().splitlines()[-6:]), end="", flush=True
        )


def _keep(name: str) -> None:
    judge = Judge(target_of(name))
    inputs = {*corpus.kept(name), *corpus.worked(name)}
    found = corpus.minimized(inputs, judge.look)
    print(f"{name:<14} kept {corpus.keep(name, found)} inputs of {len(inputs)}")


def _again(name: str, path: Path) -> int:
    finding, seen = Judge(target_of(name)).look(path.read_bytes())
    print(f"seen: {seen}")
    if finding is not None:
        print(finding.text)
    return int(finding is not None)


def _show_ledger() -> int:
    ledger = Ledger()
    runs: dict[str, int] = {}
    found: dict[str, set[str]] = {}
    for row in ledger.rows():
        runs[row["target"]] = runs.get(row["target"], 0) + row["runs"]
        found.setdefault(row["target"], set()).update(row["findings"])
    print(f"{'target':<14} {'cpu min':>8} {'runs':>12}  findings, with any code")
    for name, minutes in ledger.minutes().items():
        print(f"{name:<14} {minutes:>8.1f} {runs[name]:>12,}  {len(found[name])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
