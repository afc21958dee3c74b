"""Values that stand elsewhere: which are found, and which stay what they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from barnabas.cli.controllers import read_properties
from barnabas.cli.start import load_config
from barnabas.cli.typed.properties import with_values
from barnabas.config import Config
from barnabas.errors import ConfigError
from barnabas.settings.secrets import holds_secret

KAFKAS = "org.apache.kafka.common.config.provider."


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "secrets.properties").write_text("pw=from-file\nhost=other:9\nagain=${env:HELD}\n")
    (tmp_path / "mounted").mkdir()
    (tmp_path / "mounted" / "pw").write_text("from-directory\n")
    (tmp_path / "outside").write_text("outside")
    monkeypatch.setenv("HELD", "from-env")
    return tmp_path


def value(text: str, folder: Path, **more: str) -> str:
    more = {name.replace("__", "."): word for name, word in more.items()}
    return with_values({"x": text.replace("DIR", str(folder)), **more})["x"]


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("${env:HELD}", "from-env"),
        ("${file:DIR/secrets.properties:pw}", "from-file"),
        ("${directory:DIR/mounted:pw}", "from-directory"),
        ('required username="${env:HELD}" password="${file:DIR/secrets.properties:pw}";',
         'required username="from-env" password="from-file";'),
        ("${file:DIR/secrets.properties:again}", "${env:HELD}"),
        ("${vault:a:b} ${env} $HELD ${HELD}", "${vault:a:b} ${env} $HELD ${HELD}"),
        ("plain", "plain"),
    ],
)  # fmt: skip
def test_a_reference_becomes_its_value_once(text: str, becomes: str, folder: Path) -> None:
    assert value(text, folder) == becomes


@pytest.mark.parametrize(
    ("text", "says", "helps"),
    [
        ("${env:MISSING}", "environment has no MISSING", "export MISSING"),
        ("${env:}", "names nothing", "write ${env:NAME}"),
        ("${file:DIR/none:pw}", "cannot read", "check the path"),
        ("${file:DIR/secrets.properties:absent}", "has no absent", "add a line absent="),
        ("${file:pw}", "names no path", "with the path before the key"),
        ("${directory:DIR/mounted:../outside}", "no file of that directory", "without its path"),
        ("${directory:DIR/mounted:..}", "no file of that directory", "without its path"),
        ("${directory:DIR:mounted}", "cannot read", "check the path"),
        ("${directory:/dev:zero}", "larger than 1 MiB", "check the path"),
    ],
)
def test_a_missing_one_is_named_with_what_helps(text: str, says: str, helps: str, folder: Path) -> None:
    with pytest.raises(ConfigError) as error:
        value(text, folder)
    assert says in str(error.value) and str(error.value).startswith("x: ${")
    assert helps in (error.value.next_step or "")


def test_kafkas_lines_declare_other_names_and_narrow_what_may_be_read(folder: Path) -> None:
    lines = {
        "config__providers": "safe,dir,vars",
        "config__providers__safe__class": f"{KAFKAS}FileConfigProvider",
        "config__providers__safe__param__allowed__paths": f"{folder}/mounted,{folder}/secrets.properties",
        "config__providers__dir__class": f"{KAFKAS}DirectoryConfigProvider",
        "config__providers__dir__param__allowed__paths": f"{folder}/mounted",
        "config__providers__vars__class": f"{KAFKAS}EnvVarConfigProvider",
        "config__providers__vars__param__allowlist__pattern": "HE.*",
    }
    assert value("${safe:DIR/secrets.properties:pw} ${vars:HELD}", folder, **lines) == "from-file from-env"
    os.symlink(folder / "outside", folder / "mounted" / "link")
    for text in ("${safe:DIR/outside:pw}", "${safe:DIR/mounted/../outside:pw}", "${dir:DIR/mounted:link}"):
        with pytest.raises(ConfigError, match=r"not within allowed\.paths"):
            value(text, folder, **lines)
    with pytest.raises(ConfigError, match=r"does not fit allowlist\.pattern"):
        value("${vars:PATH}", folder, **lines)
    assert with_values({name.replace("__", "."): text for name, text in lines.items()}) == {}


@pytest.mark.parametrize("named", ["com.example.Vault", ""])
def test_no_other_class_is_loaded(named: str, folder: Path) -> None:
    with pytest.raises(ConfigError, match="no class is loaded"):
        value("x", folder, config__providers="v", config__providers__v__class=named)


def test_a_nodes_file_and_a_clients_file_may_refer_elsewhere(folder: Path) -> None:
    file = folder / "node.properties"
    file.write_text("ssl.key.password=${env:HELD}\nlog.dirs=/tmp/x\n")
    assert load_config(str(file))["ssl.key.password"] == "from-env"
    overridden = load_config(str(file), ["ssl.key.password=${directory:" + f"{folder}/mounted:pw" + "}"])
    assert overridden["ssl.key.password"] == "from-directory"
    file.write_text("sasl.password=${env:HELD}\n")
    assert read_properties(str(file)) == {"sasl.password": "from-env"}


def test_cve_2024_31141_what_comes_over_the_network_refers_to_nothing(folder: Path) -> None:
    """Config.load and with_changes are what a node does with settings that somebody has altered."""
    text = "User:${env:HELD};User:${file:" + f"{folder}/secrets.properties" + ":pw}"
    config = Config.load({"super.users": text})
    assert config.str("super.users") == text
    assert Config.load({}).with_changes({"super.users": text}).str("super.users") == text


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("ssl.key.password", True),
        ("listener.name.clients.ssl.keystore.key", True),
        ("listener.name.clients.plain.sasl.jaas.config", True),
        ("delegation.token.secret.key", True),
        ("sasl.oauthbearer.client.credentials.client.secret", True),
        ("ssl.keystore.location", False),
        ("log.dirs", False),
    ],
)
def test_settings_with_secrets_are_known_by_name(name: str, secret: bool) -> None:
    assert holds_secret(name) is secret
