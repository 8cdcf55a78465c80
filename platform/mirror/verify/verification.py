"""Carries out `headrace mirror verify`: asks both clusters for their logs' ends, reads both, compares partition by partition.

A mirror may run meanwhile. What the source held at the beginning is compared; what the mirror has not copied of it by then is
waited for (`settle_ms`) before it counts as missing.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from ...client.connection.cluster import Cluster
from ...client.errors import UnknownTopic
from ...client.fetch.fetched import TopicPartition
from ...client.fetch.log_offsets import EARLIEST, LATEST, log_offsets
from ...client.topic_admin import topic_settings
from ...errors import HeadraceError
from ...runtime.layout import is_internal
from ..engine import Engine, Mode, engine_of, mode_for
from ..errors import MirrorError
from ..restamped.ledger_walk import LedgerFacts, LedgerWalk
from . import by_ledger, identical
from .by_ledger import Bounds
from .findings import Finding, Findings, Kind
from .read_ahead import TIMEOUT_MS, Job, ReadAhead

SETTLE_MS = 10_000
_POLL_S = 0.2


class NothingToCompare(MirrorError):
    """No topic of the source is among those that were named."""


class NoLedger(MirrorError):
    """One of the clusters numbers records on its own, and the destination has no ledger of the mirror."""

    def __init__(self, topic: str, destination: str) -> None:
        super().__init__(
            f"{destination} has no topic {topic!r}: with Apache Kafka at an end only the mirror's ledger says where each "
            f"offset of the source is; give the mirror's name with --name"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is compared, and how long a running mirror is waited for."""

    is_wanted: Callable[[str], bool]
    destination_name: Callable[[str], str] = lambda topic: topic
    """The topic's name in the destination, where offsets are the same; else the ledger knows it."""
    mirror: str = "mirror"
    settle_ms: int = SETTLE_MS


@dataclass(slots=True)
class Report:
    """The result. `findings` has the ranges."""

    mode: Mode
    findings: Findings = field(default_factory=Findings)
    partitions: int = 0
    only_in_destination: list[str] = field(default_factory=list)
    """Topics that were named and are not in the source: not compared."""
    took_ms: int = 0


class Verification:
    """One comparison of two clusters. `run` once."""

    def __init__(
        self,
        source: Cluster,
        destination: Cluster,
        settings: Settings,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        """`progress`: offsets of the source done, of all."""
        self._source = source
        self._destination = destination
        self._settings = settings
        self._progress = progress
        self._starts: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._done = 0

    def run(self) -> Report:
        """Return what differs. Raises ClientError, MirrorError, `NotALedgerEntry`."""
        began = time.monotonic()
        _await_answers(self._source, self._destination)
        engines = engine_of(self._source), engine_of(self._destination)
        report = Report(mode_for(*engines))
        names, report.only_in_destination = self._topics()
        self._starts = log_offsets(self._source, dict.fromkeys(names, EARLIEST))
        self._ends = log_offsets(self._source, dict.fromkeys(names, LATEST))
        report.partitions = len(names)
        if report.mode is Mode.IDENTICAL:
            self._identical(names, report)
        else:
            self._by_ledger(names, engines, report)
        report.took_ms = int((time.monotonic() - began) * 1000)
        return report

    def _topics(self) -> tuple[list[TopicPartition], list[str]]:
        settings = self._settings
        topics = [topic for topic in self._source.topics() if settings.is_wanted(topic)]
        if not topics:
            raise NothingToCompare(
                f"{self._source.bootstrap} has no topic of those that were named; `headrace topic list` shows what it has"
            )
        names = [TopicPartition(topic, one) for topic in topics for one in self._source.partitions(topic)]
        renamed = {settings.destination_name(topic) for topic in topics}
        others = [
            topic
            for topic in self._destination.topics()
            if settings.is_wanted(topic) and topic not in renamed and not is_internal(topic)
        ]
        return names, others

    # -- the same offsets

    def _identical(self, names: list[TopicPartition], report: Report) -> None:
        there = {name: TopicPartition(self._settings.destination_name(name.topic), name.partition) for name in names}
        present = self._present(set(there.values()))
        starts = {name: present[there[name]][0] if there[name] in present else 0 for name in names}
        ends = self._settled(there, {name: present[there[name]][1] if there[name] in present else 0 for name in names})
        ours, theirs = [], []
        for name in names:
            begin = max(self._starts[name], starts[name])
            ours.append(Job(name, begin, self._ends[name]))
            theirs.append(Job(there[name], begin, ends[name]))
        with _reading(self._source, ours) as left, _reading(self._destination, theirs) as right:
            for name in names:
                self._heads(name, starts[name], ends[name], report.findings)
                identical.compare(name, left.chunks(), right.chunks(), report.findings, self._told(name))
                self._over(name)

    def _heads(self, name: TopicPartition, start: int, end: int, findings: Findings) -> None:
        """Tell what is before the other log's beginning."""
        source_start = self._starts[name]
        if source_start == start or not end:
            return
        kind = Kind.EXPIRED_IN_DESTINATION if source_start < start else Kind.EXPIRED_IN_SOURCE
        offsets = min(source_start, start), max(source_start, start)
        findings.add(Finding(kind=kind, topic=name.topic, partition=name.partition, source=offsets, destination=offsets))

    def _present(self, names: set[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """Return where those of the partitions that the destination has begin and end."""
        found = []
        for topic in sorted({name.topic for name in names}):
            self._destination.forget(topic)
            try:
                found += [TopicPartition(topic, one) for one in self._destination.partitions(topic)]
            except UnknownTopic:
                continue
        wanted = [name for name in found if name in names]
        starts = log_offsets(self._destination, dict.fromkeys(wanted, EARLIEST))
        ends = log_offsets(self._destination, dict.fromkeys(wanted, LATEST))
        return {name: (starts[name], ends[name]) for name in wanted}

    def _settled(
        self, there: Mapping[TopicPartition, TopicPartition], ends: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Return the destination's ends once they have reached the source's, or time is up.

        Where they are beyond the source's, a mirror has gone on: the source's end is asked again, so that only what the source
        does not hold even now is left over.
        """
        deadline = time.monotonic() + self._settings.settle_ms / 1000
        while any(ends[name] < self._ends[name] for name in ends) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
            present = self._present(set(there.values()))
            ends.update({name: present[there[name]][1] for name in ends if there[name] in present})
        beyond = [name for name in ends if ends[name] > self._ends[name]]
        now = log_offsets(self._source, dict.fromkeys(beyond, LATEST)) if beyond else {}
        for name, end in now.items():
            self._ends[name] = max(self._ends[name], min(end, ends[name]))
        return ends

    # -- offsets of their own

    def _by_ledger(self, names: list[TopicPartition], engines: tuple[Engine, Engine], report: Report) -> None:
        walk = LedgerWalk(self._destination, self._settings.mirror)
        facts = self._copied(walk, names)
        there = {name: TopicPartition(facts[name].destination_topic, name.partition) for name in names if name in facts}
        present = self._present(set(there.values()))
        ours, theirs = [], []
        for name in names:
            if name in facts:
                self._ends[name] = max(self._ends[name], facts[name].to_offset)  # a running mirror has gone on
            ours.append(Job(name, self._starts[name], self._ends[name]))
            start, end = present.get(there[name], (0, 0)) if name in there else (0, 0)
            theirs.append(Job(there.get(name, name), start, end))
        tails: list[tuple[TopicPartition, Finding]] = []
        with (
            _reading(self._source, ours, are_transactions=engines[0] is Engine.KAFKA) as left,
            _reading(self._destination, theirs, are_transactions=engines[1] is Engine.KAFKA) as right,
        ):
            for name, job in zip(names, theirs, strict=True):
                bounds = Bounds(
                    source_start=self._starts[name],
                    destination_start=job.from_offset,
                    is_compacted=self._is_compacted(name.topic),
                    source_in_bytes=engines[0] is Engine.HEADRACE,
                    destination_in_bytes=engines[1] is Engine.HEADRACE,
                )
                entries = walk.entries(name, facts[name]) if name in facts else iter(())
                tail = by_ledger.compare(name, left.chunks(), entries, right.chunks(), report.findings, bounds, self._told(name))
                if tail is not None:
                    tails.append((name, tail))
                self._over(name)
        self._extra(walk, tails, report.findings)

    def _copied(self, walk: LedgerWalk, names: Iterable[TopicPartition]) -> Mapping[TopicPartition, LedgerFacts]:
        """Return the ledger's word once it has reached the source's ends, or time is up."""
        deadline = time.monotonic() + self._settings.settle_ms / 1000
        while True:
            try:
                facts = walk.facts()
            except UnknownTopic:
                raise NoLedger(walk.topic, self._destination.bootstrap) from None
            behind = [name for name in names if name not in facts or facts[name].to_offset < self._ends[name]]
            if not behind or time.monotonic() >= deadline:
                break
            time.sleep(_POLL_S)
        return facts

    def _extra(self, walk: LedgerWalk, tails: list[tuple[TopicPartition, Finding]], findings: Findings) -> None:
        """Enter the tails that the ledger does not name, not even a while later."""
        deadline = time.monotonic() + self._settings.settle_ms / 1000
        while tails:
            facts = walk.facts()
            tails = [
                (name, tail)
                for name, tail in tails
                if name not in facts or tail.destination is None or facts[name].destination_end < tail.destination[1]
            ]
            if not tails or time.monotonic() >= deadline:
                break
            time.sleep(_POLL_S)
        for _, tail in tails:
            findings.add(tail)

    def _is_compacted(self, topic: str) -> bool:
        try:
            found = {one.name: one.value or "" for one in topic_settings(self._source, topic)}
        except HeadraceError:
            return False
        return "compact" in found.get("cleanup.policy", "")

    # -- progress

    def _told(self, name: TopicPartition) -> Callable[[int], None]:
        start, end = self._starts[name], self._ends[name]
        total = sum(self._ends[one] - self._starts[one] for one in self._ends)
        return lambda offset: self._progress(self._done + max(0, min(offset, end) - start), total)

    def _over(self, name: TopicPartition) -> None:
        self._done += self._ends[name] - self._starts[name]


class _reading:
    """Reads jobs while the block runs."""

    def __init__(self, cluster: Cluster, jobs: list[Job], *, are_transactions: bool = False) -> None:
        self._reader = ReadAhead(cluster, jobs, are_transactions=are_transactions)

    def __enter__(self) -> ReadAhead:
        return self._reader

    def __exit__(self, *_: object) -> None:
        self._reader.stop()


def _await_answers(*clusters: Cluster) -> None:
    """Return once each cluster has answered; a broker that restarts is waited for as while reading. Raises ClientError."""
    deadline = time.monotonic() + TIMEOUT_MS / 1000
    for cluster in clusters:
        while True:
            try:
                cluster.topics()
                break
            except HeadraceError as error:
                if not error.retriable or time.monotonic() > deadline:
                    raise
            time.sleep(_POLL_S)
