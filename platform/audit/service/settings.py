"""The audit service's settings, read from TOML (`deploy/local/audit.toml` is the example that runs), checked all at once
at the start.
"""

import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ...runtime.logs import get_logger
from ..model.messages import TierChange
from ..model.named_tiers import windows_of
from ..model.tiers import CHAIN, LIVE, TierRule, is_tier, rules
from ..model.windows import WINDOW_MS
from .errors import SettingsError

log = get_logger(__name__)

DEFAULT_TIERS = CHAIN
GONE = "presumed_dead_ms"
"""A setting of before 0048, accepted without effect for one version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTiers:
    """Which tiers a topic expects."""

    required: tuple[str, ...] = DEFAULT_TIERS
    without: frozenset[str] = frozenset()
    """Tiers that are not asked even though they have reported once: a service that was taken down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetireRule:
    """An operator's standing word: runs of these applications that are silent for so long will say nothing more."""

    applications: str
    """A pattern such as `shop*`."""
    after_ms: int
    reason: str


LEAST_RETIRE_MS = 60_000
"""As for `headrace audit retire-producer`: one that was heard a minute ago is not dead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    """Everything that one audit service is told."""

    window_ms: int = WINDOW_MS
    default_deadline_ms: int = 20_000
    """How long a tier may stand still, with something to do, before it counts as silent."""
    deadline_ms: Mapping[str, int] = field(default_factory=lambda: {"warehouse": 120_000, "sink": 180_000})
    """Tier (or `consumer` for every group, `sink` for every sink) → its own deadline. The warehouse works on a
    schedule, and minute files are finished by the minute.
    """
    discover_ms: int = 2_000
    """How often clusters are asked for new topics and partitions."""
    fetch_partition_bytes: int = 1 << 20
    """How much of one partition is read, and then written down, at a time."""
    judge_every_ms: int = 1_000
    """How often verdicts are brought up to date without being asked for."""
    scan_every_ms: int = 300_000
    """Within this time every log that is read back is read again and compared: damage on disk is found within it."""
    scan_bytes_per_s: int = 4 << 20
    """The most that this scan reads of one cluster. Where a cluster holds more than both allow, a round takes longer."""
    topics_in_memory: int = 200
    """Topics whose books are kept in memory at once; the others wait in the store."""
    checkpoint_every_ms: int = 3_600_000
    """How often the store is written to the checkpoint topic, where something changed. The audit topic keeps what follows the
    last two checkpoints.
    """
    keep_windows_days: int = 3
    """Windows older than this are added up by day; producers' runs that closed before are forgotten where no window has a record
    of theirs.
    """
    keep_unknown_days: int = 30
    """Windows that stay OPEN or UNKNOWN without any news for so long are added to their days as UNKNOWN, with the reason."""
    keep_days: int = 90
    """Days older than this are forgotten, and runs that somebody retired before."""
    mirror: str = "mirror"
    """The name of the mirror between the two clusters (`headrace mirror run --name`): its ledger is read where one of them is
    Apache Kafka.
    """
    webhook_url: str | None = None
    """Where each change of a verdict is posted as JSON; None: nowhere."""
    retire: tuple[RetireRule, ...] = ()
    """Which producers that died unsealed are retired without an operator's asking."""
    topics: Mapping[str, TopicTiers] = field(default_factory=dict)
    default_topic: TopicTiers = TopicTiers()

    def rules(self, topic: str, reporting: set[str], changes: Sequence[TierChange] = ()) -> tuple[TierRule, ...]:
        """Return what is expected of each tier of `topic`, of which those in `reporting` have reported for it. `changes`: what
        operators said of its groups; where these settings say otherwise, they hold.
        """
        mine = self.topics.get(topic, self.default_topic)
        return rules(
            mine.required,
            reporting - mine.without,
            deadline_ms=dict(self.deadline_ms),
            default_deadline_ms=self.default_deadline_ms,
            named={tier: windows_of(changes, tier) for tier in {one.tier for one in changes} - mine.without},
        )

    def names(self, topic: str, tier: str) -> bool:
        """Return whether these settings have the tier take part in the topic's verdicts."""
        return tier in self.topics.get(topic, self.default_topic).required

    def left_out(self, topic: str) -> frozenset[str]:
        """Return the tiers that these settings have not asked of the topic."""
        return self.topics.get(topic, self.default_topic).without

    def contradiction(self, topic: str, tier: str, change: str) -> str | None:
        """Return why an operator's `change` of the group has no effect; None where it has."""
        mine = self.topics.get(topic, self.default_topic)
        table = f"[topics.{topic if topic in self.topics else 'default'}]"
        if change == "remove" and tier in mine.required:
            return f"the audit's settings name {tier} in {table}: take it out of `tiers` or `adds` there, and restart the audit"
        if change == "add" and tier in mine.without:
            return f"the audit's settings leave {tier} out in {table}: take it out of `without` there, and restart the audit"
        return None


NUMBERS = frozenset(one.name for one in fields(AuditSettings) if one.type is int or one.type == "int") - {"default_deadline_ms"}
"""The settings of the table `service` that are whole numbers."""


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
    known = {"service", "deadlines_ms", "topics", "retire"}
    faults += [f"[{name}] is not a table of the audit settings ({', '.join(sorted(known))})" for name in words.keys() - known]
    webhook_url = _url(words, faults)
    mirror = _mirror(words, faults)
    service = _numbers(words, "service", faults, but={"webhook_url", "mirror"})
    if service.pop(GONE, None) is not None:
        log.warning("setting_without_effect", setting=GONE, where=where, advice="producers say what they hold: remove the line")
    faults += [f"[service] {name} is not a setting" for name in sorted(service.keys() - NUMBERS)]
    if service.get("window_ms", WINDOW_MS) != WINDOW_MS:
        faults.append(
            f"[service] window_ms={service['window_ms']} would hold for the audit alone: loggers, mirror, consumers and loads "
            f"count windows of {WINDOW_MS} ms; remove the line"
        )
    deadlines = _numbers(words, "deadlines_ms", faults)
    for name in deadlines:
        if name not in ("default", "consumer", "sink") and not is_tier(name):
            faults.append(
                f"[deadlines_ms] {name!r} is not a tier: {', '.join(CHAIN)}, consumer, consumer:<group>, sink or sink:<group>"
            )
    default_deadline_ms = deadlines.pop("default", AuditSettings().default_deadline_ms)
    topics = words.get("topics", {})
    if not isinstance(topics, dict):
        faults.append("[topics] is not a table of tables")
        topics = {}
    default = _topic("default", topics.get("default", {}), TopicTiers(), faults)
    by_topic = {name: _topic(name, one, default, faults) for name, one in topics.items() if name != "default"}
    retire = _retire(words.get("retire", []), faults)
    if faults:
        raise SettingsError(f"{where}: " + "; ".join(faults))
    return AuditSettings(
        **service,
        default_deadline_ms=default_deadline_ms,
        deadline_ms={**AuditSettings().deadline_ms, **deadlines},
        mirror=mirror,
        webhook_url=webhook_url,
        retire=retire,
        topics=by_topic,
        default_topic=default,
    )


def _retire(rules: Any, faults: list[str]) -> tuple[RetireRule, ...]:
    found = []
    for at, rule in enumerate(rules if isinstance(rules, list) else [rules]):
        match rule:
            case {"applications": str(applications), "after_ms": int(after_ms), "reason": str(reason), **rest} if (
                applications and reason.isprintable() and 0 < len(reason) <= 200 and after_ms >= LEAST_RETIRE_MS and not rest
            ):
                found.append(RetireRule(applications=applications, after_ms=after_ms, reason=reason))
            case _:
                faults.append(
                    f"[[retire]] rule {at + 1} is not: applications (a pattern), after_ms (at least {LEAST_RETIRE_MS}), reason "
                    "(a printable text)"
                )
    return tuple(found)


def _mirror(words: Mapping[str, Any], faults: list[str]) -> str:
    service = words.get("service")
    name = service.get("mirror", "mirror") if isinstance(service, dict) else "mirror"
    if not isinstance(name, str) or not name:
        faults.append(f"[service] mirror={name!r} is not the name of a mirror")
        return "mirror"
    return name


def _url(words: Mapping[str, Any], faults: list[str]) -> str | None:
    service = words.get("service")
    url = service.get("webhook_url") if isinstance(service, dict) else None
    if url is None:
        return None
    parts = urlsplit(url) if isinstance(url, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        faults.append(f"[service] webhook_url={url!r} is not an http:// or https:// address")
        return None
    return str(url)


def _numbers(words: Mapping[str, Any], table: str, faults: list[str], but: Collection[str] = ()) -> dict[str, int]:
    found = words.get(table, {})
    if not isinstance(found, dict):
        faults.append(f"[{table}] is not a table")
        return {}
    numbers = {}
    for name, value in found.items():
        if name in but:
            continue
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
        f"{where} {key}: {tier!r} is not a tier ({', '.join(CHAIN)}, consumer:<group>, sink:<group>)"
        for tier in value
        if not is_tier(tier)
    ]
    return [tier for tier in value if is_tier(tier)]
