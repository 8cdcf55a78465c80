"""Each safeguard of the verdict, switched off, is noticed by the search within a thousand histories; the docs list the same."""

import re
from pathlib import Path

import pytest

from .audit.__main__ import first_failure
from .safeguards import SAFEGUARDS

MOST_SEEDS = 1_000
DOCS = Path(__file__).resolve().parents[2] / "docs" / "AUDIT_RULES.md"


@pytest.mark.parametrize("name", SAFEGUARDS)
def test_a_safeguard_that_is_off_is_noticed_within_a_thousand_histories(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*SAFEGUARDS[name])
    assert first_failure(range(MOST_SEEDS)) is not None


def test_the_document_lists_the_safeguards_that_the_search_knows() -> None:
    section = DOCS.read_text().split("## The safeguards of the verdict")[1].split("\n## ")[0]
    assert re.findall(r"^- \*\*(.+?)\*\*", section, re.MULTILINE) == list(SAFEGUARDS)
