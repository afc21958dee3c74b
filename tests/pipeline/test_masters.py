"""A master on other machines: which address is ours there, and what is said where workers cannot run tasks."""

from __future__ import annotations

import socket

import pytest

from barnabas.errors import BarnabasError, ConfigError
from barnabas.pipeline.masters import (
    Probed,
    check_master,
    check_probed,
    complaint,
    is_local,
    own_address,
)
from barnabas.version import __version__


def test_only_masters_whose_name_begins_with_local_are_on_this_machine() -> None:
    assert is_local("local") and is_local("local[*]") and not is_local("spark://localhost:7077")


def test_the_driver_is_found_where_the_way_to_the_master_begins() -> None:
    assert own_address("spark://127.0.0.1:7077") == "127.0.0.1"
    assert own_address("spark://no-such-host.invalid:7077,127.0.0.1:7077") == "127.0.0.1"
    socket.inet_aton(own_address("yarn"))


def test_a_master_that_does_not_answer_is_named_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        check_master(f"spark://127.0.0.1:{port}")
    with pytest.raises(
        BarnabasError, match=rf"no Spark master answers: 127\.0\.0\.1:{port}: Connection refused"
    ):
        check_master(f"spark://127.0.0.1:{port}")
    check_master("yarn")
    for wrong in ("spark://host", "spark://", "spark://host:many"):
        with pytest.raises(ConfigError, match="is no address of a master"):
            check_master(wrong)


def test_a_master_of_no_kind_that_spark_knows_is_refused() -> None:
    for right in ("local", "local[4]", "local[*]", "local[2,4]", "local[*, 3]", "local-cluster[2,1,1024]"):
        check_master(right)
    for right in ("yarn", "k8s://https://host:6443"):
        check_master(right)
    for wrong in (
        "sparc://x",
        "",
        "lokal[*]",
        "local[x]",
        "local[2",
        "localhost:7077",
        "yarn-client",
        "k8s://",
    ):
        with pytest.raises(ConfigError, match="is no master that Spark knows") as caught:
            check_master(wrong)
        assert "spark://HOST:7077" in (caught.value.next_step or "")


def test_a_worker_needs_the_package_in_the_drivers_release() -> None:
    check_probed(Probed("there", "/usr/bin/python3", __version__))
    with pytest.raises(
        BarnabasError, match=r"worker on there \(/usr/bin/python3\) cannot run tasks: No module"
    ):
        check_probed(Probed("there", "/usr/bin/python3", "", "No module named 'pyarrow'"))
    with pytest.raises(BarnabasError, match=r"has Barnabas 0.0.1, the driver"):
        check_probed(Probed("there", "python3", "0.0.1"))


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ('Caused by: java.io.IOException: Cannot run program "/x/python": error=2', "have no /x/python"),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in driver: 3.11, "
            "PySpark cannot run",
            "have Python 3.12, the driver 3.11",
        ),
        ("\nJob aborted\n at ...", "cannot run Python: Job aborted"),
    ],
)
def test_workers_that_cannot_start_python_are_explained_in_one_line(said: str, expected: str) -> None:
    assert expected in str(complaint(said))
    assert "\n" not in str(complaint(said)).replace("\nnext:", "")
