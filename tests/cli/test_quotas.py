"""`barnabas quotas`, word for word, against a real node."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.cli.shell import Shell

from barnabas.testing import Cluster


@pytest.fixture(scope="module")
def kafka() -> Iterator[Cluster]:
    """A node for this module alone: its quotas are listed."""
    with Cluster() as cluster:
        yield cluster


def test_quotas_are_set_listed_and_deleted(shell: Shell) -> None:
    assert (
        shell("quotas set --user alice --client-id etl producer_byte_rate=1e6 request_percentage=12.5") == 0
    )
    assert shell.out == "Changed the quotas of user alice, client-id etl.\n"
    assert shell("quotas set --default-ip connection_creation_rate=2000") == 0
    assert shell("quotas list") == 0
    assert shell.out.splitlines() == [
        "ENTITY                     QUOTA                     PER-SECOND",
        "user alice, client-id etl  producer_byte_rate           1000000",
        "user alice, client-id etl  request_percentage              12.5",
        "ip (default)               connection_creation_rate        2000",
    ]
    assert shell("quotas list --default-user") == 0
    assert len(shell.out.splitlines()) == 1
    assert shell("quotas delete --user alice --client-id etl producer_byte_rate request_percentage") == 0
    assert shell.document("quotas list")["quotas"] == [
        {"entity": {"ip": None}, "quotas": {"connection_creation_rate": 2000.0}}
    ]


def test_a_dry_run_sets_nothing(shell: Shell) -> None:
    assert shell("quotas set --user bob producer_byte_rate=1 --dry-run") == 0
    assert shell.out == "Could change the quotas of user bob.\n"
    assert shell.document("quotas list --user bob")["quotas"] == []


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("quotas set producer_byte_rate=1", 2),
        ("quotas set --user bob producer_byte_rate", 2),
        ("quotas set --user bob --default-user producer_byte_rate=1", 2),
        ("quotas set --user bob nonsense=1", 1),
        ("quotas set --ip nowhere connection_creation_rate=1", 1),
    ],
)
def test_a_quota_that_means_nothing_is_refused(shell: Shell, line: str, code: int) -> None:
    assert shell(line) == code
