"""DescribeConfigs, key 32, versions 1-4: the settings in force of topics, and of this broker, each with its source and, if
asked, its doc.
"""

from collections.abc import Iterable
from typing import Any

from ...wire import control
from ...wire.errors import ErrorCode
from .. import settings as broker_settings
from .. import topic_settings
from ..topic_settings import ConfigSource, ConfigType
from .context import Context, required

KEY = 32

TOPIC, BROKER = 2, 4


def handle(context: Context, version: int, body: memoryview, peer: str) -> bytes:
    """Return the settings of each resource asked for."""
    request = control.decode_request(KEY, version, body)
    results = [_resource(context, request, resource) for resource in required(request.resources)]
    return control.encode_response(KEY, version, {"throttle_time_ms": 0, "results": results})


def _resource(context: Context, request: Any, resource: Any) -> dict[str, Any]:
    kind, name = int(resource.resource_type), str(resource.resource_name)
    wanted = None if resource.configuration_keys is None else {str(key) for key in resource.configuration_keys}
    error, why, configs = ErrorCode.NONE, None, list[dict[str, Any]]()
    if kind == TOPIC and name in context.topics.catalog.topics:
        configs = list(_of_topic(context, name, bool(request.include_synonyms)))
    elif kind == TOPIC:
        error, why = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}"
    elif kind == BROKER and name in ("", str(context.settings.broker_id)):
        configs = list(_of_broker(context))
    elif kind == BROKER:
        error, why = (
            ErrorCode.INVALID_REQUEST,
            f"broker {name!r} was asked for and this one is {context.settings.broker_id}: ask that one",
        )
    else:
        error, why = ErrorCode.INVALID_REQUEST, f"settings of resource type {kind} are not served: topics (2) and brokers (4) are"
    if not getattr(request, "include_documentation", False):
        configs = [{**config, "documentation": None} for config in configs]
    return {
        "error_code": error,
        "error_message": why,
        "resource_type": kind,
        "resource_name": name,
        "configs": [config for config in configs if wanted is None or config["name"] in wanted],
    }


def _of_topic(context: Context, topic: str, with_synonyms: bool) -> Iterable[dict[str, Any]]:
    values = topic_settings.values_in_force(context.entry_config(topic), context.settings.topic_defaults)
    for name, (value, source) in values.items():
        setting = topic_settings.TABLE[name]
        synonyms = [{"name": name, "value": value, "source": source}]
        if source is not ConfigSource.DEFAULT:
            synonyms.append({"name": setting.broker_name or name, "value": setting.default, "source": ConfigSource.DEFAULT})
        yield {
            "name": name,
            "value": value,
            "read_only": False,
            "config_source": source,
            "is_sensitive": False,
            "synonyms": synonyms if with_synonyms else [],
            "config_type": setting.type,
            "documentation": setting.doc,
        }


def _of_broker(context: Context) -> Iterable[dict[str, Any]]:
    settings = context.settings
    values = {name: str(getattr(settings, number.field)) for name, number in broker_settings.NUMBERS.items()}
    values["auto.create.topics.enable"] = str(settings.auto_create_topics).lower()
    values["broker.id"] = str(settings.broker_id)
    for setting in topic_settings.TABLE.values():
        if setting.broker_name is not None:
            values[setting.broker_name] = settings.topic_defaults.get(setting.name, setting.default)
    for name, value in sorted(values.items()):
        yield {
            "name": name,
            "value": value,
            "read_only": True,
            "config_source": ConfigSource.STATIC_BROKER,
            "is_sensitive": False,
            "synonyms": [],
            "config_type": ConfigType.BOOLEAN if value in ("true", "false") else ConfigType.LONG,
            "documentation": None,
        }
