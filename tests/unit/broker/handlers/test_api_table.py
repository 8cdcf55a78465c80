"""The API table agrees with the router, with ApiVersions and with the handlers' files. `test_manual` compares docs/BROKER.md."""

import pytest

from headrace.broker import manual
from headrace.broker.handlers.api_table import SUPPORTED, TABLE
from headrace.wire.messages.headers import FIRST_FLEXIBLE


@pytest.mark.parametrize("key", sorted(TABLE))
def test_a_handlers_file_says_the_versions_that_the_table_says(key: int) -> None:
    api = TABLE[key]
    assert manual.versions_in_file(api)[key] == (api.served_from, api.highest)
    assert (api.lowest, api.highest) == SUPPORTED[key]
    assert api.lowest <= api.served_from <= api.highest
    assert key in FIRST_FLEXIBLE


def test_the_table_for_people_has_every_api_with_a_sentence() -> None:
    lines = manual.tables()["apis"].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    assert [(int(key), name) for key, name, _, _ in cells] == [(key, TABLE[key].name) for key in sorted(TABLE)]
    assert all(10 < len(sentence) < 200 for *_, sentence in cells)
