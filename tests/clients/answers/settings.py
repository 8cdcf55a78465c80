"""Sequences about settings: DescribeConfigs, AlterConfigs, IncrementalAlterConfigs."""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.clients.answers.plain import Table
from tests.clients.answers.sequence import Step, about
from tests.clients.answers.side import Side

DESCRIBE, ALTER, INCREMENT = 32, 33, 44
TOPIC, BROKER, LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = range(4)


def described(
    *resources: tuple[int, str, list[str] | None], synonyms: bool = False, documentation: bool = False
) -> dict[str, Any]:
    """Return a DescribeConfigs request."""
    wanted = [{"resource_type": kind, "resource_name": name, "configuration_keys": keys} for kind, name, keys in resources]
    return {"resources": wanted, "include_synonyms": synonyms, "include_documentation": documentation}


def shown(side: Side, topic: str, has: Mapping[str, str | None]) -> Table:
    """Return the settings in `has`, once they have these values: Kafka's broker learns of a change a little later."""
    request = described((TOPIC, topic, list(has)))
    paths = {f"results[{TOPIC}/{topic}].configs[{name}].value": value for name, value in has.items()}
    return side.until(
        lambda: side.ask(DESCRIBE, 4, request), lambda seen: all(seen.get(path) == value for path, value in paths.items())
    )


@about(DESCRIBE)
def describe_configs(side: Side, version: int, own: str) -> Iterator[Step]:
    side.make(f"{own}-a", config={"retention.ms": "5000", "cleanup.policy": "delete"})

    def ask(*resources: tuple[int, str, list[str] | None], **words: bool) -> Any:
        return side.ask(DESCRIBE, version, described(*resources, **words))

    some = ["retention.ms", "segment.bytes", "cleanup.policy", "no.such", "preallocate"]
    yield "none", ask()
    yield "a topic", ask((TOPIC, f"{own}-a", None))
    yield "some settings", ask((TOPIC, f"{own}-a", some))
    yield "no settings", ask((TOPIC, f"{own}-a", []))
    yield "with synonyms", ask((TOPIC, f"{own}-a", some), synonyms=True)
    documented = ask((TOPIC, f"{own}-a", some), documentation=True)
    yield "documented", {path: bool(value) if path.endswith("documentation") else value for path, value in documented.items()}
    yield "unknown topic", ask((TOPIC, f"{own}-nothing", None))
    yield "bad names", ask((TOPIC, "", None), (TOPIC, "a b", None), (TOPIC, "..", None))
    yield "named twice", ask((TOPIC, f"{own}-a", ["retention.ms"]), (TOPIC, f"{own}-a", ["segment.ms"]))
    of_broker = ["log.retention.ms", "num.partitions", "no.such", "auto.create.topics.enable", "message.max.bytes"]
    yield "the broker", ask((BROKER, "1", of_broker))
    yield "the broker's synonyms", ask((BROKER, "1", of_broker), synonyms=True)
    yield "all brokers", ask((BROKER, "", None))
    yield "another broker", ask((BROKER, "77", None))
    yield "a broker by a word", ask((BROKER, "one", None))
    for kind in (0, 1, 3, 5, 6, 7, 9, 16, 32, 64, 127, -1):
        yield f"kind {kind}", ask((kind, "1", None))
    yield "loggers", {path: value for path, value in ask((LOGGER, "1", ["no.such"])).items() if ".configs" not in path}


@about(ALTER)
def alter_configs(side: Side, version: int, own: str) -> Iterator[Step]:
    topic = side.make(f"{own}-a", config={"retention.ms": "5000"})

    def ask(*resources: tuple[int, str, dict[str, str | None]], validate_only: bool = False) -> Any:
        wanted = [
            {
                "resource_type": kind,
                "resource_name": name,
                "configs": [{"name": key, "value": value} for key, value in configs.items()],
            }
            for kind, name, configs in resources
        ]
        return side.ask(ALTER, version, {"resources": wanted, "validate_only": validate_only})

    yield "none", ask()
    yield "only validated", ask((TOPIC, topic, {"segment.ms": "1000"}), validate_only=True)
    yield "seen then", shown(side, topic, {"retention.ms": "5000", "segment.ms": "604800000"})
    yield "replaced", ask((TOPIC, topic, {"segment.ms": "1000"}))
    yield "seen after", shown(side, topic, {"retention.ms": "604800000", "segment.ms": "1000"})
    yield "emptied", ask((TOPIC, topic, {}))
    yield "seen empty", shown(side, topic, {"retention.ms": "604800000", "segment.ms": "604800000"})
    yield "null", ask((TOPIC, topic, {"retention.ms": None}))
    yield "bad value", ask((TOPIC, topic, {"retention.ms": "soon"}))
    yield "unknown setting", ask((TOPIC, topic, {"no.such": "1"}))
    yield "unknown topic", ask((TOPIC, f"{own}-nothing", {"retention.ms": "1"}))
    yield "bad names", ask((TOPIC, "", {}), (TOPIC, "a b", {}), (TOPIC, "..", {"retention.ms": "1"}))
    if version == 2:
        yield "named twice", ask((TOPIC, topic, {"retention.ms": "1"}), (TOPIC, topic, {"retention.ms": "2"}))
    yield "good and bad", ask((TOPIC, topic, {"retention.ms": "1"}), (TOPIC, f"{own}-nothing", {}))
    yield "another broker", ask((BROKER, "77", {"log.retention.ms": "1"}), validate_only=True)
    yield "a broker by a word", ask((BROKER, "one", {"log.retention.ms": "1"}), validate_only=True)
    yield "unknown setting of the broker", ask((BROKER, "1", {"no.such": "1"}), validate_only=True)
    yield "the broker, read-only", ask((BROKER, "1", {"log.dirs": "/"}), validate_only=True)
    yield "the broker", ask((BROKER, "1", {"log.retention.ms": "1000"}), validate_only=True)
    for kind in (0, 1, 3, 5, 7, 9, 64, -1):
        yield f"kind {kind}", ask((kind, "1", {"a": "b"}))


@about(INCREMENT)
def incremental_alter_configs(side: Side, version: int, own: str) -> Iterator[Step]:
    topic = side.make(f"{own}-a", config={"retention.ms": "5000"})

    def ask(*resources: tuple[int, str, list[tuple[str, int, str | None]]], validate_only: bool = False) -> Any:
        wanted = [
            {
                "resource_type": kind,
                "resource_name": name,
                "configs": [{"name": key, "config_operation": operation, "value": value} for key, operation, value in configs],
            }
            for kind, name, configs in resources
        ]
        return side.ask(INCREMENT, version, {"resources": wanted, "validate_only": validate_only})

    yield "none", ask()
    yield "nothing of it", ask((TOPIC, topic, []))
    yield "only validated", ask((TOPIC, topic, [("segment.ms", SET, "1000")]), validate_only=True)
    yield "set", ask((TOPIC, topic, [("segment.ms", SET, "1000"), ("flush.ms", SET, "77")]))
    yield "seen after", shown(side, topic, {"retention.ms": "5000", "segment.ms": "1000", "flush.ms": "77"})
    yield "spaces and signs", ask((TOPIC, topic, [("segment.ms", SET, " +2000 "), ("preallocate", SET, " False")]))
    yield "seen trimmed", shown(side, topic, {"segment.ms": "2000", "preallocate": "false"})
    yield "deleted", ask((TOPIC, topic, [("segment.ms", DELETE, None), ("flush.ms", DELETE, "88")]))
    yield "seen deleted", shown(side, topic, {"segment.ms": "604800000", "flush.ms": "9223372036854775807"})
    yield "deleted again", ask((TOPIC, topic, [("segment.ms", DELETE, None)]))
    for name, one in {
        "appended to a list": ("cleanup.policy", APPEND, "delete"),
        "appended with spaces": ("cleanup.policy", APPEND, " delete "),
        "appended nothing": ("cleanup.policy", APPEND, ""),
        "appended null": ("cleanup.policy", APPEND, None),
        "appended an unknown": ("cleanup.policy", APPEND, "burn"),
        "appended to a number": ("retention.ms", APPEND, "1"),
        "subtracted from a list": ("cleanup.policy", SUBTRACT, "compact"),
        "subtracted all": ("cleanup.policy", SUBTRACT, "delete"),
        "subtracted from a number": ("retention.ms", SUBTRACT, "1"),
        "set to null": ("retention.ms", SET, None),
        "set to nothing": ("retention.ms", SET, ""),
        "set badly": ("retention.ms", SET, "soon"),
        "unknown": ("no.such", SET, "1"),
        "unknown deleted": ("no.such", DELETE, None),
        "unknown appended to": ("no.such", APPEND, "1"),
        "nameless": ("", SET, "1"),
        "nameless deleted": ("", DELETE, None),
        "no such operation": ("retention.ms", 4, "1"),
        "no operation": ("retention.ms", -1, "1"),
    }.items():
        yield name, ask((TOPIC, topic, [one]), validate_only=True)
    yield "set twice", ask((TOPIC, topic, [("retention.ms", SET, "1"), ("retention.ms", SET, "2")]))
    yield "set and deleted", ask((TOPIC, topic, [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)]))
    yield "unknown topic", ask((TOPIC, f"{own}-nothing", [("retention.ms", SET, "1")]))
    yield "unknown topic, nothing of it", ask((TOPIC, f"{own}-nothing", []))
    yield "bad names", ask((TOPIC, "", []), (TOPIC, "a b", []), (TOPIC, "..", [("retention.ms", SET, "1")]))
    yield "named twice", ask((TOPIC, topic, [("retention.ms", SET, "1")]), (TOPIC, topic, [("segment.ms", SET, "1")]))
    yield "another broker", ask((BROKER, "77", [("log.retention.ms", SET, "1")]), validate_only=True)
    yield "a broker by a word", ask((BROKER, "one", [("log.retention.ms", SET, "1")]), validate_only=True)
    yield "unknown setting of the broker", ask((BROKER, "1", [("no.such", SET, "1")]), validate_only=True)
    yield "the broker, read-only", ask((BROKER, "1", [("log.dirs", SET, "/")]), validate_only=True)
    yield "the broker", ask((BROKER, "1", [("log.retention.ms", SET, "1000")]), validate_only=True)
    yield "the broker, nothing of it", ask((BROKER, "1", []), validate_only=True)
    yield "a logger", ask((LOGGER, "1", [("kafka", SET, "INFO")]), validate_only=True)
    yield "an unknown logger", ask((LOGGER, "1", [("no.such.logger", SET, "INFO")]), validate_only=True)
    for kind in (0, 1, 3, 5, 7, 9, 16, 32, 64, -1):
        yield f"kind {kind}", ask((kind, "1", [("a", SET, "b")]), validate_only=True)
