"""Sends a commit to the catalog, and does not take a refusal for its end: a request may reach the catalog twice.

A proxy, or a client's own retry, repeats a request whose answer was late. The first one lands, and the second is refused, because
the table has changed: by the first. pyiceberg deletes the manifests of a refused commit, which the table names then.
"""

from collections.abc import Callable
from typing import Any

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table, Transaction


def sent(transaction: Transaction, reload: Callable[[], Table]) -> Table:
    """Return the table after the commit. Raises CommitFailedException if it was refused and did not land."""
    producers: list[Any] = list(transaction._snapshot_producers)
    cleaners = [one._clean_all_uncommitted for one in producers]
    for one in producers:
        one._clean_all_uncommitted = _keep
    try:
        transaction.commit_transaction()
        return transaction._table
    except CommitFailedException:
        # If it cannot be asked for, nothing is deleted.
        table = reload()
        if producers and all(table.metadata.snapshot_by_id(one._snapshot_id) is not None for one in producers):
            return table
        for clean in cleaners:
            clean()
        raise


def _keep() -> None:
    """In place of the deletion of what a refused commit has written."""
