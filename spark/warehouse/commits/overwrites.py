"""Snapshots of pyiceberg that take files away.

Traps of pyiceberg 0.12. Threads that look for the files to be deleted share an evaluator of manifests that keeps state: with
many manifests one may be skipped, and the commit fails with 'Missing required files to delete'. And an overwrite has no other
name: readers who follow a table stop at it, and pass `replace` over.
"""

import threading
from collections.abc import Callable
from typing import Any

from pyiceberg.manifest import ManifestFile
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import _OverwriteFiles


class Overwrite(_OverwriteFiles):
    """An overwrite of a branch, under the operation that it is."""

    def __init__(self, transaction: Any, branch: str, words: dict[str, str], *, told: Operation = Operation.OVERWRITE) -> None:
        """`words`: into the snapshot's summary."""
        super().__init__(
            operation=Operation.OVERWRITE,
            transaction=transaction,
            io=transaction._table.io,
            branch=branch,
            snapshot_properties=words,
        )
        self._told = told
        self._one_at_a_time = threading.Lock()

    def _build_manifest_evaluator(self, spec_id: int) -> Callable[[ManifestFile], bool]:
        evaluate = super()._build_manifest_evaluator(spec_id)

        def alone(manifest: ManifestFile) -> bool:
            with self._one_at_a_time:
                return evaluate(manifest)

        return alone

    def _summary(self, snapshot_properties: dict[str, str] | None = None) -> Summary:
        made = super()._summary(snapshot_properties or {})
        return Summary(self._told, **made.additional_properties)
