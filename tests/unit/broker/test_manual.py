"""The tables of the broker's manual are the code's."""

import re
from pathlib import Path

from headrace.broker import manual
from headrace.broker.settings.broker_settings import known_names
from headrace.broker.settings.definitions import NUMBERS, WORDS

DOCS = Path(__file__).parents[3] / "docs"


def test_every_table_of_the_manual_is_as_the_code_has_it() -> None:
    text = (DOCS / "BROKER.md").read_text()
    for name, table in manual.tables().items():
        assert f"<!-- {name} -->\n{table}\n<!-- end -->" in text, f"{name}: run `python -m headrace.broker.manual docs/BROKER.md`"
    assert manual.filled(text) == text


def test_every_setting_stands_in_one_of_the_tables() -> None:
    tables = manual.tables()
    shown = set(re.findall(r"`([a-z.]+)`", tables["settings"] + tables["topic settings"]))
    assert set(known_names()) <= shown
    assert {*NUMBERS, *WORDS} == set(re.findall(r"^\| `([a-z.]+)` ", tables["settings"], re.MULTILINE))


def test_settings_and_metrics_that_the_text_names_exist() -> None:
    text = (DOCS / "BROKER.md").read_text()
    metrics = set(re.findall(r"`headrace_broker_([a-z_]+)", text))
    assert metrics <= {*manual.metrics_page.TABLE}


def test_events_that_the_text_names_are_logged_somewhere() -> None:
    text = (DOCS / "BROKER.md").read_text().split("| event | says |")[1].split("\n## ")[0]
    code = "".join(file.read_text() for file in (DOCS.parent / "platform").rglob("*.py"))
    events = re.findall(r"`([a-z_]+)`", text)
    assert len(events) > 20
    assert [event for event in events if f'"{event}"' not in code] == []


def test_an_empty_place_is_filled_and_the_text_behind_it_stays() -> None:
    text = "a\n<!-- settings -->\n<!-- end -->\nb\n<!-- metrics -->\nold\n<!-- end -->\nc\n"
    filled = manual.filled(text)
    assert [line for line in filled.splitlines() if line in ("a", "b", "c", "old")] == ["a", "b", "c"]
    assert manual.filled(filled) == filled
