"""Histories of a table that others change are told rightly, and the search notices each safeguard of the table that is off."""

import os
import re
from multiprocessing import get_context
from pathlib import Path

import pytest

from .tables.checks import first_failure
from .tables.safeguards import TABLE_SAFEGUARDS

HISTORIES = 200 if os.environ.get("HEADRACE_TEST_FAST") else 1_000
AT_ONCE = 100
MOST_SEEDS = 1_000
DOCS = Path(__file__).resolve().parents[2] / "docs" / "AUDIT_RULES.md"


def test_no_history_of_a_table_is_told_wrongly() -> None:
    with get_context("spawn").Pool(2) as pool:
        for failure in pool.imap(first_failure, [range(at, at + AT_ONCE) for at in range(0, HISTORIES, AT_ONCE)]):
            assert failure is None, f"python -m tests.search.tables --seed {failure[0]}\n{failure[1]}"


@pytest.mark.parametrize("name", TABLE_SAFEGUARDS)
def test_a_safeguard_of_the_table_that_is_off_is_noticed_within_a_thousand_histories(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*TABLE_SAFEGUARDS[name])
    assert first_failure(range(MOST_SEEDS)) is not None


def test_the_document_lists_the_safeguards_of_the_table_that_the_search_knows() -> None:
    section = DOCS.read_text().split("## The safeguards of the table")[1].split("\n## ")[0]
    assert re.findall(r"^- \*\*(.+?)\*\*", section, re.MULTILINE) == list(TABLE_SAFEGUARDS)
