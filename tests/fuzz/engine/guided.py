"""The process that atheris runs in: `python -m tests.fuzz.engine.guided TARGET SECONDS SEED FOLDER REPORT`.

Findings do not end it: they are written down, one of each kind, and the search goes on.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import atheris

PATIENCE = 8
"""Code that counts its coverage takes so many times as long, at worst; the parent judges again without."""
LOOK_EVERY = 256


def main() -> None:
    name, seconds, seed, folder, report = sys.argv[1:6]
    with atheris.instrument_imports(include=["barnabas"]):
        from tests.fuzz.engine.target import Judge
        from tests.fuzz.targets import target_of

        _instrument_codec()
        target = target_of(name)
        judge = Judge(target, PATIENCE)
    findings: dict[str, list[str]] = {}
    runs, until = 0, time.process_time() + float(seconds)

    def one(data: bytes) -> None:
        nonlocal runs
        runs += 1
        finding, _ = judge.look(data)
        if finding is not None and finding.key not in findings and len(findings) < 40:
            findings[finding.key] = [finding.kind, finding.key, finding.text, data.hex()]
        if runs % LOOK_EVERY == 0 and time.process_time() > until:
            found = {"runs": runs, "findings": list(findings.values())}
            Path(report).write_text(json.dumps(found))
            words.unlink(missing_ok=True)
            sys.stderr.flush()
            os._exit(0)

    words = Path(report + ".words")
    words.write_text("".join(f'"{_quoted(word)}"\n' for word in target.words))
    options = [f"-seed={int(seed) + 1}", f"-max_len={target.longest}", "-timeout=120", "-rss_limit_mb=2048"]
    if target.words:
        options.append(f"-dict={words}")
    atheris.Setup([sys.argv[0], *options, folder], one)
    atheris.Fuzz()


def _instrument_codec() -> None:
    """Readers and writers of messages are generated when they are first needed: count in them too."""
    from barnabas.wire.codec import reader, writer

    for module in (reader, writer):
        compiled = module.compile_source
        module.compile_source = lambda *given, compiled=compiled: atheris.instrument_func(compiled(*given))


def _quoted(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


if __name__ == "__main__":
    main()
