"""Delete files of others (Iceberg v2, merge-on-read): which rows of which data files readers do not get.

A position delete file names data files and places in them; an equality delete file names values of columns. Either takes rows of
data files of its partition that are not younger than it. Source: Iceberg's specification, "Scan Planning".
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntry

from ..errors import WarehouseError
from ..source.digest import MODULUS
from .file_rows import FileFacts, Numbers, Rows, join_rows, partitions_of, read_file
from .store import StorePath, checksum, fetched

Mask = NDArray[np.bool_]
PathOf = Callable[[DataFile | str], StorePath]
"""Returns the file that a table names."""

BY_PLACE = ("file_path", "pos")
_PATH_ID = 2147483546
"""Field id of `file_path`, by the specification."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFile:
    """A delete file, and what it may take rows of."""

    path: str
    """As the table names it."""
    row_count: int
    """Places or values that it names, by its manifest."""
    of: frozenset[str]
    """Data files of the branch."""
    columns: tuple[str, ...] = ()
    """Those whose values it names; empty: it names places."""


def may_take_of(delete: ManifestEntry, data: ManifestEntry) -> bool:
    """Return whether a delete file may take rows of a data file of its partition, by what their manifests say."""
    born, deleted = data.sequence_number or 0, delete.sequence_number or 0
    if delete.data_file.content == DataFileContent.EQUALITY_DELETES:
        return born < deleted
    name = data.data_file.file_path.encode()
    lower, upper = ((bounds or {}).get(_PATH_ID) for bounds in (delete.data_file.lower_bounds, delete.data_file.upper_bounds))
    return born <= deleted and (lower is None or lower <= name) and (upper is None or name <= upper)


class Taken:
    """The rows that delete files take. Each delete file is read once. Methods raise WarehouseError, StoreUnreachable,
    FileNotFoundError.
    """

    def __init__(self, deletes: Sequence[DeleteFile], path_of: PathOf) -> None:
        self._deletes = deletes
        self._path_of = path_of
        self._places: dict[str, dict[str, Numbers]] = {}

    def left(self, name: str, rows: Rows) -> Rows:
        """Return those rows of the data file that readers get. `rows`: all of them, in the file's order."""
        mask = self.mask(name, len(rows))
        return rows if mask is None else rows.where(mask)

    def mask(self, name: str, row_count: int) -> Mask | None:
        """Return which rows of the data file readers get; None: all."""
        taken = [mask for _, mask in self._of(name, row_count)]
        return ~np.logical_or.reduce(taken) if taken else None

    def facts(self, names: Iterable[str]) -> dict[str, FileFacts]:
        """Return delete file → its facts. Rows, also of partitions, and digest are negative: what it takes of these data files.

        So the facts of an hour's files, delete files too, add up to what readers get.
        """
        found: dict[str, list[Rows]] = {one.path: [] for one in self._deletes}
        for name, times in Counter(names).items():
            if any(name in one.of for one in self._deletes):
                rows = read_file(self._path_of(name))[1]
                for one, mask in self._of(name, len(rows)):
                    found[one.path] += [rows.where(mask)] * times
        return {path: self._negative(path, join_rows(rows)) for path, rows in found.items()}

    def _negative(self, name: str, rows: Rows) -> FileFacts:
        path = self._path_of(name)
        try:
            now = path.stat()
            return FileFacts(
                size_bytes=now.st_size,
                mtime_ns=now.st_mtime_ns,
                sha256=checksum(path),
                row_count=-len(rows),
                digest=-rows.hashes.total() % MODULUS,
                partitions={partition: (first, end, -count) for partition, (first, end, count) in partitions_of(rows).items()},
            )
        except FileNotFoundError:
            raise
        except OSError as error:
            raise WarehouseError(f"delete file {path} cannot be read: {error}") from error

    def _of(self, name: str, row_count: int) -> Iterator[tuple[DeleteFile, Mask]]:
        """Yield each delete file with the rows of the data file that it takes and none before it does."""
        left = np.ones(row_count, np.bool_)
        for one in self._deletes:
            if name in one.of:
                taken = left & (self._by_values(one, name) if one.columns else self._by_place(one, name, row_count))
                left &= ~taken
                yield one, taken

    def _by_place(self, one: DeleteFile, name: str, row_count: int) -> Mask:
        if one.path not in self._places:
            named = self._columns(one, self._path_of(one.path), BY_PLACE)
            names = named["file_path"].combine_chunks().dictionary_encode()
            codes, places = np.asarray(names.indices), np.asarray(named["pos"])
            order = np.argsort(codes, kind="stable")
            borders = np.searchsorted(codes[order], np.arange(len(names.dictionary) + 1))
            self._places[one.path] = {
                path: places[order[borders[at] : borders[at + 1]]] for at, path in enumerate(names.dictionary.to_pylist())
            }
        places = self._places[one.path].get(name, np.zeros(0, np.int64))
        mask = np.zeros(row_count, np.bool_)
        mask[places[(places >= 0) & (places < row_count)]] = True
        return mask

    def _by_values(self, one: DeleteFile, name: str) -> Mask:
        named = self._columns(one, self._path_of(one.path), one.columns)
        mine = self._columns(one, self._path_of(name), one.columns, like=named.schema)
        codes = np.zeros(len(named) + len(mine), np.int64)
        for column in one.columns:
            both = pa.chunked_array([*named[column].chunks, *mine[column].chunks], named[column].type).combine_chunks()
            values = np.asarray(pc.dictionary_encode(both, null_encoding="encode").indices).astype(np.int64)
            codes = np.unique(codes * (values.max(initial=0) + 1) + values, return_inverse=True)[1]
        return np.isin(codes[len(named) :], codes[: len(named)])

    def _columns(self, one: DeleteFile, path: StorePath, columns: Sequence[str], *, like: pa.Schema | None = None) -> pa.Table:
        """Return columns of a file; `like`: with these types, null where the file does not have them."""
        try:
            with fetched(path) as here, pq.ParquetFile(here.path) as file:
                there, row_count = set(file.schema_arrow.names), file.metadata.num_rows
                found = file.read(columns=[name for name in columns if name in there])
            if like is None:
                return found.select(list(columns))
            types = {name: like.field(name).type for name in columns}
            named = {
                name: found[name].cast(kind) if name in there else pa.chunked_array([pa.nulls(row_count, kind)])
                for name, kind in types.items()
            }
            return pa.table(named)
        except FileNotFoundError:
            raise
        except (OSError, pa.ArrowException, KeyError, TypeError) as error:
            raise WarehouseError(
                f"{one.path} takes rows by {one.row_count} places or values, and they cannot be looked up in {path} "
                f"({type(error).__name__}: {error}): rewrite the data files without it"
            ) from error
