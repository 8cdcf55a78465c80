"""Which rows a table holds, without our code and without pyiceberg: JSON, Avro and Parquet as they are in the store."""

import json
from collections.abc import Callable
from pathlib import Path

import duckdb
import fastavro

DELETED = 2


def data_files(metadata: Path, branch: str, file_of: Callable[[str], Path]) -> list[Path]:
    """Return the files that a branch of the table names; empty if there is no such branch. `file_of`: URI → file."""
    words = json.loads(metadata.read_bytes())
    head = words.get("refs", {}).get(branch, {}).get("snapshot-id")
    snapshot = next((one for one in words.get("snapshots", ()) if one["snapshot-id"] == head), None)
    if snapshot is None:
        return []
    with file_of(snapshot["manifest-list"]).open("rb") as listed:
        manifests = [file_of(one["manifest_path"]) for one in fastavro.reader(listed)]
    found = []
    for manifest in manifests:
        with manifest.open("rb") as entries:
            found += [file_of(one["data_file"]["file_path"]) for one in fastavro.reader(entries) if one["status"] != DELETED]
    return found


def rows(files: list[Path], columns: str) -> list[tuple[object, ...]]:
    """Return the rows of these files, sorted; as often as the files hold them, and as often as a file is named."""
    found = []
    for one in files:
        found += duckdb.sql(f"SELECT {columns} FROM read_parquet('{one}', hive_partitioning=false)").fetchall()
    return sorted(found)
