"""What the wire's tests draw from: records, batches and one way to say 'cut anywhere it is refused as wire, never otherwise'."""

from collections.abc import Callable, Sequence

from hypothesis import strategies as st

from headrace.errors import HeadraceError
from headrace.wire.batch.compression import Codec
from headrace.wire.batch.record_batch import BatchBuilder
from headrace.wire.errors import WireError

Drawn = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]

MOMENTS = st.integers(min_value=0, max_value=4_102_444_800_000)
RECORDS: st.SearchStrategy[list[Drawn]] = st.lists(
    st.tuples(
        MOMENTS,
        st.none() | st.binary(max_size=80),
        st.none() | st.binary(max_size=300),
        st.lists(st.tuples(st.text(max_size=6), st.none() | st.binary(max_size=9)), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=20,
)


def batch_of(records: Sequence[Drawn], codec: Codec = Codec.NONE, **producer: int) -> bytes:
    builder = BatchBuilder(codec, **producer)
    for record in records:
        builder.append(*record)
    return builder.build()


def small_batch(codec: Codec = Codec.NONE, count: int = 3, first_ms: int = 1_000) -> bytes:
    return batch_of([(first_ms + index, None, b"value-%d" % index, ()) for index in range(count)], codec)


def is_refused_at_every_prefix(data: bytes, read: Callable[[bytes], object]) -> None:
    """Read every proper prefix; each must raise a `WireError`, and no other exception whatever."""
    for end in range(len(data)):
        try:
            read(data[:end])
        except WireError:
            continue
        except HeadraceError as error:
            raise AssertionError(f"prefix of {end} bytes raised {error!r}") from error
        raise AssertionError(f"a prefix of {end} of {len(data)} bytes was accepted")
