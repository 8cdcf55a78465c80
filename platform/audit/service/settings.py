"""The audit service's settings, read from TOML (`deploy/local/audit.toml` is the example that runs), checked all at once
at the start.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..model.tiers import CHAIN, LIVE, TierRule, is_tier, rules
from ..model.windows import WINDOW_MS
from .errors import SettingsError

DEFAULT_TIERS = CHAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTiers:
    """Which tiers a topic expects."""

    required: tuple[str, ...] = DEFAULT_TIERS
    without: frozenset[str] = frozenset()
    """Tiers that are not asked even though they have reported once: a service that was taken down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    """Everything that one audit service is told."""

    window_ms: int = WINDOW_MS
    default_deadline_ms: int = 20_000
    """How long a tier may stand still, with something to do, before it counts as silent."""
    deadline_ms: Mapping[str, int] = field(default_factory=lambda: {"warehouse": 120_000})
    """Tier (or `consumer` for every group) → its own deadline. The warehouse works on a schedule."""
    presumed_dead_ms: int = 3_600_000
    """After so long a silence an unsealed producer no longer keeps windows unknown that began after it was last heard."""
    discover_ms: int = 2_000
    """How often clusters are asked for new topics and partitions."""
    fetch_partition_bytes: int = 1 << 20
    """How much of one partition is read, and then written down, at a time."""
    judge_every_ms: int = 1_000
    """How often verdicts are brought up to date without being asked for."""
    topics: Mapping[str, TopicTiers] = field(default_factory=dict)
    default_topic: TopicTiers = TopicTiers()

    def rules(self, topic: str, reporting: set[str]) -> tuple[TierRule, ...]:
        """Return what is expected of each tier of `topic`, of which those in `reporting` have reported for it."""
        mine = self.topics.get(topic, self.default_topic)
        return rules(
            mine.required,
            reporting - mine.without,
            deadline_ms=dict(self.deadline_ms),
            default_deadline_ms=self.default_deadline_ms,
        )


def load(path: Path | None) -> AuditSettings:
    """Return the settings in the file, or the defaults without one. Raises SettingsError that names every fault."""
    if path is None:
        return AuditSettings()
    try:
        words = tomllib.loads(path.read_text())
    except FileNotFoundError as error:
        raise SettingsError(f"no audit settings at {path}: give --settings a file that exists, or none") from error
    except (tomllib.TOMLDecodeError, OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read as TOML: {error}") from error
    return parse(words, str(path))


def parse(words: Mapping[str, Any], where: str) -> AuditSettings:
    """Return the settings that `words` (a parsed TOML file) spell. Raises SettingsError that names every fault."""
    faults: list[str] = []
    known = {"service", "deadlines_ms", "topics"}
    faults += [f"[{name}] is not a table of the audit settings ({', '.join(sorted(known))})" for name in words.keys() - known]
    service = _numbers(words, "service", faults)
    for name in service.keys() - {"window_ms", "presumed_dead_ms", "discover_ms", "judge_every_ms", "fetch_partition_bytes"}:
        faults.append(f"[service] {name} is not a setting")
    deadlines = _numbers(words, "deadlines_ms", faults)
    for name in deadlines:
        if name != "default" and name != "consumer" and not is_tier(name):
            faults.append(f"[deadlines_ms] {name!r} is no tier: {', '.join(CHAIN)}, consumer or consumer:<group>")
    default_deadline_ms = deadlines.pop("default", AuditSettings().default_deadline_ms)
    topics = words.get("topics", {})
    if not isinstance(topics, dict):
        faults.append("[topics] is not a table of tables")
        topics = {}
    default = _topic("default", topics.get("default", {}), TopicTiers(), faults)
    by_topic = {name: _topic(name, one, default, faults) for name, one in topics.items() if name != "default"}
    if faults:
        raise SettingsError(f"{where}: " + "; ".join(faults))
    plain = AuditSettings()
    return AuditSettings(
        window_ms=service.get("window_ms", plain.window_ms),
        default_deadline_ms=default_deadline_ms,
        deadline_ms={**plain.deadline_ms, **deadlines},
        presumed_dead_ms=service.get("presumed_dead_ms", plain.presumed_dead_ms),
        discover_ms=service.get("discover_ms", plain.discover_ms),
        judge_every_ms=service.get("judge_every_ms", plain.judge_every_ms),
        fetch_partition_bytes=service.get("fetch_partition_bytes", plain.fetch_partition_bytes),
        topics=by_topic,
        default_topic=default,
    )


def _numbers(words: Mapping[str, Any], table: str, faults: list[str]) -> dict[str, int]:
    found = words.get(table, {})
    if not isinstance(found, dict):
        faults.append(f"[{table}] is not a table")
        return {}
    numbers = {}
    for name, value in found.items():
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            numbers[name] = value
        else:
            faults.append(f"[{table}] {name}={value!r} is not a whole number above 0")
    return numbers


def _topic(name: str, words: Any, default: TopicTiers, faults: list[str]) -> TopicTiers:
    where = f"[topics.{name}]"
    if not isinstance(words, dict):
        faults.append(f"{where} is not a table")
        return default
    faults += [f"{where} {key} is not a setting (tiers, adds, without)" for key in words.keys() - {"tiers", "adds", "without"}]
    tiers = _tiers(where, "tiers", words.get("tiers", list(default.required)), faults)
    adds = _tiers(where, "adds", words.get("adds", []), faults)
    without = _tiers(where, "without", words.get("without", []), faults)
    required = tuple(dict.fromkeys(tier for tier in (*tiers, *adds) if tier not in without))
    if LIVE not in required:
        faults.append(f"{where} leaves out {LIVE!r}: every other tier is compared through it")
    return TopicTiers(required=required, without=frozenset(without) | default.without)


def _tiers(where: str, key: str, value: Any, faults: list[str]) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(tier, str) for tier in value):
        faults.append(f"{where} {key} is not a list of tiers")
        return []
    faults += [
        f"{where} {key}: {tier!r} is no tier ({', '.join(CHAIN)}, consumer:<group>)" for tier in value if not is_tier(tier)
    ]
    return [tier for tier in value if is_tier(tier)]
