"""Twenty thousand histories, their truth counted record by record, are judged rightly. `make audit-search` goes on from there."""

import os
from multiprocessing import get_context

from .audit.__main__ import RANGE, first_failure

HISTORIES = 2_000 if os.environ.get("HEADRACE_TEST_FAST") else 20_000


def test_no_history_is_judged_wrongly() -> None:
    with get_context("spawn").Pool(2) as pool:
        for failure in pool.imap(first_failure, [range(at, at + RANGE) for at in range(0, HISTORIES, RANGE)]):
            assert failure is None, f"python -m tests.search.audit --seed {failure[0]}\n{failure[1]}"
