"""How a logger sends from its process. Plain values; `EventLogger` documents and fills them."""

from dataclasses import dataclass, field

from ...client.producer.accumulator import Partitioner
from ...client.producer.partitioner import partition_for_key
from ...client.security.chosen import ClientConfig
from ...schema_registry.client.cache_folder import DEFAULT, Folder
from ...wire.batch.compression import Codec


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectSettings:
    """Where to, and in what portions."""

    bootstrap: str
    registry_url: str
    client_config: "ClientConfig | None" = field(default=None, repr=False)
    """TLS and SASL; None: what HEADRACE_CLIENT_CONFIG names, else in the clear. Not in `repr`: a mapping may hold secrets."""
    buffer_bytes: int = 32 << 20
    codec: Codec = Codec.NONE
    acks: int = -1
    """-1: all in-sync replicas have a batch before it counts as acknowledged; 1: its leader has it."""
    partitioner: Partitioner = partition_for_key
    linger_ms: int = 20
    batch_bytes: int = 512 << 10
    delivery_timeout_ms: int = 120_000
    report_every_ms: int = 1_000
    is_strict: bool = False
    """Take no event of a window that the audit has not acknowledged as held."""
    schema_cache: Folder = DEFAULT
    """Where ids and schemas are kept for an outage of the registry; None: nowhere."""
    start_timeout_ms: int = 2_000
