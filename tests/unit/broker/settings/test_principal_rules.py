"""`ssl.principal.mapping.rules`: the examples of Kafka's documentation (KIP-371) and of its own tests, and properties."""

import re

import pytest
from hypothesis import given, strategies

from headrace.broker.settings.principal_rules import BadRules, NoRuleMatches, PrincipalRules

OF_THE_MANUAL = (
    r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,DEFAULT"
)
NAMES = strategies.text(strategies.characters(codec="utf-8", exclude_characters="\n"), min_size=1, max_size=60)


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        # Kafka's manual
        (OF_THE_MANUAL, "CN=serviceuser,OU=ServiceUsers,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "serviceuser"),
        (OF_THE_MANUAL, "CN=adminUser,OU=Admin,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "adminuser@admin"),
        (OF_THE_MANUAL, "OU=x,cn=Duke", "duke"),
        (OF_THE_MANUAL, "OU=JavaSoft", "OU=JavaSoft"),
        # Kafka's SslPrincipalMapperTest
        ("DEFAULT", "CN=Duke,O=Sun,C=US", "CN=Duke,O=Sun,C=US"),
        (r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/, DEFAULT", "CN=Duke,OU=ServiceUsers,O=Org,C=US", "Duke"),
        (r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$2/L", "CN=duke,OU=SME,O=mycp,C=IN", "duke@sme"),
        (r"RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U", "cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        (r"RULE:^CN=([^,]+).*$/$1\/prod/", "CN=a,O=b", "a/prod"),
        (r"RULE:^CN=(.*)\/(.*)$/$2/", "CN=a/b", "b"),
        (r"RULE:^CN=x$/\$1/,DEFAULT", "CN=x", "$1"),
    ],
)
def test_a_subject_gives_the_principal_of_kafkas_documentation(rules: str, subject: str, name: str) -> None:
    assert PrincipalRules.parse(rules).name_of(subject) == name


@pytest.mark.parametrize(
    ("rules", "fault"),
    [
        ("", "neither RULE"),
        ("default", "neither RULE"),
        ("DEFAULT/L", "a comma is missing"),
        ("DEFAULT/", "a comma is missing"),
        ("RULE:CN=(.*?),OU=ServiceUsers.*/$1", "neither RULE"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/U/L", "a comma is missing"),
        ("RULE:^CN=(.*?)$/$1/LU", "a comma is missing"),
        ("RULE:^CN=(.*?)$/$1/,", "neither RULE"),
        ("RULE:^CN=(.*$/$1/", "is not a pattern"),
        ("RULE:^CN=(.*)$/$2/", "has no group 2"),
        ("DEFAULT," * 2_000 + "DEFAULT", "more than 10000"),
    ],
)
def test_rules_that_cannot_be_read_are_refused(rules: str, fault: str) -> None:
    with pytest.raises(BadRules, match=re.escape(fault)):
        PrincipalRules.parse(rules)


def test_a_subject_that_no_rule_matches_is_refused() -> None:
    with pytest.raises(NoRuleMatches, match="O=x"):
        PrincipalRules.parse("RULE:^CN=(.*)$/$1/").name_of("O=x")


@given(NAMES)
def test_default_takes_each_name_as_it_is(name: str) -> None:
    assert PrincipalRules.parse("DEFAULT").name_of(name) == name


@given(NAMES, strategies.sampled_from(["", "L", "U"]))
def test_a_rule_for_everything_gives_the_name_in_the_wanted_case(name: str, case: str) -> None:
    expected = {"": name, "L": name.lower(), "U": name.upper()}[case]
    assert PrincipalRules.parse(f"RULE:^(.*)$/$1/{case},DEFAULT").name_of(name) == expected


@given(strategies.text("RULE:^$/()1LU,.*DEFAULT\\ ", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        PrincipalRules.parse(text)
    except BadRules:
        pass
