"""Choose the partition of a record by its key. Pure. Source: Kafka's default partitioner (murmur2 of the key, top bit off,
modulo).

Equal keys go to the same partition as with the Java client and librdkafka's `murmur2_random`. For records without a key the
producer chooses (one random partition for each batch).
"""

_MASK = 0xFFFFFFFF
_MULTIPLIER = 0x5BD1E995
_SEED = 0x9747B28C


def murmur2(data: bytes) -> int:
    """Return the 32-bit MurmurHash2 of `data` as Kafka computes it (seed 0x9747b28c), unsigned."""
    size = len(data)
    hashed = _SEED ^ size
    whole = size & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ (word >> 24)) * _MULTIPLIER & _MASK
        hashed = (hashed * _MULTIPLIER & _MASK) ^ word
    if size > whole:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    hashed = (hashed ^ (hashed >> 13)) * _MULTIPLIER & _MASK
    return hashed ^ (hashed >> 15)


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition, 0 to `partition_count` - 1, of every record with this key."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
