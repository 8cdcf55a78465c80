"""DescribeConfigs, key 32, versions 0-4: the settings in force of topics and of this broker, each with its source and, if
asked, its synonyms and its doc.
"""

from collections.abc import Iterable
from typing import Any

from ...wire import topic_name
from ...wire.errors import ErrorCode
from ...wire.messages import control
from ..event_loop.response_generators import ResponseGenerator
from ..settings import topic_settings
from ..settings.definitions import NUMBERS
from ..settings.topic_settings import ConfigSource, ConfigType
from .broker import Broker, required
from .config_changes import BROKER, TOPIC
from .request import Request

KEY = 32

MOST_DESCRIBED = 10_000
"""Resources of one request that are described; further ones are refused by name."""

Synonym = tuple[str, str, ConfigSource]


def handle(broker: Broker, request: Request) -> ResponseGenerator:
    """Return the settings of each resource asked for."""
    decoded = yield from control.decode_in_steps(KEY, request.version, request.body)
    # Each resource once: the settings of a broker are a thousand times as long as its name.
    wanted: dict[tuple[int, str], set[str] | None] = {}
    for one in required(decoded.resources):
        resource = int(one.resource_type), str(one.resource_name)
        others = wanted.get(resource, set())
        keys = {str(key) for key in one.configuration_keys or ()}
        wanted[resource] = keys | others if keys and others is not None else None
        yield
    results = (
        _resource(broker, decoded, *resource, keys) if number < MOST_DESCRIBED else _one_too_many(*resource)
        for number, (resource, keys) in enumerate(wanted.items())
    )
    return (yield from control.encode_in_steps(KEY, request.version, {"throttle_time_ms": 0, "results": results}))


def _one_too_many(kind: int, name: str) -> dict[str, Any]:
    why = f"one request is answered for at most {MOST_DESCRIBED} resources: ask for this one in another"
    return {
        "error_code": ErrorCode.INVALID_REQUEST,
        "error_message": why,
        "resource_type": kind,
        "resource_name": name,
        "configs": (),
    }


def _resource(broker: Broker, request: Any, kind: int, name: str, wanted: set[str] | None) -> dict[str, Any]:
    error, why, configs = ErrorCode.NONE, None, list[dict[str, Any]]()
    if kind == TOPIC and name in broker.topics.catalog.topics:
        configs = list(_of_topic(broker, name))
    elif kind == TOPIC and (fault := topic_name.fault_of(name)) is not None:
        error, why = ErrorCode.INVALID_TOPIC_EXCEPTION, fault
    elif kind == TOPIC:
        error, why = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}"
    elif kind == BROKER and name in ("", str(broker.settings.broker_id)):
        # The broker without a name stands for settings that were changed for all brokers while they ran. There are none.
        configs = list(_of_broker(broker)) if name else []
    elif kind == BROKER:
        error, why = (
            ErrorCode.INVALID_REQUEST,
            f"broker {name!r} was asked for and this one is {broker.settings.broker_id}: ask that one",
        )
    else:
        error, why = ErrorCode.INVALID_REQUEST, f"settings of resource type {kind} are not served: topics (2) and brokers (4) are"
    with_docs, with_synonyms = getattr(request, "include_documentation", False), bool(request.include_synonyms)
    shown = [config for config in configs if wanted is None or config["name"] in wanted]
    for config in shown:
        config |= {} if with_docs else {"documentation": None}
        config |= {} if with_synonyms else {"synonyms": []}
    return {"error_code": error, "error_message": why, "resource_type": kind, "resource_name": name, "configs": shown}


def _of_topic(broker: Broker, topic: str) -> Iterable[dict[str, Any]]:
    own, defaults = broker.entry_config(topic), broker.settings.topic_defaults
    values = topic_settings.values_in_force(own, defaults, broker.topics.catalog.topics[topic].replication_factor)
    for name, (value, source) in values.items():
        setting = topic_settings.TABLE[name]
        for_all = setting.broker_name or name
        synonyms: list[Synonym] = [(name, value, source)] if source is ConfigSource.TOPIC else []
        if name in defaults:
            synonyms.append((for_all, defaults[name], ConfigSource.STATIC_BROKER))
        synonyms.append((for_all, value if source is ConfigSource.DEFAULT else setting.default, ConfigSource.DEFAULT))
        yield _config(name, value, source, setting.type, setting.doc, synonyms, read_only=False)


def _of_broker(broker: Broker) -> Iterable[dict[str, Any]]:
    types = {one.broker_name: one.type for one in topic_settings.TABLE.values() if one.broker_name is not None}
    for one in broker.settings.effective:
        is_default = one.source == "default"
        source = ConfigSource.DEFAULT if is_default else ConfigSource.STATIC_BROKER
        synonyms: list[Synonym] = [] if is_default else [(one.name, one.value, source)]
        synonyms.append((one.name, one.default, ConfigSource.DEFAULT))
        if one.name in NUMBERS:
            kind = ConfigType.LONG
        else:
            kind = types.get(one.name, ConfigType.BOOLEAN if one.value in ("true", "false") else ConfigType.STRING)
        yield _config(one.name, one.value, source, kind, one.doc, synonyms, read_only=True)


def _config(
    name: str,
    value: str,
    source: ConfigSource,
    kind: ConfigType,
    doc: str,
    synonyms: Iterable[Synonym],
    *,
    read_only: bool,
) -> dict[str, Any]:
    return {
        "name": name,
        "value": value or None,
        "read_only": read_only,
        "config_source": source,
        "is_sensitive": False,
        "synonyms": [{"name": one, "value": its, "source": whence} for one, its, whence in synonyms],
        "config_type": kind,
        "documentation": doc,
    }
