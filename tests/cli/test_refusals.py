"""Whatever the command line refuses, it says in one line why, and in another one what to do next."""

from __future__ import annotations

import argparse
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from barnabas.cli import topics
from barnabas.cli.exits import Exit, next_step_of
from barnabas.cli.log.dump import Dumper
from barnabas.cli.main import NOUNS, main, overview
from barnabas.cli.typed.completion import words
from barnabas.cli.typed.usage import Parser, with_flags_last
from barnabas.errors import (
    BarnabasError,
    ConfigError,
    CorruptRecordError,
    ErrorCode,
    KafkaError,
    PortTakenError,
    StorageError,
)

ROOT = Path(__file__).parents[2]
NOBODY = "127.0.0.1:1"


def parser_of(noun: str) -> Parser:
    parser = Parser(prog=f"barnabas {noun}")
    import_module(NOUNS[noun][0]).add_arguments(parser)
    return parser


def verbs_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def every_command() -> Iterator[tuple[str, ...]]:
    """Each noun with each of its verbs, and nouns that have none."""
    for noun in NOUNS:
        verbs = verbs_of(parser_of(noun))
        yield from ((noun, verb) for verb in verbs) if verbs else [(noun,)]


def said(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """The reason and the next step of a refusal; there is nothing else."""
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert len(lines) == 2 and not out, (out, err)
    assert lines[0].startswith("error: ") and lines[1].startswith("  next: "), err
    assert "Traceback" not in err and len(lines[0]) > 12 and len(lines[1]) > 12
    return lines[0], lines[1]


@pytest.mark.parametrize("command", list(every_command()), ids=" ".join)
def test_a_flag_that_no_command_knows_is_refused_in_two_lines(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--no-such-flag"]) == Exit.USAGE
    said(capsys)


@pytest.mark.parametrize("noun", [n for n in NOUNS if verbs_of(parser_of(n))])
def test_a_verb_that_is_none_or_missing_is_refused_and_a_near_one_is_named(
    noun: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([noun, "frobnicate"]) == Exit.USAGE
    said(capsys)
    assert main([noun]) == Exit.USAGE
    said(capsys)
    verb = max(verbs_of(parser_of(noun)), key=len)
    assert main([noun, verb[:-2] + verb[-1]]) == Exit.USAGE
    assert verb in said(capsys)[1]


MISSPELT = {
    "pipeline run archive a:1/t /tmp/x --formt delta": ("pipeline run archive", "--formt", "--format"),
    "pipeline run archive --formt delta a:1/t /tmp/x": ("pipeline run archive", "--formt", "--format"),
    "pipeline run mirror a:1/t b:1 /x --source-confg=x": (
        "pipeline run mirror",
        "--source-confg",
        "--source-config",
    ),
    "topics create t --partitons 3": ("topics create", "--partitons", "--partitions"),
    "topics --jsno list": ("topics", "--jsno", "--json"),
    "consume t --form-beginning": ("consume", "--form-beginning", "--from-beginning"),
}


@pytest.mark.parametrize("line", MISSPELT)
def test_a_misspelt_flag_is_answered_with_the_near_one_of_the_same_command(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command, wrong, right = MISSPELT[line]
    assert main(line.split()) == Exit.USAGE
    assert said(capsys) == (
        f"error: `barnabas {command}` does not know {wrong}",
        f"  next: did you mean `{right}`?",
    )


def test_a_flag_of_another_verb_is_no_guess(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "list", "--partitons", "3"]) == Exit.USAGE
    assert said(capsys)[1] == "  next: `barnabas topics list --help` shows what it takes"


NOT_THERE = [
    "log dump /no/such/0.log",
    "log dump --files /no/such/0.log,/no/such/1.log",
    "log verify /no/such",
    "log compaction /no/such",
    "metadata shell -s /no/such",
    "start /no/such.properties",
    "storage info -c /no/such.properties",
    "storage format -t 5L6g3nShT-eMCtK--X86sw -c /no/such.properties",
    "quorum -c /no/such.properties add-controller",
    "quorum recover --config /no/such.properties",
    "quorum recover --from /no/such.json",
]


@pytest.mark.parametrize("line", NOT_THERE)
def test_a_file_that_is_not_there_is_code_4(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == Exit.NOT_FOUND
    assert "no such" in said(capsys)[0].lower().replace("/no/such", "no such")


ASKING = [
    "topics list",
    "groups list",
    "transactions list",
    "configs show topic orders",
    "telemetry list",
    "quotas list",
    "brokers list",
    "rebalance plan",
    "cluster id",
    "quorum describe --status",
    "quorum describe --detail",
    "quorum history",
    "quorum watch --count 1",
    "quorum reassign",
    "quorum reassign --target 4,5,6",
    "quorum replace --node 2",
    "quorum readmit --node 2",
    "quorum transfer-leadership",
    "features describe",
    "features upgrade --release-version 4.3",
    "consume orders --max 1",
]


@pytest.mark.parametrize("line", ASKING)
def test_where_nobody_listens_every_command_says_so_with_code_3(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main([*line.split(), "--bootstrap-server", NOBODY, "--timeout", "0.2"])
    assert code == Exit.UNREACHABLE, capsys.readouterr()
    assert NOBODY in said(capsys)[0]


SENSELESS = [
    "quorum describe",
    "quorum describe --status --detail",
    "quorum describe --status --human-readable",
    "quorum watch --interval 0",
    "quorum history --last -1",
    "quorum add-controller",
    "quorum remove-controller -i 1 -d notauuid",
    "quorum reassign --target 1,x",
    "quorum reassign --target 1 --cancel",
    "quorum reassign --wait",
    "quorum reassign --dry-run",
    "quorum transfer-leadership --to x",
    "quorum replace",
    "quorum describe --status -b 1.2.3.4:5 -C 1.2.3.4:5",
    "quorum recover",
    "quorum recover --voters 1",
    "features upgrade",
    "features upgrade -r 0.1",
    "features upgrade -f metadata.version",
    "features downgrade -f group.version=x",
    "log dump",
    "start --override nonsense",
    "start --override no.such.setting=1",
    "start --port x",
    "start --nodes 0",
    "storage format -t x",
    "completion tcsh",
    "cluster id -b nonsense",
    "topics create",
]


@pytest.mark.parametrize("line", SENSELESS)
def test_what_makes_no_sense_is_code_2(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == Exit.USAGE, capsys.readouterr()
    said(capsys)


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_refusal_of_a_server_has_a_next_step(code: ErrorCode) -> None:
    assert len(next_step_of(KafkaError(code, "x"), "topics")) > 12


@pytest.mark.parametrize(
    "error",
    [
        BarnabasError("x"),
        ConfigError("x"),
        StorageError("x"),
        CorruptRecordError("x"),
        PermissionError(13, "Permission denied", "/x"),
        FileNotFoundError(2, "No such file or directory", "/x"),
        OSError(28, "No space left on device"),
    ],
)
def test_every_error_has_a_next_step(error: Exception) -> None:
    assert len(next_step_of(error, "log")) > 8 and next_step_of(error)


def test_a_dump_whose_reader_has_gone_ends_quietly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(32, "Broken pipe")

    file = tmp_path / "00000000000000000000.log"
    file.write_bytes(bytes(100))
    monkeypatch.setattr("sys.stdout", Gone())
    with pytest.raises(BrokenPipeError):  # `main` ends quietly at that
        Dumper(sys.stdout, sys.stderr).dump(str(file))
    assert capsys.readouterr().err == ""


def test_the_overview_ends_quietly_where_its_reader_has_gone() -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "barnabas", "--help"],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


def test_flags_may_stand_before_the_noun_and_before_the_verb() -> None:
    assert with_flags_last(["--json", "-b", ":9", "topics", "list"], 1) == [
        "topics",
        "list",
        "--json",
        "-b",
        ":9",
    ]
    assert with_flags_last(["--timeout=1", "list", "--", "x"], 1) == ["list", "--timeout=1", "--", "x"]
    assert with_flags_last(["--what", "list"], 1) == ["--what", "list"]
    assert with_flags_last([], 1) == []


def test_completion_knows_nouns_verbs_and_flags() -> None:
    assert words([]) == list(NOUNS)
    assert {"list", "describe"} <= set(words(["topics"]))
    assert "--target" in words(["quorum", "reassign"]) and words(["nonsense"]) == []


# -- what documents and help type ------------------------------------------------------------------

_PLACES = re.compile(r"^\s*(?:\$ |# )?(?:[A-Z_]+=\S+ )*barnabas ((?:[a-z]|--).*)$")


def typed_in(text: str) -> Iterator[str]:
    """Lines that begin with `barnabas`, and what stands so in backticks."""
    for line in text.splitlines():
        if (found := _PLACES.match(line)) is not None:
            yield found[1]
        yield from (one for one in re.findall(r"`barnabas ([a-z][^`]*)`", line))


def commands() -> Iterator[tuple[str, str]]:
    for page in sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]):
        for line in typed_in(page.read_text()):
            yield page.name, line
    yield from (("--help", line) for line in typed_in(overview()))
    for noun in NOUNS:
        yield from (
            (f"{noun} --help", line) for line in typed_in(import_module(NOUNS[noun][0]).__doc__ or "")
        )


_ENDS = ("|", "&", "&&", "||", ">", ">>", ";")


def as_typed(line: str) -> list[str]:
    """The words of one command: without pipes, comments, examples' blanks."""
    line = re.split(r"\s{3,}", line)[0].rstrip("\\")
    line = re.sub(r"\$\(.*?\)", "x", line).replace("...", "").rstrip(".,:")
    tokens = shlex.split(line, comments=True)
    ends = [at for at, token in enumerate(tokens) if token in _ENDS or re.match(r"\([a-z]", token)]
    return tokens[: min(ends, default=len(tokens))]


UPPER = {"N": "2", "NAME": "x", "ID": "4", "HOST:PORT": "127.0.0.1:1", "NOUN": "topics", "VERB": "list"}


@pytest.mark.parametrize(("page", "line"), sorted(set(commands())), ids=lambda text: str(text)[:60])
def test_every_command_in_docs_and_help_is_one_that_the_parsers_take(
    page: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words_ = [UPPER.get(word, word) for word in as_typed(line)]
    words_ = with_flags_last(words_, 1)
    if not words_ or words_[0].startswith("-"):
        return
    noun = words_[0]
    assert noun in NOUNS, f"{page}: there is no `barnabas {noun}`"
    rest = with_flags_last(words_[1:], 1)
    verbs = verbs_of(parser_of(noun))
    flags = set(parser_of(noun)._option_string_actions)
    verb = next((word for word in rest if word in verbs), None)
    alternatives = [word for word in rest if "|" in word]
    if verb is not None:
        flags |= set(verbs[verb]._option_string_actions)
        if (noun, verb) == ("pipeline", "run"):
            return  # what follows is the job's own
    elif verbs and rest and not rest[0].startswith("-") and not alternatives:
        pytest.fail(f"{page}: `barnabas {noun}` has no {rest[0]!r}")
    unknown = [w for w in rest if w.startswith("--") and w.partition("=")[0] not in flags and w != "--"]
    near = [w for w in unknown if not any(flag.startswith(w) for flag in flags)]
    assert not near, f"{page}: `barnabas {line}` has flags that nobody knows: {near}"


def test_whoever_lacks_a_right_is_told_who_can_see_which() -> None:
    for code in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
        assert "`barnabas acls why`" in next_step_of(KafkaError(code), "consume")


@pytest.mark.parametrize(
    ("words", "option"), [(["--port", "9"], "--port"), ([], "--port"), (["{file}"], "in listeners")]
)
def test_a_taken_port_is_blamed_on_what_was_typed(
    words: list[str],
    option: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def taken(*_: object, **__: object) -> int:
        raise PortTakenError("CONTROLLER://127.0.0.1:10", 10)

    monkeypatch.setattr("barnabas.server.node.run.run", taken)
    file = tmp_path / "node.properties"
    file.write_text("node.id=1\nprocess.roles=broker,controller\n")
    assert main(["start", *(word.format(file=file) for word in words)]) == Exit.FAILED
    reason, next_step = said(capsys)
    assert reason == "error: CONTROLLER://127.0.0.1:10: port 10 is taken" and option in next_step


def every_parser(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for verb in verbs_of(parser).values():
        yield from every_parser(verb)


@pytest.mark.parametrize("noun", NOUNS)
def test_no_number_is_taken_without_bounds(noun: str) -> None:
    """Python's `int` and `float` take numbers that no field of a message holds, "nan" among them."""
    for parser in every_parser(parser_of(noun)):
        assert [action.dest for action in parser._actions if action.type in (int, float)] == [], parser.prog


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_a_coordinators_topic_grows_only_where_one_says_that_it_may_lose_what_it_finds(topic: str) -> None:
    line = f"topics grow {topic} --partitions 60"
    with pytest.raises(ConfigError, match=r"most .* belong to other partitions") as refused:
        run_topics(line)
    assert refused.value.next_step == f"if that is wanted: barnabas {line} --yes"
    assert run_topics(f"{line} --yes") == [(topic, 60)]
    assert run_topics("topics grow orders --partitions 60") == [("orders", 60)]


def run_topics(line: str) -> list[tuple[str, int]]:
    """What `topics grow` asks an administrator's client for."""
    asked: list[tuple[str, int]] = []
    admin = SimpleNamespace(add_partitions=lambda name, total: asked.append((name, total)))
    topics._grow(admin, parser_of("topics").parse_args(line.split()[1:]))
    return asked


OUT_OF_BOUNDS = {
    "topics grow t --partitions 99999999999": "give a whole number from 1 to 2147483647",
    "topics create t --replication-factor 32768": "give a whole number from -1 to 32767",
    "topics create t --partitions 1.5": "give a whole number from -1 to 2147483647",
    "quorum readmit --node 2147483648": "give a whole number from 0 to 2147483647",
    "transactions abort t 0 9223372036854775808": "give a whole number from 0 to 9223372036854775807",
    "transactions find-hanging --older nan": "give minutes from 0 to 2147483",
    "topics list --timeout nan": "give seconds from 0.001 to 2147483",
    "topics delete t --timeout 1e12": "give seconds from 0.001 to 2147483",
    "topics list --timeout -1": "give seconds from 0.001 to 2147483",
    "produce t --timestamp 9223372036854775808": "give a whole number from -1 to 9223372036854775807",
    "produce t --records -1": "give a whole number from 0 to 9223372036854775807",
    "produce t --records 1 --size 99999999999": "give a whole number from 0 to 2147483647",
    f"consume t --max {'9' * 5000}": "give a whole number from 0 to 9223372036854775807",
    "consume t --idle nan": "give seconds from 0.001 to 2147483",
    "topics reassign t --partition 0 --replicas 1,99999999999": "give node ids with commas, as 4,5,6",
    "quorum reassign --target 1,-2": "give node ids with commas, as 4,5,6",
    "rebalance plan --brokers 1,": "give node ids with commas, as 4,5,6",
}


@pytest.mark.parametrize("line", OUT_OF_BOUNDS, ids=lambda line: line[:60])
def test_a_number_that_no_message_can_carry_is_refused_with_what_can_be_typed(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*line.split(), "-b", NOBODY]) == Exit.USAGE
    assert said(capsys)[1] == f"  next: {OUT_OF_BOUNDS[line]}"


@pytest.mark.parametrize(
    "words",
    [
        ["consume", "t", "-g", ""],
        ["consume", ""],
        ["topics", "list", "--bootstrap-server="],
        ["topics", "reassign", "t", "--partition", "0", "--replicas", ""],
        ["quotas", "list", "--user", ""],
        ["quorum", "reassign", "--target", ""],
        ["produce", "t", "--key-separator", ""],
        ["produce", "t", "--header", ""],
    ],
    ids=" ".join,
)
def test_empty_text_that_means_nothing_is_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == Exit.USAGE
    reason, next_step = said(capsys)
    assert reason.endswith("is empty") and next_step == "  next: give it a value, or leave it out"


def test_empty_text_is_taken_where_it_means_something() -> None:
    assert parser_of("produce").parse_args(["t", "--key", "", "--null", ""]).key == ""
    assert parser_of("configs").parse_args(["show", "broker", ""]).name == ""
