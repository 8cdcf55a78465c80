"""What can be set of a connector, also under Kafka's names."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from ..consumer.stream_fetching import reset_point
from ..consumer.zk_errors import StreamMisused

SHORTEST_INTERVAL_MS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorSettings:
    """The settings of one connector. Raises StreamMisused for a value that cannot be."""

    enable_auto_commit: bool = True
    """`enable.auto.commit`. False: nothing is registered but by `commit`."""
    auto_commit_interval_ms: int = 5_000
    """`auto.commit.interval.ms`: how often what is finished is registered; so much is delivered again after a crash."""
    auto_offset_reset: str = "smallest"
    """`auto.offset.reset`: where a partition without registered offset begins: smallest (earliest) or largest (latest)."""
    session_timeout_ms: int = 6_000
    """`session.timeout.ms`: after this time the partitions of a member that died go to the others."""
    queue_bytes: int = 16 << 20
    """`queued.max.bytes`: fetched and not handed out yet, of all streams together, at least 64 KiB for each."""
    fetch_wait_ms: int = 500
    """`fetch.max.wait.ms`."""
    handover_ms: int = 30_000
    """`max.poll.interval.ms`: an application that does not ask for its next message for this long loses what others wait for."""
    recheck_ms: int = 5_000
    """The group's lists are read again at least this often, whatever the watches say."""
    rebalance_patience_ms: int = 120_000
    """A partition that another member does not release for this long fails the streams."""

    def __post_init__(self) -> None:
        try:
            reset_point(self.auto_offset_reset)
        except ValueError as error:
            raise StreamMisused(str(error)) from None
        for field in fields(self):
            value = getattr(self, field.name)
            least = SHORTEST_INTERVAL_MS if field.name == "auto_commit_interval_ms" else 1
            if isinstance(value, int) and not isinstance(value, bool) and value < least:
                raise StreamMisused(f"{field.name}={value}: {least} or more")


NAMES: Mapping[str, str] = {
    "enable.auto.commit": "enable_auto_commit",
    "autocommit.enable": "enable_auto_commit",
    "auto.commit.enable": "enable_auto_commit",
    "auto.commit.interval.ms": "auto_commit_interval_ms",
    "autocommit.interval.ms": "auto_commit_interval_ms",
    "auto.offset.reset": "auto_offset_reset",
    "autooffset.reset": "auto_offset_reset",
    "session.timeout.ms": "session_timeout_ms",
    "zookeeper.session.timeout.ms": "session_timeout_ms",
    "queued.max.bytes": "queue_bytes",
    "fetch.max.wait.ms": "fetch_wait_ms",
    "fetch.wait.max.ms": "fetch_wait_ms",
    "max.poll.interval.ms": "handover_ms",
}
"""Kafka's names, those of 0.7 and 0.8 among them, to ours."""
PLACES = {"bootstrap.servers", "zookeeper.connect", "zk.connect", "group.id", "groupid", "client.id", "consumer.id", "consumerid"}
"""Where and as whom to join; the connectors take them."""


def settings_of(properties: Mapping[str, Any]) -> ConnectorSettings:
    """Return the settings that Kafka's names give. Raises StreamMisused for names and values it does not know."""
    chosen: dict[str, Any] = {}
    unknown = sorted(name for name in properties if name not in NAMES and name not in PLACES)
    if unknown:
        raise StreamMisused(f"unknown settings {', '.join(unknown)}: known are {', '.join(sorted({*NAMES, *PLACES}))}")
    for name, value in properties.items():
        if name in NAMES:
            if NAMES[name] in chosen:
                raise StreamMisused(f"{name}: set twice, under two of its names")
            chosen[NAMES[name]] = _value(name, NAMES[name], value)
    return ConnectorSettings(**chosen)


def place_of(properties: Mapping[str, Any], *names: str) -> str | None:
    """Return the first of these that is given, as text."""
    return next((str(properties[name]) for name in names if properties.get(name)), None)


def _value(name: str, field: str, value: Any) -> Any:
    match field, value:
        case "auto_offset_reset", str():
            return value
        case "enable_auto_commit", bool():
            return value
        case "enable_auto_commit", ("true" | "false"):
            return value == "true"
        case (("enable_auto_commit" | "auto_offset_reset"), _):
            raise StreamMisused(f"{name}={value!r}: {'true or false' if field == 'enable_auto_commit' else 'a word'}")
        case _, bool():
            raise StreamMisused(f"{name}={value!r}: a whole number")
    try:
        return int(value)
    except (TypeError, ValueError):
        raise StreamMisused(f"{name}={value!r}: a whole number") from None
