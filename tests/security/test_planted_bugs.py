"""Bugs planted in logins, tokens, TLS, limits, secrets and the console: the test that each names notices it."""

from __future__ import annotations

import contextlib
import io
from collections import defaultdict

import pytest
from _pytest.runner import runtestprotocol
from tests.security.planted import PLANTED

from barnabas.sim.kernel.mutants import applied

pytest.importorskip("joserfc")
pytest.importorskip("cryptography")


class Planter:
    """Collects the tests that bugs name, once, and runs each of them without its bug and with it."""

    def __init__(self) -> None:
        self.missing: list[str] = []
        self.fails_anyway: list[str] = []
        self.unnoticed: list[str] = []
        self.noticed = 0

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        tests: dict[str, list[pytest.Item]] = defaultdict(list)
        for item in session.items:
            tests[item.nodeid.partition("[")[0]].append(item)
        healthy = {name: not self._fails(items) for name, items in tests.items()}
        for bug in PLANTED:
            if bug.guard not in tests:
                self.missing.append(bug.guard)
            elif not healthy[bug.guard]:
                self.fails_anyway.append(bug.guard)
            else:
                with applied(bug):
                    if self._fails(tests[bug.guard]):
                        self.noticed += 1
                    else:
                        self.unnoticed.append(f"{bug.name}: {bug.says}")
        return True

    def _fails(self, items: list[pytest.Item]) -> bool:
        """Whether one of them fails; nothing of it stays behind."""
        for item, following in zip(items, [*items[1:], None], strict=True):
            if any(report.failed for report in runtestprotocol(item, log=False, nextitem=following)):
                item.session._setupstate.teardown_exact(None)
                return True
        return False


def test_each_bug_is_noticed_by_the_test_that_it_names() -> None:
    planter = Planter()
    names = list(dict.fromkeys(bug.guard for bug in PLANTED))
    quiet = ("-p", "no:cacheprovider", "-p", "no:xdist")
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = pytest.main([*quiet, *names], plugins=[planter])
    assert code is pytest.ExitCode.OK, said.getvalue()
    assert (planter.missing, planter.fails_anyway, planter.unnoticed) == ([], [], [])
    assert planter.noticed == len(PLANTED) >= 57
