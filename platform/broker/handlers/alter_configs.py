"""AlterConfigs, key 33, versions 0-2: replaces all of a topic's own settings by those in the request.

Trap for users, the same in Kafka: a setting that the request does not name goes back to its default. IncrementalAlterConfigs
changes single settings."""

from collections.abc import Mapping
from typing import Any

from ..event_loop.response_generators import ResponseGenerator
from ..settings import topic_settings
from .broker import Broker
from .config_changes import Plan, carry_out
from .request import Request

KEY = 33


def handle(broker: Broker, request: Request) -> ResponseGenerator:
    """Return the outcome for each resource."""
    return carry_out(broker, request, KEY, _plan)


def _plan(resource: Any, present: Mapping[str, str]) -> Plan:
    given = {str(one.name): one.value for one in resource.configs}
    return Plan(topic_settings.faults_of(given), lambda _: topic_settings.kept(given))
