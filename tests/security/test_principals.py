"""`ssl.principal.mapping.rules`: which user a certificate is."""

from __future__ import annotations

import pytest

from barnabas.errors import ConfigError
from barnabas.security.principal import PrincipalRules

DUKE = "CN=Duke,OU=ServiceUsers,O=Unknown,L=Unknown,ST=Unknown,C=Unknown"
KAFKAS = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,"
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U,"
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U"
)
"""From Apache Kafka's SslPrincipalMapperTest."""


@pytest.mark.parametrize(
    ("name", "user"),
    [
        (DUKE, "Duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        ("OU=JavaSoft", None),
    ],
)
def test_the_first_rule_that_fits_is_used(name: str, user: str | None) -> None:
    assert PrincipalRules.parse(KAFKAS).name_of(name) == user


def test_a_rule_fits_a_whole_name_or_not_at_all() -> None:
    rules = PrincipalRules.parse("RULE:CN=admin/root/")
    assert rules.name_of("CN=admin") == "root"
    assert rules.name_of("CN=admin,O=Somebody") is None and rules.name_of("O=CN=admin") is None


def test_without_rules_the_user_is_the_whole_name() -> None:
    assert PrincipalRules.parse("DEFAULT").name_of(DUKE) == DUKE


def test_commas_and_slashes_inside_a_rule_belong_to_it() -> None:
    rules = PrincipalRules.parse(r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT")
    assert rules.name_of(r"CN=Duke\, Inc,O=x") == r"Duke\, Inc"
    assert PrincipalRules.parse(r"RULE:^CN=(.*)\/x$/a\/$1/").name_of("CN=b/x") == "a/b"


def test_a_dollar_before_a_number_that_is_no_group_stays() -> None:
    assert PrincipalRules.parse("RULE:^CN=(.*)$/$1$9/").name_of("CN=a") == "a$9"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("RULE:^CN=(.*)$", "is no rule"),
        ("default", "is no rule"),
        ("RULE:^CN=(.*)$/$1/X", "is no rule"),
        ("RULE:^CN=(?=x)$/x/", "cannot be used"),
        ("RULE:^CN=(.*$/x/", "cannot be used"),
        ("RULE:^CN=.*$/$1/", "there is no group"),
        ("RULE:^CN=.*$/$x/", "is followed by no number"),
    ],
)
def test_a_rule_that_cannot_be_meant_is_refused_with_what_is_right(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        PrincipalRules.parse(text)


def test_a_pattern_that_would_take_for_ever_does_not() -> None:
    rules = PrincipalRules.parse("RULE:^CN=(a+)+$/x/,DEFAULT")
    assert rules.name_of("CN=" + "a" * 5000 + "!") is not None
