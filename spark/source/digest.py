"""A digest of rows' content: 128 bits a row, rows added up modulo 2^128. Pure. The canonical form is in docs/FORMATS.md.

The same rows have the same digest in any order, in any number of files, and after a column was added (a null adds nothing). The
row's own address is mixed in, so that a value that moved to another row is seen. Hot: runs once a block over every value, hence
numpy over Arrow's buffers (`docs/experiments/0012-a-digest-of-the-rows.md`). Guards against faults, not against forgery.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Words = NDArray[np.uint64]

MODULUS = 1 << 128
LONG_BYTES = 256
"""A longer text is hashed by BLAKE2b, one by one: the rounds over a block are as many as its longest text has words."""
_FIRST = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB), np.uint64(30), np.uint64(27), np.uint64(31))
_SECOND = (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53), np.uint64(33), np.uint64(29), np.uint64(32))
"""Two finalisers of 64 bits: SplitMix64's, and MurmurHash3's with another middle shift."""
_LANES = (_FIRST, _SECOND)
_WORD_KEYS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93))
_SHIFT = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True, slots=True)
class RowHashes:
    """128 bits for each row: two words."""

    high: Words
    low: Words

    def total(self) -> int:
        """Return the sum of all rows modulo 2^128."""
        return ((_sum(self.high) << 64) + _sum(self.low)) % MODULUS

    def totals(self, groups: NDArray[Any]) -> dict[Any, int]:
        """Return group → sum of its rows; `groups` has one value for each row."""
        if not len(groups):
            return {}
        # Rows come in the order of the log, so those of a group mostly stand together: sums of such runs first, then of groups.
        begins = np.concatenate([[0], np.flatnonzero(groups[1:] != groups[:-1]) + 1])
        found: dict[Any, int] = {}
        high, low = _sums(self.high, begins), _sums(self.low, begins)
        for name, upper, lower in zip(groups[begins].tolist(), high, low, strict=True):
            found[name] = (found.get(name, 0) + (upper << 64) + lower) % MODULUS
        return found


def row_hashes(rows: pa.RecordBatch | pa.Table) -> RowHashes:
    """Return the hash of each row of a batch with `_topic_partition` and `_offset`; the order of columns does not matter."""
    if isinstance(rows, pa.Table):
        rows = rows.combine_chunks()
    row_keys = [
        _mix(_plain(rows, "_offset") + _mix(_plain(rows, "_topic_partition") ^ key, lane), lane)
        for key, lane in zip(_WORD_KEYS, _LANES, strict=True)
    ]
    sums = row_keys
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        for at, added in enumerate(_named(name, _one_array(column))):
            sums[at] = sums[at] + added
    return RowHashes(*(_mix(one, lane) for one, lane in zip(sums, _LANES, strict=True)))


def is_same(name: str, one: pa.Array, other: pa.Array) -> bool:
    """Return whether two arrays of a column have the same values: bit by bit, or as their digests say (NaN has many forms)."""
    if _bits(one).equals(_bits(other)):
        return True
    if one.type != other.type or one.is_null().to_pylist() != other.is_null().to_pylist():
        return False
    if not all((a == b).all() for a, b in zip(_named(name, one), _named(name, other), strict=True)):
        return False
    return not pa.types.is_floating(one.type) or _signs(one) == _signs(other)


def _bits(array: pa.Array) -> pa.Array:
    return array.view(pa.int64()) if array.type == pa.float64() else array


def _signs(array: pa.Array) -> list[bool]:
    numbers = array.fill_null(0.0).to_numpy(zero_copy_only=False)
    found: list[bool] = (np.signbit(numbers) & ~np.isnan(numbers)).tolist()
    return found


def _one_array(column: Any) -> pa.Array:
    return pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column


def _plain(rows: Any, name: str) -> Words:
    words: Words = _one_array(rows.column(name)).cast(pa.int64()).to_numpy(zero_copy_only=False).view(np.uint64)
    return words


def _named(name: str, array: pa.Array) -> tuple[Words, Words]:
    """Return what one column adds to each row: nothing where it is null."""
    found = []
    for words, key, lane in zip(_lanes(name, array), _name_keys(name), _LANES, strict=True):
        mixed = _mix(words ^ key, lane)
        found.append(_without_nulls(array, mixed))
    return found[0], found[1]


def _lanes(name: str, array: pa.Array) -> tuple[Words, Words]:
    """Return two words for each value that depend on nothing but the value; those of nulls are not defined."""
    kind = array.type
    if pa.types.is_struct(kind):
        first = np.zeros(len(array), np.uint64)
        second = first.copy()
        fields = array.flatten()
        for at, field in enumerate(kind.fields):
            added = _named(field.name, fields[at])
            first, second = first + added[0], second + added[1]
        return first, second
    if pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _nested(array)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        # Texts repeat themselves: each distinct one is hashed once.
        encoded = array.dictionary_encode()
        places = encoded.indices.fill_null(0).to_numpy()
        if not len(encoded.dictionary):
            return np.zeros(len(array), np.uint64), np.zeros(len(array), np.uint64)
        first, second = _texts(encoded.dictionary)
        return first.take(places), second.take(places)
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return _texts(array.cast(pa.binary()))
    if pa.types.is_decimal128(kind):
        words = np.frombuffer(array.buffers()[1], np.uint64)[2 * array.offset : 2 * (array.offset + len(array))]
        return words[0::2] ^ _mix(words[1::2], _FIRST), words[0::2] ^ _mix(words[1::2], _SECOND)
    if pa.types.is_null(kind):
        return np.zeros(len(array), np.uint64), np.zeros(len(array), np.uint64)
    words = _numbers(name, array)
    return words, words


def _numbers(name: str, array: pa.Array) -> Words:
    kind = array.type
    if pa.types.is_floating(kind):
        numbers = array.fill_null(0.0).to_numpy(zero_copy_only=False).astype(np.float64)
        # One form for -0.0 and 0.0, and one for every NaN.
        one_form: Words = np.where(np.isnan(numbers), np.nan, numbers + 0.0).view(np.uint64)
        return one_form
    if pa.types.is_boolean(kind):
        truths: Words = array.fill_null(False).to_numpy(zero_copy_only=False).astype(np.uint64)
        return truths
    if pa.types.is_timestamp(kind):
        array = array.cast(pa.timestamp("us", tz=kind.tz)).cast(pa.int64())
    elif pa.types.is_date32(kind):
        array = array.cast(pa.int32())
    elif not pa.types.is_integer(kind):
        raise TypeError(f"column {name!r} is {kind}: the digest has no canonical form for it")
    values: NDArray[np.int64] = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return values.view(np.uint64)


def _nested(array: pa.Array) -> tuple[Words, Words]:
    """A list: its items with their places. A map: its entries in no order. Both with their number."""
    is_map = pa.types.is_map(array.type)
    offsets = array.offsets.to_numpy().astype(np.int64)
    begin, end = int(offsets[0]), int(offsets[-1])
    counts = np.diff(offsets).view(np.uint64)
    if is_map:
        keys, items = array.keys.slice(begin, end - begin), array.items.slice(begin, end - begin)
        entries = [key + value for key, value in zip(_named("key", keys), _named("value", items), strict=True)]
    else:
        places = np.arange(begin, end) - np.repeat(offsets[:-1], np.diff(offsets))
        items = array.values.slice(begin, end - begin)
        entries = [
            _without_nulls(items, added + _mix(places.view(np.uint64), lane))
            for added, lane in zip(_named("item", items), _LANES, strict=True)
        ]
    found = []
    for entry, lane in zip(entries, _LANES, strict=True):
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(_mix(entry, lane) * (entry != 0), dtype=np.uint64)])
        found.append(sums[offsets[1:] - begin] - sums[offsets[:-1] - begin] + _mix(counts, lane))
    return found[0], found[1]


def _texts(array: pa.Array) -> tuple[Words, Words]:
    """Hash texts word by word, all texts of the block at once: a round for each eight bytes."""
    _, places, data = array.buffers()
    offsets = np.frombuffer(places, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    begin, end = int(offsets[0]), int(offsets[-1])
    buffer = np.zeros(end - begin + 8, np.uint8)
    if end > begin:
        buffer[: end - begin] = np.frombuffer(data, np.uint8)[begin:end]
    words = np.ndarray((end - begin + 1,), np.dtype("<u8"), buffer, 0, (1,))  # one at every byte
    starts, lengths = offsets[:-1] - begin, np.diff(offsets)
    full = np.where(lengths > LONG_BYTES, 0, lengths >> 3)
    order = np.argsort(-full, kind="stable")
    hashes = [lengths[order].view(np.uint64) * key for key in _WORD_KEYS]
    at = starts[order]
    rounds = np.bincount(full)
    active = len(full) - np.cumsum(rounds)  # how many texts have more than r whole words
    for number in range(len(rounds) - 1):
        count = int(active[number])
        taken = words[at[:count] + 8 * number]
        for one, key in zip(hashes, _WORD_KEYS, strict=True):
            _stir(one[:count], taken, key)
    tail = words[at + 8 * full[order]]
    tail &= (np.uint64(1) << (np.uint64(8) * (lengths[order] & 7).view(np.uint64))) - np.uint64(1)
    for one, key in zip(hashes, _WORD_KEYS, strict=True):
        _stir(one, tail, key)
    found = [np.empty_like(one) for one in hashes]
    for to, one in zip(found, hashes, strict=True):
        to[order] = one
    for index in np.flatnonzero(lengths > LONG_BYTES):
        text = buffer[starts[index] : starts[index] + lengths[index]].tobytes()
        digest = hashlib.blake2b(text, digest_size=16).digest()
        found[0][index], found[1][index] = np.frombuffer(digest, np.uint64)
    return found[0], found[1]


def _stir(hashes: Words, words: Words, key: np.uint64) -> None:
    hashes ^= words
    hashes *= key
    hashes ^= hashes >> _SHIFT


def _mix(words: Words, lane: tuple[np.uint64, ...]) -> Words:
    first, second, a, b, c = lane
    mixed: Words = words ^ (words >> a)
    mixed *= first
    mixed ^= mixed >> b
    mixed *= second
    mixed ^= mixed >> c
    return mixed


def _without_nulls(array: pa.Array, words: Words) -> Words:
    if array.null_count:
        words = words * array.is_valid().to_numpy(zero_copy_only=False)
    return words


def _name_keys(name: str) -> Iterator[np.uint64]:
    digest = hashlib.blake2b(name.encode(), digest_size=16).digest()
    return iter(np.frombuffer(digest, np.uint64))


def _sum(words: Words) -> int:
    return int(np.sum(words & _LOW, dtype=np.uint64)) + (int(np.sum(words >> _SHIFT, dtype=np.uint64)) << 32)


def _sums(words: Words, begins: NDArray[np.intp]) -> list[int]:
    low, high = np.add.reduceat(words & _LOW, begins), np.add.reduceat(words >> _SHIFT, begins)
    return [int(lower) + (int(upper) << 32) for lower, upper in zip(low, high, strict=True)]
