"""Properties files, read as Java reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.security import jaas, properties

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def _written(text: str) -> str:
    """Write as `Properties.store` does: everything that could mean something is escaped, the rest of Unicode as \\uXXXX."""
    parts = []
    for one in text:
        units = one.encode("utf-16-be")
        if one in " \\=:#!":
            parts.append("\\" + one)
        elif one.isascii() and one.isprintable():
            parts.append(one)
        else:
            parts += [f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2)]
    return "".join(parts)


@given(
    st.dictionaries(TEXT.filter(bool), TEXT), st.sampled_from(["=", ":", " ", " = ", "\t:\f"]), st.sampled_from(["\n", "\r\n"])
)
def test_what_java_writes_is_read(words: dict[str, str], between: str, end: str) -> None:
    text = "".join(f"{_written(name)}{between}{_written(value)}{end}" for name, value in words.items())
    assert {name: value for name, (value, _) in properties.parse(text).items()} == words


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_with_its_line(text: str) -> None:
    refused_line = None
    try:
        properties.parse(text)
    except properties.BadProperties as error:
        refused_line = error.line
    assert refused_line is None or 1 <= refused_line <= text.count("\n") + text.count("\r") + 1


def test_the_examples_of_javas_documentation() -> None:
    text = "Truth = Beauty\n Truth2:Beauty\nTruth3   :Beauty\nfruits   apple, banana, \\\n   cantaloupe\ncheeses\n# c\n! d\n"
    found = {name: value for name, (value, _) in properties.parse(text).items()}
    assert found == {
        "Truth": "Beauty",
        "Truth2": "Beauty",
        "Truth3": "Beauty",
        "fruits": "apple, banana, cantaloupe",
        "cheeses": "",
    }


def test_a_name_with_two_values_is_refused_and_neither_is_shown() -> None:
    with pytest.raises(properties.BadProperties, match="line 1") as refused:
        properties.parse("sasl.password=one\nsasl.password=two\n")
    assert "two" not in str(refused.value)


def test_kafkas_own_login_modules_are_read() -> None:
    text = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a\\"b" password=\'c;=d\' ;'
    assert jaas.parse(text) == ("PlainLoginModule", {"username": 'a"b', "password": "c;=d"})


@given(st.text(alphabet="abcPlainLoginModule required=;\"'\\", max_size=80))
def test_any_jaas_text_is_read_or_refused(text: str) -> None:
    try:
        jaas.parse(text)
    except jaas.BadJaas:
        pass


def test_a_secret_is_not_in_the_refusal_of_a_jaas_text() -> None:
    for text in (
        'x.PlainLoginModule required username="u" password "hunter2";',
        'x.PlainLoginModule required username="u" password="hunter2"',
        'x.PlainLoginModule required username="u" password="hunter2;',
        'x.PlainLoginModule required "hunter2"="u";',
    ):
        with pytest.raises(jaas.BadJaas) as refused:
            jaas.parse(text)
        assert "hunter2" not in str(refused.value)
