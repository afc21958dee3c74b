"""What did not pass in JUnit's verbose report, a line each, and the counts: for apache-clients.sh."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

TEST = re.compile(
    r"uniqueId: .*\[class:([\w.$]+)\].*\[(?:test-template|method):(\w+)\(.*?\)\]"
    r"(?:/\[test-template-invocation:#(\d+)\])?"
)
STATUS = re.compile(r"status: . (\w+)")
REASON = re.compile(r"(?:caught|reason): (.*)")


def outcomes(report: str) -> list[tuple[str, str, str]]:
    """(status, Class.test#invocation, reason) of each test; ABORTED: the test says that it cannot run here."""
    found, name, reason, aborted = [], "", "", False
    for line in report.splitlines():
        if test := TEST.search(line):
            name, reason, aborted = f"{test[1].split('.')[-1]}.{test[2]}#{test[3] or 1}", "", False
        aborted = aborted or "TestAbortedException" in line
        if why := REASON.search(line):
            reason = why[1][:200]
        if (status := STATUS.search(line)) and name:
            found.append(("ABORTED" if aborted else status[1], name, reason))
            name = ""
    return found


if __name__ == "__main__":
    tests = outcomes(Path(sys.argv[1]).read_text(errors="replace"))
    for status, name, reason in tests:
        if status != "SUCCESSFUL":
            print(status, name, reason)
    count = Counter(status for status, _, _ in tests)
    print(
        f"PASSED {count['SUCCESSFUL']} FAILED {count['FAILED']} SKIPPED {count['ABORTED'] + count['SKIPPED']}"
    )
