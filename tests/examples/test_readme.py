"""What README.md shows runs as it stands there, addresses and names of topics aside."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from barnabas.testing import Cluster

README = (Path(__file__).parents[2] / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.+?)^```", README, re.MULTILINE | re.DOTALL)
OWN_TEST = """
def run_my_service(bootstrap):
    from barnabas import Producer

    with Producer(bootstrap) as producer:
        assert producer.send("orders", "o-1").result(timeout=60).offset == 0

"""


def test_producing_and_consuming(kafka: Cluster, topic: str) -> None:
    code = BLOCKS[0].replace("127.0.0.1:9092", kafka.bootstrap).replace("greetings", topic)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{number} hello {number}" for number in range(10)]


def test_a_broker_inside_a_test(tmp_path: Path) -> None:
    (tmp_path / "test_service.py").write_text(OWN_TEST + BLOCKS[2])
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, cwd=tmp_path)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr


def test_no_other_block_of_python_stands_there() -> None:
    """The one about PySpark runs in tests/pipeline/test_spark.py, which has a session."""
    assert len(BLOCKS) == 3 and "readStream" in BLOCKS[1]
