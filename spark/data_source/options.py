"""The options of the format `headrace`, under the names of Spark's Kafka source where it has them. `docs/SPARK_SOURCE.md` lists
them.
"""

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import BadOption, WarehouseError
from ..source.split_source import SplitSource
from .places import EARLIEST, LATEST, Place, place_of

EVENTS, RAW, BOTH, LISTED = "events", "raw", "both", "listed"
DEFAULT_SPLITS = 4
DEFAULT_MAX_SPLIT_SPAN = 64 << 20
DEFAULT_WAIT_MS = 120_000
_ALIASES = {"kafka.bootstrap.servers": "bootstrap", "subscribe": "topic"}
_PLACES = [f"{side}{word}" for side in ("starting", "ending") for word in ("Offsets", "Timestamp", "OffsetsByTimestamp")]
_OTHERS = "columns ranges pieces max_piece_span minPartitions quarantine client_config cluster failOnDataLoss newFields waitMs"
KNOWN = [
    *("bootstrap", "topic", "registry", *_ALIASES, *_OTHERS.split(), *_PLACES),
    *("startingOffsetsByTimestampStrategy", "maxOffsetsPerTrigger", "maxBytesPerTrigger", "filterPushdown"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """One read's."""

    bootstrap: str
    topic: str
    registry: str
    """Empty where no event is decoded."""
    form: str
    """Of the rows: `EVENTS`, `RAW`, `BOTH`, or `LISTED`."""
    listed: tuple[str, ...]
    """The columns, if they are listed."""
    ranges: str | None
    splits: int
    is_cut: bool
    """The user asked for a number of splits."""
    max_split_span: int
    min_partitions: int | None
    quarantine: str | None
    client_config: str | None
    cluster: str
    starting: Place
    ending: Place
    fails_on_data_loss: bool
    ignores_new_fields: bool
    max_offsets: int | None
    max_bytes: int | None
    pushes_filters: bool
    wait_ms: int
    """How long a cluster that does not answer is waited for."""

    @classmethod
    def of(cls, given: Mapping[str, str], *, is_stream: bool | None = None) -> "Options":
        """`is_stream`: None where that is not known yet. Raises WarehouseError, which names the option."""
        words = _words(given)
        form, listed = _columns(words.get("columns", EVENTS))
        needed = ("bootstrap", "topic") if form == RAW else ("bootstrap", "topic", "registry")
        missing = [name for name in needed if not words.get(name)]
        if missing:
            raise WarehouseError(f"format headrace lacks the option(s) {', '.join(missing)}")
        topic = words["topic"]
        if "," in topic:
            raise BadOption("topic", f"{topic!r}: a read has one topic; read several and unite them (`union`)")
        if is_stream is not None:
            _check_kind(words, is_stream=is_stream)
        return cls(
            bootstrap=words["bootstrap"],
            topic=topic,
            registry=words.get("registry", ""),
            form=form,
            listed=listed,
            ranges=words.get("ranges"),
            splits=_number(words, "pieces") or DEFAULT_SPLITS,
            is_cut="pieces" in words or "minpartitions" in words,
            max_split_span=_number(words, "max_piece_span") or DEFAULT_MAX_SPLIT_SPAN,
            min_partitions=_number(words, "minPartitions"),
            quarantine=words.get("quarantine"),
            client_config=words.get("client_config"),
            cluster=words.get("cluster", "offline"),
            starting=place_of(words, "starting", topic=topic, default=LATEST if is_stream else EARLIEST),
            ending=place_of(words, "ending", topic=topic, default=LATEST),
            fails_on_data_loss=_is_true(words, "failOnDataLoss", default=True),
            ignores_new_fields=_one_of(words, "newFields", ("error", "ignore")) == "ignore",
            max_offsets=_number(words, "maxOffsetsPerTrigger"),
            max_bytes=_number(words, "maxBytesPerTrigger"),
            pushes_filters=_is_true(words, "filterPushdown", default=False),
            wait_ms=_number(words, "waitMs") or DEFAULT_WAIT_MS,
        )

    @property
    def source(self) -> SplitSource:
        return SplitSource(
            bootstrap=self.bootstrap,
            topic=self.topic,
            registry=self.registry,
            quarantine=self.quarantine,
            client_config=self.client_config,
            cluster=self.cluster,
        )


def _words(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options by their name in lower case: Spark compares names without regard to capitals."""
    known = {name.lower(): name for name in KNOWN}
    found: dict[str, str] = {}
    for name, value in given.items():
        if name.lower() not in known:
            near = difflib.get_close_matches(name.lower(), known, n=1)
            raise BadOption(name, "there is no such option" + (f"; did you mean {known[near[0]]}?" if near else ""))
        told = _ALIASES.get(name.lower(), name.lower())
        if found.setdefault(told, value) != value:
            raise BadOption(name, f"it says {value!r}, and the same option under its other name {found[told]!r}")
    return found


def _check_kind(words: Mapping[str, str], *, is_stream: bool) -> None:
    for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp", "ranges", "filterPushdown"):
        if is_stream and name.lower() in words:
            raise BadOption(name, "a stream has no such option; it is for spark.read")
    for name in ("maxOffsetsPerTrigger", "maxBytesPerTrigger"):
        if not is_stream and name.lower() in words:
            raise BadOption(name, "a batch has no triggers; it is for spark.readStream")
    if "ranges" in words and (others := [one for one in _PLACES if one.lower() in words]):
        raise BadOption("ranges", f"it names the offsets already, and {others[0]} does too: give one of them")


def _columns(text: str) -> tuple[str, tuple[str, ...]]:
    text = text.strip()
    if text.lower() in (EVENTS, RAW, BOTH):
        return text.lower(), ()
    try:
        names = json.loads(text) if text.startswith("[") else [name.strip() for name in text.split(",")]
    except ValueError as error:
        raise BadOption("columns", f"{text[:200]!r} is not JSON: {error}") from error
    if not names or not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        raise BadOption("columns", f"{text[:200]!r} is neither events, raw, both, nor a list of different names")
    return LISTED, tuple(names)


def _number(words: Mapping[str, str], name: str) -> int | None:
    text = words.get(name.lower())
    if text is None:
        return None
    try:
        found = int(text)
    except ValueError:
        found = 0
    if found <= 0:
        raise BadOption(name, f"{text!r} is not a whole number above 0")
    return found


def _one_of(words: Mapping[str, str], name: str, known: tuple[str, ...]) -> str:
    text = words.get(name.lower(), known[0]).lower()
    if text not in known:
        raise BadOption(name, f"{text!r} is none of {', '.join(known)}")
    return text


def _is_true(words: Mapping[str, str], name: str, *, default: bool) -> bool:
    return _one_of(words, name, ("true", "false") if default else ("false", "true")) == "true"
