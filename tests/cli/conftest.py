"""What the tests of the command line share."""

from __future__ import annotations

import pytest
from tests.cli.shell import Shell

from barnabas.testing import Cluster


@pytest.fixture
def shell(kafka: Cluster, capsys: pytest.CaptureFixture[str]) -> Shell:
    """The command line against the node of the module, or of the session."""
    return Shell(kafka, capsys)
